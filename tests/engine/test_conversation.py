"""What a skill can look back on."""

import asyncio

from accord import Ask, Context
from tests.drive import say, state_of, text_of


async def test_a_skill_sees_the_earlier_tasks_of_its_conversation(connect_rpc, store):
    """The same contextId, oldest first, windowed, without the task itself."""

    async def recall(text: str, ctx: Context):
        earlier = await ctx.conversation(2)
        return " ".join([text, *(task.artifacts[0].text for task in earlier)])

    async with connect_rpc(recall, store=store) as client:
        first = (await client.send("a"))["task"]
        said = [
            text_of((await client.send(say(word, contextId=first["contextId"])))["task"])
            for word in "bcd"
        ]
        assert text_of((await client.send("other"))["task"]) == "other"
    assert said == ["b a", "c a b a", "d b a c a b a"]


async def test_a_skill_knows_what_the_client_can_take(connect):
    """acceptedOutputModes reach the skill, which adapts (SND-10)."""

    async def answer(text: str, ctx: Context):
        return {"x": 1} if "application/json" in ctx.accepted_output_modes else "x is 1"

    async with connect(answer) as client:
        assert text_of((await client.send("hi"))["task"]) == "x is 1"
        wants = say("hi", configuration={"acceptedOutputModes": ["application/json"]})
        assert (await client.send(wants))["task"]["artifacts"][0]["parts"][0]["data"] == {"x": 1}


async def test_a_message_that_waited_for_its_turn_is_answered_in_its_own_modes(connect):
    """It starts the next run, with what its sender can take (SND-10), not with what the first one
    could.
    """
    entered, gate = asyncio.Event(), asyncio.Event()

    async def talk(text: str, ctx: Context):
        if text == "first":
            entered.set()
            await gate.wait()
            return Ask("And?", takes_waiting=True)
        return ", ".join(ctx.accepted_output_modes)

    async with connect(talk) as client:
        now = {"returnImmediately": True, "acceptedOutputModes": ["image/png"]}
        task = (await client.send(say("first", configuration=now)))["task"]
        await entered.wait()
        modes = {"acceptedOutputModes": ["text/plain", "audio/wav"]}
        waiting = asyncio.create_task(
            client.send(say("second", taskId=task["id"], configuration=modes))
        )
        while len((await client.get(task["id"]))["history"]) < 2:  # noqa: ASYNC110  as a client without a stream
            await asyncio.sleep(0.01)
        gate.set()
        done = (await waiting)["task"]
        assert (state_of(done), text_of(done["artifacts"][0])) == (
            "completed",
            "text/plain, audio/wav",
        )
