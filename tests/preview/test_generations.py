"""Generations: what A2A 1.1 numbers, and what its requests may say of the numbers (3.2.7)."""

import asyncio
import base64
import json

import pytest

from accord import Agent, Context, Message, Part
from accord.model import Role
from tests.drive import refusal_of, say, state_of, text_of


async def two_chunks(request: str):
    yield "a"
    yield "b"


async def question(request: str, ctx: Context) -> str:
    return await ctx.ask(f"{request}?")


async def test_each_event_has_the_next_generation(connect):
    """1 when the task is made, and one more for every change; text in JSON, as ProtoJSON has it."""
    async with connect(two_chunks) as client:
        frames = await (await client.stream("go")).rest()
        assert [next(iter(frame.values()))["generation"] for frame in frames] == [
            str(number) for number in range(1, len(frames) + 1)
        ]
        task_id = frames[0]["task"]["id"]
        assert (await client.get(task_id))["generation"] == str(len(frames))
        [listed] = (await client.list())["tasks"]
        assert listed["generation"] == str(len(frames))


async def test_an_answer_has_its_generation_timeline_and_those_of_its_artifacts(connect):
    """GetTask and SendMessage show how the task came about; lists do not."""
    async with connect(two_chunks) as client:
        task = (await client.send("go"))["task"]
        assert task == await client.get(task["id"])
        kinds = [
            (entry["generation"], "message" if "message" in entry else state_of(entry))
            for entry in task["timeline"]
        ]
        assert kinds == [("1", "message"), ("1", "submitted"), ("2", "working"), ("5", "completed")]
        [artifact] = task["artifacts"]
        assert (artifact["startGeneration"], artifact["endGeneration"]) == ("3", "4")
        [listed] = (await client.list(includeArtifacts=True))["tasks"]
        assert "timeline" not in listed
        assert "startGeneration" not in listed["artifacts"][0]


async def test_the_length_of_the_history_bounds_the_messages_of_the_timeline(connect):
    """Whoever wants no messages gets none there either; the current status keeps its own."""
    async with connect(question) as client:
        task = (await client.send("first"))["task"]
        told = say("second", taskId=task["id"])
        await client.send(told)
        short = await client.get(task["id"], historyLength=1)
        messages = [entry["message"] for entry in short["timeline"] if "message" in entry]
        assert [one["messageId"] for one in messages] == [told["message"]["messageId"]]
        assert "first?" not in str(short["timeline"])
        none = await client.get(task["id"], historyLength=0)
        assert not [entry for entry in none["timeline"] if "message" in entry]


async def test_the_length_of_the_history_bounds_the_statuses_of_the_timeline(connect):
    """The newest are shown; without a length all are."""

    async def steps(request: str, ctx: Context) -> str:
        for n in range(20):
            await ctx.status(f"step {n}")
        return "done"

    async with connect(steps) as client:
        task = (await client.send("go"))["task"]
        whole = (await client.get(task["id"]))["timeline"]
        assert len(whole) == 24  # one message; submitted, working, 20 steps, completed
        generation = int(task["generation"])
        for length, count in ((0, 1), (1, 1), (3, 3), (100, 23)):
            short = (await client.get(task["id"], historyLength=length))["timeline"]
            statuses = [entry for entry in short if "status" in entry]
            assert len(statuses) == count
            assert statuses[-1]["generation"] == str(generation)
            assert [entry["generation"] for entry in statuses] == [
                entry["generation"] for entry in whole if "status" in entry
            ][-count:]
        assert short == whole
        sent = say("go", configuration={"historyLength": 0})
        assert len((await client.send(sent))["task"]["timeline"]) == 1


