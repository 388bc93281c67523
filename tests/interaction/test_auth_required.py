"""In-task authorization: AUTH_REQUIRED."""

import asyncio

from accord import Context
from tests.drive import kinds, say, state_of, text_of


async def test_a_task_that_needs_authorization_says_what_for(connect):
    """State AUTH_REQUIRED with an explanation; the blocking send returns with it (ITA-1, SND-3)."""

    async def pay(request: str, ctx: Context):
        await ctx.require_auth("Sign in at https://bank.example")

    async with connect(pay) as client:
        task = (await client.send("pay"))["task"]
        assert (state_of(task), text_of(task["status"]["message"])) == (
            "auth-required",
            "Sign in at https://bank.example",
        )


async def test_streams_stay_open_and_the_work_goes_on_by_itself(connect):
    """The grant comes from elsewhere; no message of the client is needed (ITA-2, ITA-3)."""
    granted = asyncio.get_running_loop().create_future()

    async def pay(request: str, ctx: Context):
        token = await ctx.require_auth("Sign in", until=granted)
        return f"paid with {token}"

    async with connect(pay) as client:
        stream = await client.stream("pay")
        frames = await stream.take(3)
        assert kinds(frames) == ["task submitted", "working", "auth-required"]
        other = await client.subscribe(frames[0]["task"]["id"])
        assert kinds(await other.take(1)) == ["task auth-required"]
        granted.set_result("a token")
        assert (
            kinds(await stream.rest())
            == kinds(await other.rest())
            == ["working", "chunk", "completed"]
        )


async def test_a_message_is_taken_while_authorization_is_awaited(connect):
    """The client may negotiate or refuse; its words authorize nothing by themselves (ITA-4,
    ITA-8).
    """

    async def pay(request: str, ctx: Context):
        answer = await ctx.require_auth("Sign in", until=asyncio.Event().wait())
        return f"not paid: {answer.text}"

    async with connect(pay) as client:
        task = (await client.send("pay"))["task"]
        done = (await client.send(say("I will not", taskId=task["id"])))["task"]
        assert (state_of(done), text_of(done)) == ("completed", "not paid: I will not")


async def test_the_sender_of_a_stream_sees_the_end_of_its_turn_after_the_grant(connect):
    """AUTH_REQUIRED answers whoever blocks and keeps whoever streams (design, rule 3)."""
    granted = asyncio.Event()

    async def pay(request: str, ctx: Context):
        await ctx.require_auth("Sign in", until=granted.wait())
        await ctx.ask("How much?")

    async with connect(pay) as client:
        stream = await client.stream("pay")
        await stream.take(3)
        granted.set()
        assert kinds(await stream.rest()) == ["working", "input-required"]
