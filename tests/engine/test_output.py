"""What a function says: as it comes in streams, as a whole in the task, and once over all
attempts.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from accord import Agent, Artifact, Context, Part
from tests.engine.processes import Disk, Process, Twice, message, state_of, text_of, told, until


async def opened(agent: Agent, **options: Any) -> Process:
    app = agent.app(**options)
    await app.open()
    return Process(app)


def artifacts(task: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [
        (a["artifactId"], a.get("name", ""), "".join(p.get("text", "") for p in a["parts"]))
        for a in task["artifacts"]
    ]


# Text in chunks


def tokens_of(kind: str) -> Any:
    async def stream(text: str) -> AsyncIterator[str]:
        for n in range(1000):
            yield f"{n} "

    def plain_stream(text: str) -> Iterator[str]:
        for n in range(1000):
            yield f"{n} "

    async def write(text: str, ctx: Context) -> None:
        for n in range(1000):
            await ctx.write(f"{n} ")

    async def step(text: str, ctx: Context) -> None:
        await ctx.step(stream, text)

    return {"stream": stream, "plain stream": plain_stream, "write": write, "step": step}[kind]


@pytest.mark.parametrize("kind", ["stream", "plain stream", "write", "step"])
async def test_a_thousand_tokens_are_a_thousand_chunks_in_the_stream_and_one_part_in_the_task(
    store: str, kind: str
) -> None:
    """A model's answer is one text: whoever gets the task is not shown how it was cut up."""
    agent = Agent("Model")
    agent.skill(tokens_of(kind), id="tell")
    process = await opened(agent, store=store)
    async with asyncio.timeout(20):
        frames = await process.stream("SendStreamingMessage", message("go"))
        updates = [
            frame.event["artifactUpdate"] for frame in frames if "artifactUpdate" in frame.event
        ]
        task = await process.get(frames[0].task_id)
        sent = await process.send(message("go"))
    await process.app.close()
    assert [update["artifact"]["parts"] for update in updates] == [
        [{"text": f"{n} "}] for n in range(1000)
    ]
    assert [update.get("append", False) for update in updates] == [False] + [True] * 999
    whole = "".join(f"{n} " for n in range(1000))
    for found in (task, sent):
        assert [artifact["parts"] for artifact in found["artifacts"]] == [[{"text": whole}]]


async def test_the_task_of_a_stream_that_goes_on_has_its_text_as_one_part(disk: Disk) -> None:
    """Also while it is written, and after a restart."""
    agent, there, go_on = Agent("Model"), asyncio.Event(), asyncio.Event()

    @agent.skill(durable=True)
    async def tell(text: str, ctx: Context) -> AsyncIterator[str]:
        for n in range(5):
            yield f"{n} "
        there.set()
        await go_on.wait()
        for n in range(5, 10):
            yield f"{n} "

    async with disk.process(agent) as process:
        task = await process.send(message("go", returnImmediately=True))
        await until(there.is_set)
        assert (await process.get(task["id"]))["artifacts"][0]["parts"] == [{"text": "0 1 2 3 4 "}]
    go_on.set()
    async with disk.process(agent) as process:
        await until(lambda: not process.app._engine.runs.running())
        task = await process.get(task["id"])
    assert [artifact["parts"] for artifact in task["artifacts"]] == [
        [{"text": "0 1 2 3 4 5 6 7 8 9 "}]
    ]


async def test_parts_that_are_meant_to_be_apart_stay_so(store: str) -> None:
    """Those of a whole artifact, and those of a chunk with more than one, or of another kind."""
    agent = Agent("Parts")

    @agent.skill
    async def tell(text: str, ctx: Context) -> None:
        ctx.artifact("one", "two", name="whole")
        ctx.artifact(Part(text="a"), Part(text="b"), Part(data=1), name="mixed")

    process = await opened(agent, store=store)
    task = await process.send(message("go"))
    again = await process.get(task["id"])
    await process.app.close()
    for found in (task, again):
        assert [artifact["parts"] for artifact in found["artifacts"]] == [
            [{"text": "one"}, {"text": "two"}],
            [{"text": "a"}, {"text": "b"}, {"data": 1}],
        ]


# Over attempts


async def test_what_a_step_said_stays_said(twice: Twice) -> None:
    """A step that streams, as of a language model, is not done again: its chunks are not taken away
    for that.
    """

    async def generate() -> AsyncIterator[str]:
        twice.done.append("model")
        for word in ("Once ", "upon ", "a time. "):
            yield word

    @twice.agent.skill(durable=True)
    async def tell(text: str, ctx: Context) -> str:
        said = await ctx.step(generate)
        ctx.write(f"[{len(said.split())} words] ")
        await twice.die()
        return "The end."

    before, after = await twice.run()
    assert text_of(before) == "Once upon a time. [4 words] "
    assert text_of(after) == "Once upon a time. [4 words] The end."
    assert twice.done == ["model"]
    assert artifacts(after)[0][0] == artifacts(before)[0][0]