async def test_a_long_poll_is_answered_when_the_task_is_beyond_its_generation(connect):
    """And at once if it is already; 0 is what every task is beyond."""
    gate = asyncio.Event()

    async def slow(request: str) -> str:
        await gate.wait()
        return "done"

    async with connect(slow) as client:
        task = (await client.send(say("go", configuration={"returnImmediately": True})))["task"]
        known = task["generation"]
        for beyond in ("0", int(known) - 1):
            assert (await client.get(task["id"], currentGeneration=beyond))["generation"] == known
        held = asyncio.ensure_future(client.get(task["id"], currentGeneration=known))
        done, _ = await asyncio.wait({held}, timeout=0.2)
        assert not done
        gate.set()
        changed = await held
        assert int(changed["generation"]) > int(known)
        ended = await client.get(task["id"])
        again = await client.get(task["id"], currentGeneration=ended["generation"])
        assert state_of(again) == "completed"  # nothing will come: the answer does not wait


async def test_a_long_poll_counts_as_a_stream(connect):
    """Of its task, for the limits."""
    from accord import Limits

    async with connect(question, limits=Limits(streams_per_task=1)) as client:
        task = (await client.send("go"))["task"]
        stream = await client.subscribe(task["id"])
        refused = await refusal_of(client.get(task["id"], currentGeneration=task["generation"]))
        assert refused.reason == "RESOURCE_EXHAUSTED"
        beyond = await client.get(task["id"], currentGeneration="0")  # is not held
        assert beyond["generation"] == task["generation"]
        stream.close()


@pytest.mark.parametrize("value", [-1, "-1", "x", "1.5", 2**63, "9" * 30])
async def test_a_number_that_is_no_generation_is_refused(connect, value):
    """With the name of the member, on every binding."""
    async with connect(question) as client:
        if client.binding == "GRPC" and not _fits(value):
            pytest.skip("protobuf can't carry it")
        task = (await client.send("go"))["task"]
        refused = await refusal_of(client.get(task["id"], currentGeneration=value))
        assert "currentGeneration" in refused.violations
        sent = say("x", taskId=task["id"], configuration={"ifGenerationMatch": value})
        refused = await refusal_of(client.send(sent))
        assert "configuration.ifGenerationMatch" in refused.violations


def _fits(value: object) -> bool:
    try:
        return -(2**63) <= int(str(value)) < 2**63
    except ValueError:
        return False


async def test_a_message_for_another_generation_is_refused(connect):
    """Nothing is stored of it, and the error says which generation the task is at."""
    async with connect(question) as client:
        task = (await client.send("go"))["task"]
        wrong = say("x", taskId=task["id"], configuration={"ifGenerationMatch": "1"})
        refused = await refusal_of(client.send(wrong))
        assert refused.reason == "TASK_GENERATION_MISMATCH"
        assert refused.detail == {
            "taskId": task["id"],
            "expectedGeneration": "1",
            "currentGeneration": task["generation"],
        }
        code = {"JSONRPC": -32010, "HTTP+JSON": 409, "GRPC": 10}[client.binding]
        assert refused.code == code
        assert (await client.get(task["id"]))["generation"] == task["generation"]
        right = say("x", taskId=task["id"], configuration={"ifGenerationMatch": task["generation"]})
        assert text_of((await client.send(right))["task"]) == "x"


async def test_a_message_that_makes_a_task_has_no_generation_to_match(connect):
    """The condition is ignored."""
    async with connect(two_chunks) as client:
        sent = say("go", configuration={"ifGenerationMatch": "77"})
        assert state_of((await client.send(sent))["task"]) == "completed"


async def test_a_repeat_under_a_key_gets_its_first_answer(connect):
    """Not a mismatch, though the task has gone on."""
    async with connect(question) as client:
        task = (await client.send("go"))["task"]
        answer = say(
            "x", taskId=task["id"], configuration={"ifGenerationMatch": task["generation"]}
        )
        key = {"Idempotency-Key": "k1"}
        first = (await client.send(answer, headers=key))["task"]
        assert (await client.send(answer, headers=key))["task"] == first


async def test_a_mismatch_leaves_its_key_free(connect):
    """Nothing was taken: who has read the task sends the same message under the same key."""
    async with connect(question) as client:
        task = (await client.send("go"))["task"]
        key = {"Idempotency-Key": "k1"}
        wrong = say("x", taskId=task["id"], configuration={"ifGenerationMatch": "1"})
        for _ in range(2):
            refused = await refusal_of(client.send(wrong, headers=key))
            assert refused.reason == "TASK_GENERATION_MISMATCH"
        right = {**wrong, "configuration": {"ifGenerationMatch": task["generation"]}}
        assert text_of((await client.send(right, headers=key))["task"]) == "x"


