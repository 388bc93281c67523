"""Histories: what is recorded, the function that is called with it, and what comes of it.

A row says nothing of how it is run. `test_table` runs it on a run in memory.
"""

import asyncio
import dataclasses
import datetime
import decimal
import enum
import functools
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
import pydantic

from accord.engine.durable import Backoff, StepFailed
from accord.engine.durable.history import Mismatch
from accord.engine.log.entries import (
    Answered,
    Asked,
    AskExpired,
    AskLeft,
    Attempt,
    Delegated,
    Entry,
    Patched,
    Released,
    SleepLeft,
    Slept,
    StepEnded,
    StepLeft,
    Woke,
)
from tests.engine.durable.fake import Waits, artifact_entry, message_entry, status_entry

CALLS: list[str] = []  # what was really called; emptied before each attempt


@dataclasses.dataclass(frozen=True)
class Expected:
    result: Any = None
    raises: type[BaseException] | None = None
    match: str = ""  # within the error's text
    # What is new. None means that it does not matter in a first attempt, and nothing in a later
    # one.
    calls: tuple[str, ...] | None = None
    records: tuple[Entry, ...] | None = None  # private entries
    sent: tuple[tuple[str, str, bool], ...] | None = None  # artifacts: id, text, append
    statuses: tuple[str, ...] | None = None
    artifacts: dict[str, str] | None = (
        None  # all the task has in the end; None if it does not matter
    )


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    recorded: tuple[Entry, ...]
    function: Callable[[Any], Awaitable[Any]]
    expected: Expected
    answers: tuple[str, ...] = ()  # of the client, to new questions
    is_repeatable: bool = (
        True  # whether another attempt, wherever this one breaks off, comes to the same
    )


# What functions do in steps


async def search(what: str) -> str:
    CALLS.append(f"search {what}")
    return f"found {what}"


async def book(what: str) -> int:
    CALLS.append(f"book {what}")
    return len(what)


def plain(what: str) -> str:
    CALLS.append(f"plain {what}")
    return what.upper()


async def fail(what: str) -> str:
    CALLS.append(f"fail {what}")
    raise ValueError(what)


async def hang() -> str:
    CALLS.append("hang")
    await asyncio.get_running_loop().create_future()
    return "never"


async def stream(text: str) -> AsyncIterator[str]:
    CALLS.append(f"stream {text}")
    for letter in text:
        yield letter


