"""A client of 0.2, as its specification has it: the card, a task, a stream, nothing newer."""

from accord import Context
from tests.legacy.wire import talking_to


async def book(request: str, ctx: Context):
    """Asks once, then answers."""
    yield "a table "
    yield "on " + await ctx.ask("When?")


async def test_a_client_of_0_2_finds_the_agent_and_finishes_a_task():
    """It reads agent.json, sends what its schema demands, and sees only kinds it knows."""
    async with talking_to(book) as client:
        card = await client.ok("GET", "/.well-known/agent.json")
        required = {
            "name",
            "description",
            "url",
            "version",
            "capabilities",
            "defaultInputModes",
            "defaultOutputModes",
            "skills",
        }
        assert required <= set(card)
        assert all({"id", "name", "description", "tags"} <= set(skill) for skill in card["skills"])
        assert card["url"] == client.url + "/"
        modes = {"configuration": {"acceptedOutputModes": ["text"]}}
        message = {
            "kind": "message",
            "messageId": "m-1",
            "role": "user",
            "parts": [{"kind": "text", "text": "book"}],
        }
        events = await client.events("message/stream", {"message": message, **modes})
        assert [event["kind"] for event in events] == [
            "task",
            "status-update",
            "artifact-update",
            "status-update",
        ]
        assert events[-1]["final"] is True
        answer = {
            **message,
            "messageId": "m-2",
            "taskId": events[0]["id"],
            "parts": [{"kind": "text", "text": "Monday"}],
        }
        task = await client.result("message/send", {"message": answer, **modes})
        assert task["status"]["state"] == "completed"
        assert (
            "".join(part["text"] for part in task["artifacts"][0]["parts"]) == "a table on Monday"
        )
        assert [
            message["messageId"] for message in task["history"] if message["role"] == "user"
        ] == ["m-1", "m-2"]
        assert (await client.error("tasks/cancel", {"id": task["id"]}))["code"] == -32002


async def test_the_first_examples_of_0_2_are_understood():
    """They wrote `type` where the schema says `kind`, and left `kind` out of messages."""
    async with talking_to(book) as client:
        message = {"role": "user", "parts": [{"type": "text", "text": "book"}], "messageId": "m-1"}
        task = await client.result("message/send", {"message": message})
        assert task["status"]["state"] == "input-required"


async def test_the_extended_card_is_a_plain_get_that_finds_nothing():
    """Plain HTTP: an agent without one says 404."""
    async with talking_to(book) as client:
        assert (await client.rest("GET", "/agent/authenticatedExtendedCard"))[0] == 404