async def test_a_mismatch_comes_before_what_else_is_wrong(connect):
    """A client that waits for the mismatch of its generation is told of that, also if its message
    answers a question that is closed.
    """

    async def two_questions(request: str, ctx: Context) -> str:
        return await ctx.ask("one?") + await ctx.ask("two?")

    async with connect(two_questions) as client:
        task = (await client.send("go"))["task"]
        answer = say(
            "x",
            taskId=task["id"],
            metadata=task["status"]["message"]["metadata"],
            configuration={"ifGenerationMatch": task["generation"]},
        )
        assert state_of((await client.send(answer))["task"]) == "input-required"
        refused = await refusal_of(client.send(answer))
        assert refused.reason == "TASK_GENERATION_MISMATCH"


async def test_a_task_that_has_ended_is_at_another_generation(connect):
    """Who answers too late is told that the task has changed, whatever became of it; who knows its
    end, that it has ended.
    """
    async with connect(two_chunks) as client:
        task = (await client.send("go"))["task"]
        for generation, reason in (
            ("1", "TASK_GENERATION_MISMATCH"),
            (task["generation"], "UNSUPPORTED_OPERATION"),
        ):
            late = say("x", taskId=task["id"], configuration={"ifGenerationMatch": generation})
            assert (await refusal_of(client.send(late))).reason == reason


async def test_10_knows_nothing_of_it(connect):
    """Who names 1.0, or no version, gets what a server without the preview gives, member for
    member; what only 1.1 has is ignored in requests, as every member that 1.0 does not know.
    """
    async with connect(question) as client:
        task_id = (await client.send("go"))["task"]["id"]
        for headers in ({"A2A-Version": "1.0"}, {"A2A-Version": ""}):
            task = await client.get(task_id, headers=headers, currentGeneration="99")
            assert "eneration" not in str(task)
            assert "timeline" not in task
            stream = await client.subscribe(task_id, headers=headers)
            assert "eneration" not in str(await stream.next())
            stream.close()
        sent = say("x", taskId=task_id, configuration={"ifGenerationMatch": "1"})
        done = (await client.send(sent, headers={"A2A-Version": "1.0"}))["task"]
        assert state_of(done) == "completed"


async def test_without_the_preview_11_is_refused(connect):
    """As every version that is not served (3.6.2)."""
    async with connect(question, previews=()) as client:
        assert (await refusal_of(client.send("go"))).reason == "VERSION_NOT_SUPPORTED"
        assert "1.1" not in str((await client.card())["supportedInterfaces"])


def test_a_preview_that_does_not_exist_is_named() -> None:
    """And one that is asked for as a version."""
    with pytest.raises(ValueError, match=r"previews 7\.7: choose from 1\.1"):
        Agent("x").app(previews=["7.7"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match=r"--preview 1\.1"):
        Agent("x").app(versions=["1.1"])


async def test_files_in_the_timeline_are_given_as_those_in_the_history(connect):
    """A client can do nothing with a reference to the file store of the server."""

    async def same(request: str, ctx: Context) -> str:
        parts = [Part(text="this?"), Part(raw=bytes(90_000))]
        answer = await ctx.ask(Message(message_id="q", role=Role.AGENT, parts=parts), Message)
        return str(answer.text)

    raw = base64.b64encode(bytes(range(250)) * 400).decode()
    async with connect(same) as client:
        sent = say([{"text": "go"}, {"raw": raw, "filename": "a.bin"}])
        task = (await client.send(sent))["task"]
        assert task == await client.get(task["id"])
        assert "accord-file:" not in json.dumps(task)
        assert state_of(task) == "input-required"
        [said] = [entry["message"] for entry in task["timeline"] if "message" in entry]
        assert said == task["history"][0]
        assert task["timeline"][-1]["status"] == task["status"]