class Color(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Trip:
    to: str
    on: datetime.date


class Seat(msgspec.Struct):
    row: int
    side: str = "window"


class Guest(pydantic.BaseModel):
    name: str
    born: datetime.datetime


# Entries, short


def ended(name: str, value: Any, n: int = 1, branch: str = "") -> StepEnded:
    return StepEnded(branch, name, n, msgspec.Raw(msgspec.json.encode(value)))


def failed(name: str, type: str, message: str, n: int = 1, branch: str = "") -> StepEnded:
    return StepEnded(branch, name, n, msgspec.Raw(b"null"), type, message)


def left(name: str, n: int = 1, branch: str = "") -> StepLeft:
    return StepLeft(branch, name, n)


def answered(
    text: str, answer: str, n: int = 1, branch: str = "", type: str = "str", is_named: bool = False
) -> tuple[Entry, ...]:
    return (
        Asked(branch, n, text, type, is_named=is_named),
        message_entry(answer),
        Answered(branch, n, 0),
    )


ROWS: list[Row] = []


def row(
    name: str,
    *recorded: Entry,
    answers: tuple[str, ...] = (),
    is_repeatable: bool = True,
    **expected: Any,
) -> Callable[[Callable[[Any], Awaitable[Any]]], Callable[[Any], Awaitable[Any]]]:
    """Add a row. Several rows may have the same function."""

    def add(function: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
        ROWS.append(Row(name, recorded, function, Expected(**expected), answers, is_repeatable))
        return function

    return add


# Plain steps


@row(
    "the first attempt",
    result="found b 1",
    calls=("search a", "book a", "search b"),
    records=(ended("search", "found a"), ended("book", 1), ended("search", "found b", 2)),
)
@row(
    "one of three steps is recorded",
    ended("search", "found a"),
    result="found b 1",
    calls=("book a", "search b"),
    records=(ended("book", 1), ended("search", "found b", 2)),
)
@row(
    "everything is recorded",
    ended("search", "x"),
    ended("book", 7),
    ended("search", "y", 2),
    result="y 7",
)
@row(
    "two attempts died, a third goes on",
    ended("search", "found a"),
    Attempt(1),
    ended("book", 1),
    Attempt(1),
    Released(1.0),
    result="found b 1",
    calls=("search b",),
    records=(ended("search", "found b", 2),),
)
@row(
    "a step that is called no more",
    ended("other", 1),
    raises=Mismatch,
    match="calls step 'search' (call 1), where step 'other' (call 1)",
)
@row(
    "a step in place of another",
    ended("search", "x"),
    ended("other", 1),
    raises=Mismatch,
    match="calls step 'book' (call 1), where step 'other' (call 1) was recorded; deploy the "
    "version",
)
@row(
    "one more was recorded than is called",
    ended("search", "x"),
    ended("book", 7),
    ended("search", "y", 2),
    ended("search", "z", 3),
    raises=Mismatch,
    match="now ends, where step 'search' (call 3)",
)
@row(
    "a question in place of a step",
    *answered("Where?", "Rome"),
    raises=Mismatch,
    match="where question 1 ('Where?') was recorded",
)
@row(
    "a result of another type",
    ended("search", "x"),
    ended("book", "no number"),
    raises=Mismatch,
    match="does not fit any more",
)
@row(
    "a delegation in place of a step",
    Delegated("", "search", 1, "agent", "t"),
    raises=Mismatch,
    match="where a delegation was recorded",
)
async def three_steps(ctx: Any) -> str:
    await ctx.step(search, "a")
    n = await ctx.step(book, "a")
    return f"{await ctx.step(search, 'b')} {n}"


@row(
    "the order of steps has no meaning while all are recorded",
    ended("book", 7),
    ended("search", "x"),
    result="x7",
)
@row(
    "only the later one is recorded", ended("book", 7), raises=Mismatch, match="calls step 'search'"
)
async def search_then_book(ctx: Any) -> str:
    return f"{await ctx.step(search, 'a')}{await ctx.step(book, 'a')}"


@row("arguments are not compared", ended("search", "found Rome"), result="found Rome")
async def other_argument(ctx: Any) -> str:
    return str(await ctx.step(search, str(uuid.uuid4())))


@row(
    "a name counts, not the function",
    ended("first", "x"),
    result="x2",
    calls=("book ab",),
    records=(ended("second", 2),),
)
async def named(ctx: Any) -> str:
    return f"{await ctx.step(search, 'a', name='first')}{await ctx.step(book, 'ab', name='second')}"


@row("a plain function", result="HO", calls=("plain ho",), records=(ended("plain", "HO"),))
async def thread(ctx: Any) -> str:
    return str(await ctx.step(plain, "ho"))


@row(
    "the number is taken when a step is awaited",
    ended("search", "1st"),
    ended("search", "2nd", 2),
    result=["2nd", "1st"],
)
async def awaited_later(ctx: Any) -> list[str]:
    one, two = ctx.step(search, "a"), ctx.step(search, "b")
    second = await two
    first = await one
    return [first, second]


@row("a lambda without a name", raises=TypeError, match="a lambda has no name", is_repeatable=False)
async def unnamed_lambda(ctx: Any) -> Any:
    return await ctx.step(lambda: 1)


@row(
    "a partial without a name",
    raises=TypeError,
    match="a functools.partial has no name",
    is_repeatable=False,
)
async def unnamed_partial(ctx: Any) -> Any:
    return await ctx.step(functools.partial(search, "a"))


@row(
    "a lambda and a partial with names",
    result=["found a", "found b"],
    calls=("search a", "search b"),
    records=(ended("one", "found a"), ended("two", "found b")),
)
@row(
    "a lambda and a partial with names, recorded",
    ended("one", "x"),
    ended("two", "y"),
    result=["x", "y"],
)
async def named_lambda(ctx: Any) -> list[Any]:
    return [
        await ctx.step(lambda: search("a"), name="one"),
        await ctx.step(functools.partial(search, "b"), name="two"),
    ]


@row(
    "what was called already",
    raises=TypeError,
    match="ctx.step takes a function and its arguments",
    is_repeatable=False,
)
async def called_already(ctx: Any) -> Any:
    return await ctx.step(search("a"))


@row(
    "a step within a step is a plain call",
    result="found aFOUND A",
    calls=("search a", "plain found a"),
    records=(ended("outer", "found aFOUND A"),),
)
async def step_in_step(ctx: Any) -> str:
    async def outer() -> str:
        found = await ctx.step(search, "a")
        return str(found + await ctx.step(lambda: plain(found)))

    return str(await ctx.step(outer))


@row("the key of a step", result=["task/1/keyed#1", "task/1/keyed#2", "task/1/0.0/keyed#1"])
async def keys(ctx: Any) -> list[str]:
    async def keyed() -> str:
        return str(ctx.step_key)

    def in_thread() -> str:
        return str(ctx.step_key)

    one, two = await ctx.step(keyed), await ctx.step(in_thread, name="keyed")
    return [one, two, *await ctx.gather(ctx.step(keyed))]


@row("the key outside of a step", raises=TypeError, match="belongs to a step", is_repeatable=False)
async def key_outside(ctx: Any) -> str:
    return str(ctx.step_key)


# Failures


@row(
    "a step that raises",
    result="ValueError|boom|ValueError",
    calls=("fail boom",),
    records=(failed("fail", "ValueError", "boom"),),
    is_repeatable=False,  # only the first attempt has the cause
)
@row("a step that raised", failed("fail", "ValueError", "boom"), result="ValueError|boom|None")
async def failing(ctx: Any) -> str:
    try:
        await ctx.step(fail, "boom")
    except StepFailed as error:
        return f"{error.type}|{error.message}|{type(error.__cause__).__name__ if error.__cause__ else None}"  # noqa: E501
    return "no error"


@row(
    "an uncaught failure",
    failed("fail", "ValueError", "boom"),
    raises=StepFailed,
    match="step 'fail' failed: ValueError: boom",
)
async def uncaught(ctx: Any) -> None:
    await ctx.step(fail, "boom")


@row("retries", result="3rd", records=(ended("flaky", "3rd"),))
async def retried(ctx: Any) -> str:
    tries = []

    async def flaky() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise OSError
        return "3rd"

    return str(await ctx.step(flaky, retries=2))


@row(
    "retries used up",
    raises=StepFailed,
    match="ValueError: x",
    calls=("fail x", "fail x"),
    records=(failed("fail", "ValueError", "x"),),
)
async def retried_in_vain(ctx: Any) -> None:
    await ctx.step(fail, "x", retries=1)


@row(
    "a back-off, only after some exceptions",
    raises=StepFailed,
    match="ValueError: x",
    calls=("fail x",),
    records=(failed("fail", "ValueError", "x"),),
)
async def retried_on_another(ctx: Any) -> None:
    await ctx.step(fail, "x", retry=Backoff(times=5, on=(ConnectionError,)))


@row(
    "a timeout",
    result="TimeoutError|not done within 0.01 s",
    calls=("hang",),
    records=(failed("hang", "TimeoutError", "not done within 0.01 s"),),
)
@row("a recorded timeout", failed("hang", "TimeoutError", "late"), result="TimeoutError|late")
async def timed(ctx: Any) -> str:
    try:
        return str(await ctx.step(hang, timeout=0.01))
    except StepFailed as error:
        return f"{error.type}|{error.message}"


@row(
    "a step that raises CancelledError by itself",
    result="CancelledError",
    records=(failed("broken", "CancelledError", ""),),
)
async def self_cancelled(ctx: Any) -> str:
    async def broken() -> None:
        raise asyncio.CancelledError

    try:
        await ctx.step(broken)
    except StepFailed as error:
        return error.type
    return ""


@row("a result too large", result="ResultTooLarge")
async def too_large(ctx: Any) -> str:
    async def large() -> str:
        return "x" * 2_000_000

    try:
        await ctx.step(large)
    except StepFailed as error:
        return error.type
    return ""


# Steps and questions that are left


@row(
    "a step is left",
    result="late",
    calls=("hang", "search a"),
    records=(left("hang"), ended("search", "found a")),
)
@row(
    "a step was left",
    left("hang"),
    result="late",
    calls=("search a",),
    records=(ended("search", "found a"),),
)
@row(
    "a step ended while it was left",
    ended("hang", "x"),
    left("hang"),
    ended("search", "found a"),
    result="late",
)
async def leaves(ctx: Any) -> str:
    try:
        async with asyncio.timeout(0.01):
            return str(await ctx.step(hang))
    except TimeoutError:
        await ctx.step(search, "a")
        return "late"


@row("a question is left", result="nobody", records=(Asked("", 1, "Where?", "str"), AskLeft("", 1)))
@row("a question was left", Asked("", 1, "Where?", "str"), AskLeft("", 1), result="nobody")
@row("a question was answered", *answered("Where?", "Rome"), result="Rome")
async def leaves_question(ctx: Any) -> str:
    try:
        async with asyncio.timeout(0.01):
            return str(await ctx.ask("Where?"))
    except TimeoutError:
        return "nobody"


# Sleeps and deadlines. The run in memory has the time 1,000; there, and on the engine, what is due
# at 1 is due.


@row(
    "a sleep",
    result="found a",
    calls=("search a",),
    records=(Slept("", 1, 1_000), Woke("", 1), ended("search", "found a")),
)
@row(
    "a timer that is due fires",
    Slept("", 1, 1),
    result="found a",
    calls=("search a",),
    records=(Woke("", 1), ended("search", "found a")),
)
@row(
    "a timer that was set by an attempt which was given up",
    Slept("", 1, 1),
    Released(1.0),
    result="found a",
    calls=("search a",),
    records=(Woke("", 1), ended("search", "found a")),
)
@row(
    "a timer has fired, whatever the clock says",
    Slept("", 1, 1 << 52),
    Woke("", 1),
    result="found a",
    calls=("search a",),
    records=(ended("search", "found a"),),
)
@row(
    "a timer has fired, and more was done",
    Slept("", 1, 1),
    Woke("", 1),
    ended("search", "x"),
    result="x",
)
@row(
    "a step in place of a sleep",
    ended("other", 1),
    raises=Mismatch,
    match="now sleeps (sleep 1), where step 'other' (call 1) was recorded",
)
@row(
    "a sleep more than is slept",
    Slept("", 1, 1),
    Woke("", 1),
    Slept("", 2, 1),
    raises=Mismatch,
    match="calls step 'search' (call 1), where sleep 2 was recorded",
)
async def sleeps(ctx: Any) -> str:
    await ctx.sleep(0)
    return str(await ctx.step(search, "a"))


@row("a sleep is left", result="woken", records=(Slept("", 1, 6_000), SleepLeft("", 1)))
@row("a sleep was left", Slept("", 1, 1), SleepLeft("", 1), result="woken")
async def leaves_sleep(ctx: Any) -> str:
    try:
        async with asyncio.timeout(0.01):
            await ctx.sleep(5)
    except TimeoutError:
        return "woken"
    return "slept"


@row("members of a gather sleep", result=["found a", "found b"])
@row(
    "one of two timers has fired",
    Slept("0.0", 1, 1),
    Slept("0.1", 1, 1),
    Woke("0.1", 1),
    result=["found a", "found b"],
    calls=("search a", "search b"),
    records=(
        Woke("0.0", 1),
        ended("search", "found a", branch="0.0"),
        ended("search", "found b", branch="0.1"),
    ),
)
async def sleep_side_by_side(ctx: Any) -> list[str]:
    async def one(what: str) -> str:
        await ctx.sleep(0)
        return str(await ctx.step(search, what))

    return list(await ctx.gather(one("a"), one("b")))


@row(
    "a question expires",
    result="nobody",
    records=(Asked("", 1, "Where?", "str", expires_ms=1_000), AskExpired("", 1)),
)
@row(
    "a question has expired",
    Asked("", 1, "Where?", "str", expires_ms=1),
    AskExpired("", 1),
    result="nobody",
)
@row(
    "a question was answered before its deadline",
    Asked("", 1, "Where?", "str", expires_ms=1),
    message_entry("Rome"),
    Answered("", 1, 0),
    result="Rome",
)
@row(
    "a deadline passes while nobody is there",
    Asked("", 1, "Where?", "str", expires_ms=1),
    result="nobody",
    records=(AskExpired("", 1),),
)
@row(
    "another question has expired",
    Asked("", 1, "Where to?", "str", expires_ms=1),
    AskExpired("", 1),
    raises=Mismatch,
    match="asks 'Where?' (question 1), where 'Where to?' was asked and not answered in time",
)
async def asks_in_time(ctx: Any) -> str:
    return str(await ctx.ask("Where?", within=0, default="nobody"))


# Questions


@row(
    "a question is asked and answered",
    answers=("Rome", "2"),
    result="Rome 2 found Rome",
    calls=("search Rome",),
)
@row("a question waits", raises=Waits, records=(Asked("", 1, "Where?", "str"),))
@row(
    "an open question is asked again",
    Asked("", 1, "Where?", "str"),
    raises=Waits,
    records=(Asked("", 1, "Where?", "str"),),
)
@row(
    "an open question may change",
    Asked("", 1, "Where to?", "str"),
    raises=Waits,
    records=(Asked("", 1, "Where?", "str"),),
)
@row(
    "the first is answered",
    *answered("Where?", "Rome"),
    raises=Waits,
    records=(Asked("", 2, "How many?", "int"),),
)
@row(
    "both are answered",
    *answered("Where?", "Rome"),
    *answered("How many?", "2", 2, type="int"),
    ended("search", "x"),
    result="Rome 2 x",
)
@row(
    "another text",
    *answered("Where to?", "Rome"),
    raises=Mismatch,
    match="asks 'Where?' (question 1), where 'Where to?' was asked",
)
@row(
    "another type",
    *answered("Where?", "Rome"),
    *answered("How many?", "2", 2),
    raises=Mismatch,
    match="'How many?' for an answer of type int (question 2), where 'How many?' for one of type "
    "str",
)
@row(
    "a wrong answer, then a right one",
    *answered("Where?", "Rome"),
    *answered("How many?", "two", 2, type="int"),
    *answered("How many?", "2", 2, type="int"),
    ended("search", "x"),
    result="Rome 2 x",
)
@row(
    "a wrong answer, and none yet",
    *answered("Where?", "Rome"),
    *answered("How many?", "two", 2, type="int"),
    raises=Waits,
    records=(Asked("", 2, "How many?", "int"),),
)
@row(
    "a step in place of a question",
    ended("search", "x"),
    raises=Mismatch,
    match="asks 'Where?' (question 1), where step 'search'",
)
async def questions(ctx: Any) -> str:
    where = await ctx.ask("Where?")
    many = await ctx.ask("How many?", int)
    return f"{where} {many} {await ctx.step(search, where)}"


@row(
    "a named question may be worded anew", *answered("where", "Rome", is_named=True), result="Rome"
)
@row(
    "a renamed question",
    *answered("place", "Rome", is_named=True),
    raises=Mismatch,
    match="where 'place' was asked",
)
@row(
    "a question that had no name", *answered("where", "Rome"), raises=Mismatch, match="asks 'where'"
)
@row(
    "a named question of another type",
    *answered("where", "1", type="int", is_named=True),
    raises=Mismatch,
    match="of type int",
)
async def named_question(ctx: Any) -> str:
    return str(await ctx.ask(f"Where? {uuid.uuid4()}", name="where"))


@row("questions of a user's task", answers=("a", "b"), result=["a", "b"])
@row(
    "questions of a user's task, recorded",
    *answered("1?", "a"),
    *answered("2?", "b", 2),
    result=["a", "b"],
)
async def tools(ctx: Any) -> list[str]:
    async def tool(question: str) -> str:
        return str(await ctx.ask(question))

    return [await asyncio.create_task(tool("1?")), await asyncio.create_task(tool("2?"))]


# Branches


@row(
    "branches, in any order of completion",
    result=["found slow", "found quick"],
    calls=("search quick", "search slow"),
    records=(
        ended("search", "found quick", branch="0.1"),
        ended("search", "found slow", branch="0.0"),
    ),
)
@row(
    "the quick branch is recorded",
    ended("search", "Q", branch="0.1"),
    result=["found slow", "Q"],
    calls=("search slow",),
    records=(ended("search", "found slow", branch="0.0"),),
)
@row(
    "both branches are recorded",
    ended("search", "Q", branch="0.1"),
    ended("search", "S", branch="0.0"),
    result=["S", "Q"],
)
@row(
    "a branch has changed",
    ended("other", 1, branch="0.1"),
    raises=Mismatch,
    match="calls step 'search' (call 1) in branch 0.1",
)
@row(
    "a branch ends too soon",
    ended("search", "Q", 2, branch="0.1"),
    raises=Mismatch,
    match="in branch 0.1",
)
@row(
    "a branch that is no more",
    ended("search", "Q", branch="0.1"),
    ended("search", "S", branch="0.0"),
    ended("search", "T", branch="0.2"),
    raises=Mismatch,
    match="now ends in branch 0.2",
)
async def branches(ctx: Any) -> list[str]:
    async def slow() -> str:
        for _ in range(10):
            await asyncio.sleep(0)
        return str(await ctx.step(search, "slow"))

    return list(await ctx.gather(slow(), ctx.step(search, "quick")))


@row(
    "a step in place of a gather",
    ended("search", "S", branch="0.0"),
    raises=Mismatch,
    match="ends in branch 0.0",
    calls=("search a",),
    records=(ended("search", "found a"),),
)
async def no_gather(ctx: Any) -> None:
    await ctx.step(search, "a")


@row(
    "nested branches",
    result=[["found a", "found b"], "found c", ["found d"]],
    records=(
        ended("search", "found c", branch="0.1"),
        ended("search", "found a", branch="0.0/0.0"),
        ended("search", "found b", branch="0.0/0.1"),
        ended("search", "found d", branch="1.0"),
    ),
    calls=("search c", "search a", "search b", "search d"),
)
@row(
    "nested branches, some recorded",
    ended("search", "B", branch="0.0/0.1"),
    result=[["found a", "B"], "found c", ["found d"]],
    calls=("search c", "search a", "search d"),
    records=(
        ended("search", "found c", branch="0.1"),
        ended("search", "found a", branch="0.0/0.0"),
        ended("search", "found d", branch="1.0"),
    ),
)
async def nested(ctx: Any) -> list[Any]:
    async def both() -> list[str]:
        return list(await ctx.gather(ctx.step(search, "a"), ctx.step(search, "b")))

    first = await ctx.gather(both(), ctx.step(search, "c"))
    return [*first, list(await ctx.gather(ctx.step(search, "d")))]


@row(
    "the first failure by position, after all have ended",
    result="one",
    calls=("fail two", "fail one", "search x"),
    is_repeatable=False,  # how often the third is called
)
@row(
    "recorded failures",
    failed("fail", "ValueError", "two", branch="0.1"),
    failed("fail", "ValueError", "one", branch="0.0"),
    ended("search", "x", branch="0.2"),
    result="one",
)
async def failing_branches(ctx: Any) -> str:
    async def late(ctx: Any, function: Any, what: str, turns: int) -> str:
        for _ in range(turns):
            await asyncio.sleep(0)
        return str(await ctx.step(function, what))

    try:
        await ctx.gather(
            late(ctx, fail, "one", 5), ctx.step(fail, "two"), late(ctx, search, "x", 20)
        )
    except StepFailed as error:
        return error.message
    return "?"


@row(
    "branches that are cancelled leave their steps",
    result="late",
    calls=("search a", "hang"),
    records=(ended("search", "found a", branch="0.0"), left("hang", branch="0.1")),
)
@row(
    "cancelled branches, recorded",
    ended("search", "A", branch="0.0"),
    left("hang", branch="0.1"),
    result="late",
)
async def cancelled_branches(ctx: Any) -> str:
    try:
        async with asyncio.timeout(0.02):
            await ctx.gather(ctx.step(search, "a"), ctx.step(hang))
    except TimeoutError:
        return "late"
    return "?"


@row("a branch that asks", answers=("Rome",), result=["Rome", "found a"], calls=("search a",))
@row(
    "a branch that asked",
    *answered("Where?", "Rome", branch="0.0"),
    ended("search", "A", branch="0.1"),
    result=["Rome", "A"],
)
async def asking_branch(ctx: Any) -> list[str]:
    return list(await ctx.gather(ctx.ask("Where?"), ctx.step(search, "a")))


@row(
    "gather takes coroutines",
    raises=TypeError,
    match="ctx.gather takes coroutines",
    is_repeatable=False,
)
async def gathers_functions(ctx: Any) -> None:
    await ctx.gather(ctx.step(search, "a"), search)


@row(
    "gather within a step",
    result=["found a", "found b"],
    calls=("search a", "search b"),
    records=(ended("outer", ["found a", "found b"]),),
)
async def gather_in_step(ctx: Any) -> Any:
    async def outer() -> list[str]:
        return list(await ctx.gather(ctx.step(search, "a"), search("b")))

    return await ctx.step(outer)


# Tasks of the user's


@row("a step in a user's task", raises=TypeError, match="use ctx.gather", is_repeatable=False)
async def foreign(ctx: Any) -> Any:
    return await asyncio.create_task(ctx.step(search, "a"))


@row(
    "gather in a user's task",
    raises=TypeError,
    match="ctx.gather was called in a task of your own",
    is_repeatable=False,
)
async def foreign_gather(ctx: Any) -> Any:
    return await asyncio.create_task(ctx.gather(ctx.step(search, "a")))


@row(
    "named steps in users' tasks",
    result=["found a", "found b"],
    calls=("search a", "search b"),
    records=(ended("one", "found a", branch="@one"), ended("two", "found b", branch="@two")),
)
@row(
    "named steps in users' tasks, one recorded",
    ended("two", "B", branch="@two"),
    result=["found a", "B"],
    calls=("search a",),
    records=(ended("one", "found a", branch="@one"),),
)
async def foreign_named(ctx: Any) -> list[str]:
    async with asyncio.TaskGroup() as group:
        one = group.create_task(ctx.step(search, "a", name="one"))
        two = group.create_task(ctx.step(search, "b", name="two"))
    return [one.result(), two.result()]


@row(
    "the same name in two tasks", raises=TypeError, match="have the name 'one'", is_repeatable=False
)
async def foreign_twice(ctx: Any) -> None:
    await asyncio.create_task(ctx.step(search, "a", name="one"))
    await asyncio.create_task(ctx.step(search, "b", name="one"))


@row(
    "a task that is not waited for",
    ended("bg", "x", branch="@bg"),
    result="over",
    is_repeatable=False,
)
async def background(ctx: Any) -> str:
    task = asyncio.create_task(ctx.step(search, "a", name="bg"))
    task.add_done_callback(lambda task: task.cancelled() or task.exception())
    return "over"


# Values


@row("values of every type", result=True)
async def values(ctx: Any) -> bool:
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=datetime.UTC)
    cases: list[tuple[Any, Any]] = [
        (None, {"a": [1, 1.5, None, True, "é"]}),
        (Trip, Trip("Rome", datetime.date(2026, 1, 2))),
        (list[Trip], [Trip("Rome", datetime.date(2026, 1, 2))]),
        (Seat, Seat(3)),
        (Guest, Guest(name="Ann", born=moment)),
        (dict[str, Guest], {"a": Guest(name="Ann", born=moment)}),
        (bytes, b"\0\xff"),
        (datetime.datetime, moment),
        (datetime.timedelta, datetime.timedelta(days=1, microseconds=5)),
        (uuid.UUID, uuid.UUID(int=5)),
        (decimal.Decimal, decimal.Decimal("1.10")),
        (Color, Color.RED),
        (tuple[int, str], (1, "a")),
        (set[int], {1, 2}),
        (Seat | None, None),
    ]
    for type_, value in cases:

        async def give(value: Any = value) -> Any:
            return value

        back = await ctx.step(give, returns=type_)
        if back != value or type(back) is not type(value):
            return False
    return True


@row(
    "a result that is no JSON",
    raises=TypeError,
    match="step 'trip' gave a Trip",
    is_repeatable=False,
)
async def unannotated(ctx: Any) -> None:
    def trip():  # type: ignore[no-untyped-def]  # that is the point
        return Trip("Rome", datetime.date(2026, 1, 2))

    await ctx.step(trip)


@row(
    "a type that can't be read back",
    raises=TypeError,
    match="can't be read back as its type object_",
    is_repeatable=False,
)
async def unreadable(ctx: Any) -> None:
    class object_:  # noqa: N801
        pass

    def make() -> object_:
        CALLS.append("make")  # it is refused before the call
        return object_()

    await ctx.step(make)


# Patches


@row(
    "a patch in a new run",
    result="new",
    calls=("search new",),
    records=(Patched("", "pricing"), ended("search", "found new")),
)
@row("a patch that was taken", Patched("", "pricing"), ended("search", "x"), result="new")
@row("a patch after the record", ended("book", 7), result="old")
@row(
    "a patch taken, nothing after it",
    Patched("", "pricing"),
    result="new",
    calls=("search new",),
    records=(ended("search", "found new"),),
)
async def patches(ctx: Any) -> str:
    if ctx.patched("pricing"):
        await ctx.step(search, "new")
        return "new" if ctx.patched("pricing") else "?"
    await ctx.step(book, "old")
    return "old" if not ctx.patched("pricing") else "?"


@row(
    "a patch before branches that were begun",
    ended("search", "x", branch="0.0"),
    result=[False, ["x"]],
)
async def patch_before_gather(ctx: Any) -> list[Any]:
    return [ctx.patched("new"), list(await ctx.gather(ctx.step(search, "a")))]


@row("a patch is no longer asked for", Patched("", "pricing"), ended("search", "x"), result="x")
async def unpatched(ctx: Any) -> str:
    return str(await ctx.step(search, "new"))


@row(
    "a patch per branch",
    ended("book", 7, branch="0.0"),
    result=["old", "new"],
    calls=("search new",),
    records=(Patched("0.1", "pricing"), ended("search", "found new", branch="0.1")),
)
async def patched_branches(ctx: Any) -> list[str]:
    return list(await ctx.gather(patches(ctx), patches(ctx)))


@row(
    "a patch within a step",
    raises=StepFailed,
    match="TypeError: ctx.patched was called within step 'outer'",
    is_repeatable=False,
)
async def patch_in_step(ctx: Any) -> None:
    async def outer() -> bool:
        return bool(ctx.patched("x"))

    await ctx.step(outer)


# Delegations


@row(
    "a delegation",
    result="done: go",
    calls=("send go as task/1/delegate#1",),
    statuses=("agent works",),
    records=(
        Delegated("", "delegate", 1, "agent", "other-1"),
        ended("delegate", {"text": "done: go"}),
    ),
    is_repeatable=False,  # the other agent is sent to once more
)
@row(
    "a delegation found again",
    Delegated("", "delegate", 1, "agent", "other-7"),
    result="done: go",
    calls=("subscribe other-7",),
    statuses=("agent works",),
    records=(ended("delegate", {"text": "done: go"}),),
)
@row(
    "a delegation that has ended",
    Delegated("", "delegate", 1, "agent", "other-7"),
    ended("delegate", {"text": "x"}),
    result="x",
)
@row(
    "a delegation that was left",
    Delegated("", "delegate", 1, "agent", "other-7"),
    left("delegate"),
    raises=TimeoutError,
)
async def delegation(ctx: Any) -> str:
    async with asyncio.timeout(0.1):
        return str(await ctx.delegate("agent", "go"))


@row(
    "a delegation that raises",
    raises=StepFailed,
    match="step 'delegate' failed: ValueError: no",
    is_repeatable=False,
)
async def failing_delegation(ctx: Any) -> None:
    await ctx.delegate("agent", "raise")


@row("a delegation that asks", answers=("Rome",), result="done: Romefound x", is_repeatable=False)
@row(
    "a delegation whose question is answered",
    Delegated("", "delegate", 1, "agent", "other-7"),
    *answered("Which?", "Rome", branch="delegate#1"),
    result="done: Romefound x",
    calls=("subscribe other-7", "search x"),
    statuses=("agent works",),
    records=(ended("delegate", {"text": "done: Rome"}), ended("search", "found x")),
)
@row(
    "a delegation whose questions are over",
    Delegated("", "delegate", 1, "agent", "other-7"),
    *answered("Before?", "1", branch="delegate#1"),
    ended("delegate", {"text": "x"}),
    ended("search", "y"),
    result="xy",
)
@row(
    "a delegation that is past a question",
    Delegated("", "delegate", 1, "agent", "other-7"),
    *answered("Before?", "1", branch="delegate#1"),
    answers=("Rome",),
    result="done: Romefound x",
    calls=("subscribe other-7", "search x"),
    statuses=("agent works",),
    records=(
        Asked("delegate#1", 1, "Which?", "str"),
        Answered("delegate#1", 1, 9),
        ended("delegate", {"text": "done: Rome"}),
        ended("search", "found x"),
    ),
)
async def asking_delegation(ctx: Any) -> str:
    return str(await ctx.delegate("agent", "ask") + await ctx.step(search, "x"))


@row(
    "a delegation within a step",
    raises=StepFailed,
    match="ctx.delegate was called within step 'outer'",
    is_repeatable=False,
)
async def delegation_in_step(ctx: Any) -> None:
    async def outer() -> None:
        await ctx.delegate("agent", "go")

    await ctx.step(outer)


# Output


@row(
    "chunks and a step",
    sent=(("artifact-1", "a", False), ("artifact-1", "b", True), ("artifact-1", "c", True)),
    calls=("search x",),
    artifacts={"artifact-1": "abc"},
)
@row(
    "chunks before a recorded step are gathered",
    artifact_entry("artifact-1", "a"),
    artifact_entry("artifact-1", "b", append=True),
    ended("search", "x"),
    sent=(("artifact-1", "abc", False),),
    artifacts={"artifact-1": "abc"},
)
@row(
    "chunks before a step that was not recorded",
    artifact_entry("artifact-1", "a"),
    artifact_entry("artifact-1", "b", append=True),
    calls=("search x",),
    records=(ended("search", "found x"),),
    sent=(("artifact-1", "a", False), ("artifact-1", "b", True), ("artifact-1", "c", True)),
    artifacts={"artifact-1": "abc"},
)
async def chunks(ctx: Any) -> None:
    ctx.write("a")
    ctx.write("b")
    await ctx.step(search, "x")
    ctx.write("c")


@row(
    "nothing new is written",
    artifact_entry("artifact-1", "a"),
    ended("search", "x"),
    artifacts={"artifact-1": "a"},
)
@row(
    "what was written differs",
    artifact_entry("artifact-1", "old"),
    ended("search", "x"),
    sent=(("artifact-1", "a", False),),
    artifacts={"artifact-1": "a"},
)
async def written(ctx: Any) -> None:
    ctx.write("a")
    await ctx.step(search, "x")


@row(
    "an open question holds back what was written before it",
    artifact_entry("artifact-1", "a"),
    Asked("", 1, "Where?", "str"),
    answers=("Rome",),
    records=(Asked("", 1, "Where?", "str"), Answered("", 1, 6)),
    sent=(("artifact-1", "ab", False),),
    artifacts={"artifact-1": "ab"},
)
async def written_and_asked(ctx: Any) -> None:
    ctx.write("a")
    await ctx.ask("Where?")
    ctx.write("b")


@row(
    "a generator as a step",
    result="abc",
    calls=("stream abc",),
    sent=(
        ("artifact-1", ">", False),
        ("artifact-1", "a", True),
        ("artifact-1", "b", True),
        ("artifact-1", "c", True),
        ("artifact-1", "<", True),
    ),
    records=(ended("stream", "abc"),),
    artifacts={"artifact-1": ">abc<"},
)
@row(
    "a generator that was done",
    artifact_entry("artifact-1", ">"),
    artifact_entry("artifact-1", "x", append=True, step="stream#1"),
    artifact_entry("artifact-1", "y", append=True, step="stream#1"),
    ended("stream", "xy"),
    result="xy",
    sent=(("artifact-1", ">xy<", False),),
    artifacts={"artifact-1": ">xy<"},
)
@row(
    "a generator that broke off",
    artifact_entry("artifact-1", ">"),
    artifact_entry("artifact-1", "x", append=True, step="stream#1"),
    Attempt(1),
    result="abc",
    calls=("stream abc",),
    records=(ended("stream", "abc"),),
    sent=(
        ("artifact-1", ">", False),
        ("artifact-1", "a", True),
        ("artifact-1", "b", True),
        ("artifact-1", "c", True),
        ("artifact-1", "<", True),
    ),
    artifacts={"artifact-1": ">abc<"},
)
@row(
    "a generator that broke off, was done again, and sent the artifact as a whole",
    artifact_entry("artifact-1", ">"),
    artifact_entry("artifact-1", "x", append=True, step="stream#1"),
    Attempt(1),
    artifact_entry("artifact-1", ">"),
    artifact_entry("artifact-1", "y", append=True, step="stream#1"),
    ended("stream", "y"),
    result="y",
    sent=(("artifact-1", ">y<", False),),
    artifacts={"artifact-1": ">y<"},
)
async def streams(ctx: Any) -> str:
    ctx.write(">")
    text = await ctx.step(stream, "abc")
    ctx.write("<")
    return str(text)


@row(
    "whole artifacts",
    calls=("search x",),
    sent=(("artifact-1", "one", False), ("own", "two", False), ("artifact-2", "three", False)),
    artifacts={"artifact-1": "one", "own": "two", "artifact-2": "three"},
)
@row(
    "whole artifacts the log has",
    artifact_entry("artifact-1", "one", last=True),
    artifact_entry("own", "two", last=True),
    ended("search", "x"),
    sent=(("artifact-2", "three", False),),
    artifacts={"artifact-1": "one", "own": "two", "artifact-2": "three"},
)
@row(
    "whole artifacts after the last step",
    artifact_entry("artifact-1", "one", last=True),
    artifact_entry("own", "two", last=True),
    ended("search", "x"),
    artifact_entry("artifact-2", "three", last=True),
    artifacts={"artifact-1": "one", "own": "two", "artifact-2": "three"},
)
async def wholes(ctx: Any) -> None:
    ctx.artifact("one")
    ctx.artifact("two", id="own")
    await ctx.step(search, "x")
    ctx.artifact("three")


@row(
    "artifacts of a step",
    sent=(("artifact-1", "in", False), ("artifact-2", "out", False)),
    artifacts={"artifact-1": "in", "artifact-2": "out"},
)
@row(
    "artifacts of a step that was done",
    artifact_entry("artifact-1", "then", last=True, step="makes#1"),
    ended("makes", None),
    sent=(("artifact-2", "out", False),),
    artifacts={"artifact-1": "then", "artifact-2": "out"},
)
@row(
    "artifacts of a step that broke off are replaced",
    artifact_entry("artifact-1", "then", last=True, step="makes#1"),
    Attempt(1),
    records=(ended("makes", None),),
    sent=(("artifact-1", "in", False), ("artifact-2", "out", False)),
    artifacts={"artifact-1": "in", "artifact-2": "out"},
)
@row(
    "a step that broke off had made more",
    artifact_entry("artifact-1", "1", last=True, step="makes#1"),
    artifact_entry("artifact-2", "2", last=True, step="makes#1"),
    Attempt(1),
    artifact_entry("artifact-1", "in", last=True, step="makes#1"),
    ended("makes", None),
    sent=(("artifact-2", "out", False),),
    artifacts={"artifact-1": "in", "artifact-2": "out"},
)
async def step_artifacts(ctx: Any) -> None:
    async def makes() -> None:
        ctx.artifact("in")

    await ctx.step(makes)
    ctx.artifact("out")


@row(
    "a last chunk closes its artifact",
    sent=(("artifact-1", "a", False), ("artifact-1", "b", True), ("artifact-2", "c", False)),
)
@row(
    "a closed artifact",
    artifact_entry("artifact-1", "a"),
    artifact_entry("artifact-1", "b", append=True, last=True),
    ended("search", "x"),
    sent=(("artifact-2", "c", False),),
    artifacts={"artifact-1": "ab", "artifact-2": "c"},
)
async def closes(ctx: Any) -> None:
    ctx.write("a")
    ctx.write("b", last=True)
    await ctx.step(search, "x")
    ctx.write("c")


@row("statuses", statuses=("1", "in", "2"))
@row(
    "statuses the log has",
    status_entry("1"),
    status_entry("in", step="says#1"),
    ended("says", None),
    status_entry("2"),
)
@row(
    "statuses of a step that broke off",
    status_entry("1"),
    status_entry("in", step="says#1"),
    statuses=("in", "2"),
    records=(ended("says", None),),
)
async def statuses(ctx: Any) -> None:
    ctx.status("1")

    def says() -> None:
        ctx.status("in")

    await ctx.step(says)
    ctx.status("2")


@row(
    "each branch writes an artifact of its own",
    artifacts={"artifact-1": "<>", "artifact-0.0-1": "abc", "artifact-0.1-1": "de"},
    result=["abc", "de"],
)
@row(
    "branches' artifacts, one branch recorded",
    artifact_entry("artifact-1", "<"),
    artifact_entry("artifact-0.1-1", "d", branch="0.1", step="stream#1"),
    artifact_entry("artifact-0.0-1", "x", branch="0.0", step="stream#1"),
    artifact_entry("artifact-0.1-1", "e", append=True, branch="0.1", step="stream#1"),
    ended("stream", "de", branch="0.1"),
    result=["abc", "de"],
    calls=("stream abc",),
    records=(ended("stream", "abc", branch="0.0"),),
    sent=(
        ("artifact-0.0-1", "a", False),
        ("artifact-0.0-1", "b", True),
        ("artifact-0.0-1", "c", True),
        ("artifact-1", "<>", False),
    ),
    artifacts={"artifact-1": "<>", "artifact-0.0-1": "abc", "artifact-0.1-1": "de"},
)
async def branch_artifacts(ctx: Any) -> list[str]:
    ctx.write("<")
    texts = await ctx.gather(ctx.step(stream, "abc"), ctx.step(stream, "de"))
    ctx.write(">")
    return list(texts)
