"""Odd numbers of strangers: wherever one is read, it is refused or ignored, never a 500."""

from urllib.parse import quote

import pytest

from accord.client import NO_RETRY, connect
from accord.model import Unavailable, whole_number
from tests.client.peers import answer, card, scripted, task
from tests.legacy.wire import echo, talking_to

# A superscript passes `isdigit`, Arabic digits pass `int`; long ones fit neither it nor a database.
ODD = ["²", "٣", "9" * 5_000, "9" * 19, "-1", "+1", "1_0", "1 1", "1e3", "0x1", "NaN", "①"]


@pytest.mark.parametrize("text", ODD)
def test_a_whole_number_is_ascii_and_bounded(text):
    """One function reads all numbers of strangers."""
    assert whole_number(text) is None
    assert whole_number(text.encode()) is None


def test_whole_numbers_are_read():
    """Up to what JSON keeps everywhere, or to what the caller says."""
    assert [whole_number(text) for text in ("0", "007", b"42", str(2**53 - 1))] == [
        *(0, 7, 42),
        2**53 - 1,
    ]
    assert (whole_number("65535", 65535), whole_number("65536", 65535)) == (65535, None)
    assert whole_number("") is None


@pytest.mark.parametrize("text", ODD)
async def test_no_number_in_a_query_is_an_internal_error(text):
    """All the numbers of ListTasks and GetTask, in each version of HTTP+JSON."""
    names = ["status", "pageSize", "historyLength", "lastUpdatedAfter", "lastUpdatedTime"]
    async with talking_to(echo) as client:
        for base in ("", "/v1"):
            for name in [*names, "pageToken", "statusTimestampAfter"]:
                query = f"{name}={quote(text)}"
                for path in (f"{base}/tasks?{query}", f"{base}/tasks/none?{query}"):
                    status, _ = await client.rest("GET", path)
                    assert status < 500, path


@pytest.mark.parametrize("after", [[], {}, 1.5, 1e300, True, "", "x"])
async def test_no_other_value_for_a_number_is_an_internal_error(after):
    """Not only texts: JSON has other things to put there."""
    async with talking_to(echo) as client:
        for params in ({"lastUpdatedAfter": after}, {"pageSize": after}, {"status": after}):
            answer = await client.rpc("tasks/list", params)
            assert answer.get("error", {}).get("code") != -32603, params


@pytest.mark.parametrize("text", ODD)
async def test_a_peers_odd_numbers_do_not_stop_a_client(text):
    """A header the client can't read is a header it does not have."""

    def handler(request):
        if request.verb == "POST":
            return answer({"jsonrpc": "2.0", "id": request.json["id"], "result": {"task": task()}})
        return answer(
            card(f"http://{request.headers['host']}/"), cache_control=f"max-age={text}", etag='"7"'
        )

    async with scripted(handler) as peer, connect(peer.url) as client:
        assert (await client.send("hello")).text == "17 crates"


@pytest.mark.parametrize("text", ODD)
async def test_a_peers_odd_pause_is_a_plain_refusal(text):
    """Retry-After of a 503, which is read for the error and for the next attempt."""

    def handler(request):
        if request.verb == "POST":
            return answer("", 503, retry_after=text)
        return answer(card(f"http://{request.headers['host']}/"))

    async with scripted(handler) as peer, connect(peer.url, retry=NO_RETRY) as client:
        with pytest.raises(Unavailable) as refused:
            await client.send("hello")
    assert refused.value.retry_after_s is None
