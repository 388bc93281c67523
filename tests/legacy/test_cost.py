"""An old client is not a slow one."""

import json

from tests.legacy.cost import LIMIT, SENT, Sender, calls, served


async def test_a_0_3_send_does_little_more_than_a_1_0_one():
    """At most 1.3 times the calls; the time they take is for `python -m tests.legacy.cost`
    to show.
    """
    counted = await calls()
    assert counted["0.3"] <= LIMIT * counted["1.0"], counted


async def test_what_is_measured_is_a_whole_send():
    """Each version's send in the measurement ends with the agent's answer."""
    app = served()
    for version in SENT:
        assert "HELLO WORLD" in str(json.loads(await Sender(app, version).send())["result"])
    await app.close()
