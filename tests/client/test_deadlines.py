"""A client sees the deadline of a question, and its answers name the question, over every version
and binding.
"""

import asyncio
import datetime

import pytest

from accord import Agent, Context
from accord.model import (
    QUESTION,
    InvalidParams,
    Message,
    Question,
    Role,
    TaskNotFound,
    TaskState,
    UnsupportedOperation,
)


async def approve(text: str, ctx: Context) -> str:
    is_approved = await ctx.ask("Pay 4,000?", bool, within=60, default=False)
    return f"approved: {is_approved}"


async def test_the_deadline_and_the_id_of_a_question_are_there(reach_any):
    """They stand in the metadata of the message that asks, which every version has."""
    async with reach_any(approve) as client:
        reply = await client.send("Ada")
        [question] = reply.questions
        assert question.text == "Pay 4,000?"
        # 0.3 has no media types of data over HTTP+JSON and gRPC.
        assert question.schema in (None, {"type": "boolean"})
        left = question.expires_at - datetime.datetime.now(datetime.UTC)
        assert datetime.timedelta(seconds=30) < left <= datetime.timedelta(seconds=60)
        assert question.id
        assert reply.task.status.message.metadata[QUESTION]["id"] == question.id
        done = await reply.answer(True)
        assert done.text == "approved: True"
        assert done.questions == []


async def test_an_answer_names_its_question(reach_any):
    """So that it answers no other one."""
    async with reach_any(approve) as client:
        reply = await client.send("Ada")
        await reply.answer("perhaps")  # asked again, under the same id
        with pytest.raises(UnsupportedOperation, match="not open"):
            await client.send("yes", task_id=reply.task_id, metadata={QUESTION: {"id": "another"}})
        assert (await reply.answer(False)).text == "approved: False"
        with pytest.raises(UnsupportedOperation):
            await reply.answer(True)


@pytest.mark.parametrize(
    "named", [{}, {"id": ""}, {"id": 7}, {"id": None}, "1", [], None, {"ID": "1"}]
)
async def test_an_answer_that_names_no_question_is_refused(reach_any, named):
    """It would else answer whatever is asked when it arrives."""
    async with reach_any(approve) as client:
        reply = await client.send("Ada")
        with pytest.raises(InvalidParams, match="does not name a question"):
            await client.send("yes", task_id=reply.task_id, metadata={QUESTION: named})
        assert (await reply.answer(False)).text == "approved: False"


async def test_an_answer_without_a_task_begins_none(reach_any):
    async with reach_any(approve) as client:
        reply = await client.send("Ada")
        metadata = {QUESTION: {"id": reply.questions[0].id}}
        # A client of 0.1 gives every task an id: there it is one that nobody knows.
        with pytest.raises((InvalidParams, TaskNotFound), match=r"names a question|not found"):
            await client.send("yes", metadata=metadata)
        assert (await reply.answer(False)).text == "approved: False"


async def test_a_conversation_names_what_it_answers(reach_new):
    async with reach_new(approve) as client:
        talk = client.conversation()
        asked = await talk.send("Ada")
        done = await talk.send("true")
        sent = done.task.history[-1]
        assert sent.metadata[QUESTION] == {"id": asked.questions[0].id}


async def test_a_late_answer_is_refused_in_words_that_name_the_deadline(reach_any):
    agent, gate = Agent("Test agent"), asyncio.Event()

    @agent.skill
    async def quick(text: str, ctx: Context) -> str:
        is_paid = await ctx.ask("Pay 4,000?", bool, within=0.05, default=False)
        await gate.wait()
        return f"paid: {is_paid}"

    async with reach_any(agent) as client:
        reply = await client.send("Ada")
        async with asyncio.timeout(20):
            while (await client.get(reply.task_id)).state is TaskState.INPUT_REQUIRED:  # noqa: ASYNC110  as a client without a stream
                await asyncio.sleep(0.01)
        with pytest.raises(UnsupportedOperation, match=r"until 20.*Z, and that has passed"):
            await reply.answer(True)
        gate.set()
        assert (await client.wait(reply.task_id)).text == "paid: False"


@pytest.mark.parametrize(
    "given",
    ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "soon", "2030-01-01T00:00:00", 7, None],
)
def test_what_is_no_deadline_is_none(given):
    """An agent is a stranger: what no time zone can show would end the command line."""
    metadata = {QUESTION: {"id": "1", "expiresAt": given}}
    asked = Message(message_id="m", role=Role.AGENT, parts=[], metadata=metadata)
    assert Question.read(asked).expires_at is None
