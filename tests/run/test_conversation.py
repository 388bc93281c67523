"""What a skill can look back on."""

from accord import Context
from tests.drive import say, text_of


async def test_a_skill_sees_the_earlier_tasks_of_its_conversation(connect_rpc, store):
    """The same contextId, oldest first, windowed, without the task itself."""

    async def recall(text: str, ctx: Context):
        earlier = await ctx.conversation(2)
        return " ".join([text, *(task.artifacts[0].text for task in earlier)])

    async with connect_rpc(recall, store=store) as client:
        first = (await client.send("a"))["task"]
        said = [text_of((await client.send(say(word, contextId=first["contextId"])))["task"]) for word in "bcd"]
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