@pytest.mark.parametrize("is_thread", [False, True])
async def test_artifacts_of_a_step_keep_their_numbers(twice: Twice, is_thread: bool) -> None:
    @twice.agent.skill(durable=True)
    async def write(text: str, ctx: Context) -> None:
        def report() -> None:
            ctx.status("writing")
            ctx.artifact("the report", name="report")

        async def report_too() -> None:
            report()

        await ctx.step(report if is_thread else report_too)
        await twice.die()
        ctx.status("summing up")
        ctx.artifact("the summary", name="summary")

    before, after = await twice.run()
    assert artifacts(before) == [("artifact-1", "report", "the report")]
    assert artifacts(after) == [
        ("artifact-1", "report", "the report"),
        ("artifact-2", "summary", "the summary"),
    ]
    assert [said["parts"][0]["text"] for said in after["history"]] == [
        "go",
        "writing",
        "summing up",
    ]


async def test_what_a_step_said_stays_said_over_a_question_without_durable(disk: Disk) -> None:
    """A function that waits for its answer is called again too, durable or not."""
    agent = Agent("Asks")

    @agent.skill
    async def chat(text: str, ctx: Context) -> str:
        async def generate() -> None:
            ctx.write("said within. ")

        await ctx.step(generate)
        return await ctx.ask("More?")

    async with disk.process(agent) as process:
        task = await process.send(message("go"))
        assert text_of(task) == "said within. "
    async with disk.process(agent) as process:
        assert text_of(await process.send(message("yes", task_id=task["id"]))) == "said within. yes"


async def test_a_step_done_again_says_its_own_again(twice: Twice) -> None:
    """Killed in the middle of a step that says something else the second time: what counts is what
    was said last.
    """

    @twice.agent.skill(durable=True)
    async def tell(text: str, ctx: Context) -> str:
        ctx.write("So: ")

        async def generate() -> None:
            ctx.write("one ")
            ctx.write("two " if twice.is_first else "TWO ")
            await twice.die()
            ctx.write("three ")

        await ctx.step(generate)
        return "end"

    before, after = await twice.run()
    assert text_of(before) == "So: one two "
    assert text_of(after) == "So: one TWO three end"


async def test_output_that_comes_out_different_replaces_the_artifact(twice: Twice) -> None:
    """Readers are sent the artifact as it is now, as a whole."""

    @twice.agent.skill(durable=True)
    async def write(text: str, ctx: Context) -> AsyncIterator[str]:
        yield "a"
        yield "b" if twice.is_first else "B"
        await twice.die()
        yield "c"

    before, after = await twice.run()
    assert (text_of(before), text_of(after)) == ("ab", "aBc")


async def test_versions_of_an_artifact_are_not_sent_again(twice: Twice) -> None:
    """One that was made anew several times does not go back to its first form when the function is
    called again.
    """

    @twice.agent.skill(durable=True)
    async def draw(text: str, ctx: Context) -> None:
        for version in ("first", "second", "third"):
            ctx.artifact(version if twice.is_first else f"{version} again", id="plan")
        await twice.die()

    _, after = await twice.run()
    assert artifacts(after) == [("plan", "", "third")]


async def test_each_branch_has_an_artifact_of_its_own(twice: Twice) -> None:
    """Two that write at once would make one garbled text; their ids are the same in every
    attempt.
    """

    @twice.agent.skill(durable=True)
    async def visit(text: str, ctx: Context) -> None:
        async def one(city: str) -> None:
            ctx.write(f"about {city}")
            await asyncio.sleep(0)
            ctx.write(", more")

        ctx.write("Cities")
        await ctx.gather(one("Rome"), one("Oslo"))
        await twice.die()
        ctx.write(".")

    before, after = await twice.run()
    assert [id_ for id_, _, _ in artifacts(before)] == [id_ for id_, _, _ in artifacts(after)]
    assert [text for _, _, text in artifacts(after)] == [
        "Cities.",
        "about Rome, more",
        "about Oslo, more",
    ]


# What the agent holds


@pytest.mark.parametrize(
    "how", ["part", "artifact", "artifact metadata", "status metadata", "reused part"]
)
async def test_what_the_agent_changes_after_it_was_said_changes_nothing(
    store: str, how: str
) -> None:
    """A task is what its events say: the snapshot says what the stream has told."""
    agent = Agent("Fickle")

    @agent.skill
    async def fickle(text: str, ctx: Context) -> None:
        held: dict[str, Any] = {"a": {"b": 1}}
        if how == "part":
            ctx.artifact(Part(data=held))
        elif how == "artifact":
            ctx.write(Artifact(artifact_id="x", parts=[Part(data=held)]))
        elif how == "artifact metadata":
            ctx.artifact("x", metadata=held)
        elif how == "status metadata":
            ctx.status("x", metadata=held)
        else:
            part = Part(data=held)
            ctx.write(part)
            part.data = "another"
            ctx.write(part)
        held["a"]["b"] = object()  # no JSON any more

    process = await opened(agent, store=store)
    async with asyncio.timeout(10):
        task = await process.send(message("go"))
    await process.app.close()
    assert state_of(task) == "TASK_STATE_COMPLETED", told(task)
    artifact = task.get("artifacts", [{}])[0]
    found = {
        "part": lambda: artifact["parts"],
        "artifact": lambda: artifact["parts"],
        "artifact metadata": lambda: artifact["metadata"],
        "status metadata": lambda: task["metadata"],
        "reused part": lambda: [part["data"] for part in artifact["parts"]],
    }[how]()
    said = {"a": {"b": 1}}
    assert found in ([{"data": said}], said, [said, "another"])
