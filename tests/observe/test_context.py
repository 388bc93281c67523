"""W3C Trace Context on every binding: in, through a run, and out again."""

import pytest

from accord import Agent, Context, connect, observe
from accord.push import PushSettings
from tests.push.webhook import webhook

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"
STATE = "vendor=a1,accord=00f067aa0ba902b7"


def asking(skill, name):
    agent = Agent(name)
    agent.skill(skill)
    return agent


async def report(item: str) -> str:
    parent, state = observe.current_trace()
    return f"{parent} {state}"


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
async def test_a_trace_goes_through_an_agent_on_every_binding(binding):
    """Of both headers; the call of another agent is a span of its own in the same trace."""
    desk = asking(report, "Desk").app(grpc_port=0)
    async with desk.serving() as desk_url, connect(desk_url, binding=binding) as to_desk:

        async def order(item: str, ctx: Context) -> str:
            return (await ctx.delegate(to_desk, item)).text

        shop = asking(order, "Shop").app(grpc_port=0)
        headers = {"traceparent": PARENT, "tracestate": STATE}
        async with (
            shop.serving() as url,
            connect(url, binding=binding, headers=headers) as client,
        ):
            parent, state = (await client.send("shelf")).text.split(" ")
    assert parent.split("-")[1] == TRACE
    assert parent != PARENT
    assert state == STATE


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
async def test_push_notifications_carry_the_trace_of_their_task_also_after_a_restart(
    binding, tmp_path
):
    """Nothing of it needs OpenTelemetry. Each attempt is a span of its own."""
    store, patient = f"sqlite:///{tmp_path}/desk.db", PushSettings(schedule_s=(0.01,) * 10_000)

    def desk():
        return asking(report, "Desk").app(
            store=store, push=patient, grpc_port=0, allow_hosts=["127.0.0.1"]
        )

    headers = {"traceparent": PARENT, "tracestate": STATE}
    async with webhook() as hook:
        hook.judge = lambda call: 503
        async with (
            desk().serving() as url,
            connect(url, binding=binding, headers=headers) as client,
        ):
            await client.send("shelf", push=hook.url)
            await hook.until(lambda calls: len(calls) > 1)
        hook.judge = None
        async with desk().serving():
            calls = await hook.ended()
    spans = {call.headers["traceparent"].split("-")[2] for call in calls}
    assert len(spans) == len(calls)
    assert PARENT.split("-")[2] not in spans
    assert {call.headers["traceparent"].split("-")[1] for call in calls} == {TRACE}
    assert {call.headers["tracestate"] for call in calls} == {STATE}


async def test_the_client_sends_the_trace_it_is_called_in():
    """Unless the caller gave one among the headers."""
    observe.enter(PARENT, STATE)
    other = f"00-{'c' * 32}-{'d' * 16}-00"
    async with connect(asking(report, "Desk")) as client:
        parent, state = (await client.send("x")).text.split(" ")
        assert (parent.split("-")[1], state) == (TRACE, STATE)
    async with connect(asking(report, "Desk"), headers={"Traceparent": other}) as client:
        assert (await client.send("x")).text == f"{other} "


@pytest.mark.parametrize(
    ("parent", "state", "found"),
    [
        (PARENT, STATE, (PARENT, STATE)),
        (PARENT, "", (PARENT, "")),
        (PARENT, "x" * 513, (PARENT, "")),
        (PARENT, "vendor=\u00e9", (PARENT, "")),
        ("nonsense", STATE, ("", "")),
        (f"00-{'0' * 32}-{'b' * 16}-01", STATE, ("", "")),
        (f"00-{'a' * 32}-{'0' * 16}-01", STATE, ("", "")),
    ],
)
async def test_what_is_not_a_trace_is_ignored(parent, state, found):
    """Trace Context, sections 3.2.2 and 3.3."""
    observe.enter(parent, state)
    assert observe.current_trace() == found
    assert bool(observe.outgoing().traceparent) == bool(found[0])
