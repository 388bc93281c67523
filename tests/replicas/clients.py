"""What clients of several replicas do, and what they must be told: the same for simulated replicas
and for real ones.

Every request may go to any replica. One that could not be answered is sent again, elsewhere, with
the same idempotency key; a client that uses no keys does not send it again. What clients were told
is compared with what they are told later, and in the end with what is stored.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

__all__ = [
    "_OVER",
    "Again",
    "Clients",
    "Ended",
    "NotCancelable",
    "Transport",
    "Violation",
]

_OVER = frozenset(f"TASK_STATE_{end}" for end in ("COMPLETED", "FAILED", "CANCELED", "REJECTED"))
_COMPLETED = "TASK_STATE_COMPLETED"
COUNTED = 6  # chunks of skill `count`

T = TypeVar("T")


class Violation(AssertionError):
    """Something happened that must never happen."""


class Again(Exception):
    """Nobody has answered, or a replica asks to try again: whether anything came of it is not
    known.
    """


class Ended(Exception):
    """The task has ended: it takes no message, and there is nothing to follow."""


class NotCancelable(Exception):
    """The task has ended otherwise."""


class Transport(Protocol):
    """One try, at any replica. Each raises Again if there was no answer."""

    random: random.Random

    async def send(
        self, text: str, skill: str, task_id: str, *, is_quick: bool, has_key: bool = True
    ) -> dict[str, Any]:
        """Send a message, whose text is its idempotency key if it has one; return the task."""
        ...

    async def get(self, task_id: str) -> dict[str, Any]: ...

    async def cancel(self, task_id: str) -> dict[str, Any]: ...

    async def page(self) -> tuple[set[str], int]:
        """The ids of all tasks, and how many the list says there are."""
        ...

    async def follow(
        self, task_id: str, after: int | None, take: Callable[[int, bool], None]
    ) -> None:
        """Read a stream to its end, or until the connection is cut. `take` is called with the
        number of each event, and whether it is the task instead of an event.
        """
        ...


class Clients:
    """Clients of one agent, and all they know."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.random = transport.random
        self.answers = 0
        self.events = 0
        self.tries = 0
        self.done: Counter[str] = Counter()
        self.begun: dict[str, str] = {}  # what they do now: name and last request
        self.accepted: dict[str, str] = {}  # text of a message that was acknowledged: task id
        self._ends: dict[str, str] = {}  # of tasks, as somebody was told
        self._seen: set[str] = set()  # tasks whose id somebody was told
        self.booked: Callable[[str, str], Awaitable[list[str]]] = _nothing

    # Requests

    async def _ask(self, try_: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Try until there is an answer."""
        while True:
            self.tries += 1
            try:
                found = await try_()
            except Again:
                await asyncio.sleep(0.05 + self.random.random() * 0.5)
                continue
            self.answers += 1
            return found

    async def _task(
        self, try_: Callable[[], Coroutine[Any, Any, dict[str, Any]]], *, of_turn: bool = False
    ) -> Any:
        """The same, for what answers with a task: it contradicts nothing that was told before it
        was asked for. Who sends a message again gets the task as it stood when its turn ended:
        that may be long ago.
        """
        known: dict[str, str] = {}

        async def once() -> dict[str, Any]:
            known.clear()
            known.update(self._ends)
            return await try_()

        task = await self._ask(once)
        state, task_id = task["status"]["state"], task["id"]
        self._seen.add(task_id)
        if known.get(task_id, state) != state and not (of_turn and state not in _OVER):
            raise Violation(f"task {task_id} was told to be {known[task_id]}, and is {state}")
        if state in _OVER:
            self._ends[task_id] = state
        return task

    async def send(
        self, text: str, skill: str = "", task_id: str = "", *, is_quick: bool = False
    ) -> dict[str, Any]:
        """Send a message once, whatever happens."""
        task: dict[str, Any] = await self._task(
            lambda: self._transport.send(text, skill, task_id, is_quick=is_quick), of_turn=True
        )
        known = self.accepted.setdefault(text, task["id"])
        if known != task["id"]:
            raise Violation(f"one key, two tasks: {text} is in {known} and {task['id']}")
        return task

    async def get(self, task_id: str) -> dict[str, Any]:
        task: dict[str, Any] = await self._task(lambda: self._transport.get(task_id))
        return task

    async def _ended(self, task_id: str) -> dict[str, Any]:
        while True:
            task = await self.get(task_id)
            if task["status"]["state"] in _OVER:
                return task
            await asyncio.sleep(0.2)

    # What they do

    async def anything(self, name: str) -> None:
        kinds = [self.once, self.twins, self.talk, self.travel, self.watch, self.call_off]
        doing = self.random.choice([*kinds, self.browse, self.keyless])
        self.begun[name] = doing.__name__
        await doing(name)
        del self.begun[name]
        self.done[doing.__name__] += 1

    async def once(self, name: str) -> None:
        """One answer to one message."""
        task = await self.send(name, "plain")
        state = task["status"]["state"]
        if state == "TASK_STATE_COMPLETED":
            if _text(task) != f"plain {name}":
                raise Violation(f"{name} was answered with {_text(task)!r}")
        elif state != "TASK_STATE_FAILED":  # not durable: it fails with its process
            raise Violation(f"a blocking send returned a task that is {state}")

    async def keyless(self, name: str) -> None:
        """Messages without an idempotency key: each is answered by its own turn or refused, and is
        stored at most once.
        """
        await together(*(self._talk_keyless(f"{name}-{side}") for side in "ab"))

    async def _talk_keyless(self, name: str) -> None:
        skill = self.random.choice(("chat", "flow", "plain"))
        task = await self._once(f"{name}-0", skill)
        if task is None:
            return
        if skill == "plain":
            if task["status"]["state"] == _COMPLETED and _text(task) != f"plain {name}-0":
                raise Violation(f"{name} was answered with {_text(task)!r}")
            return
        await together(
            *(self._speak_keyless(f"{name}-{side}", task["id"]) for side in ("a", "b", "c"))
        )

    async def _speak_keyless(self, name: str, task_id: str) -> None:
        for n in range(3):
            try:
                answer = await self._once(f"{name}{n}", task_id=task_id)
            except Ended:
                return
            waits = answer is not None and answer["status"]["state"] not in _OVER
            if answer is not None and waits and _said(answer) != f"heard {name}{n}":
                raise Violation(f"{name}{n} was answered with {_said(answer)!r}")

    async def _once(self, text: str, skill: str = "", task_id: str = "") -> dict[str, Any] | None:
        """Send a message without a key, and only once; None if nobody has answered."""
        self.tries += 1
        try:
            task = await self._transport.send(text, skill, task_id, is_quick=False, has_key=False)
        except Again:
            return None
        self.answers += 1
        self.accepted[text] = task["id"]
        return task

    async def twins(self, name: str) -> None:
        """One message to several replicas at once is one task."""
        await together(*(self.send(name, "plain") for _ in range(3)))

    async def talk(self, name: str) -> None:
        """Several messages to one task from two senders: each is answered by its own turn."""
        skill = self.random.choice(("chat", "flow"))
        task = await self.send(f"{name}-0", skill)

        async def speak(side: str) -> None:
            for n in range(2):
                text = f"{name}-{side}{n}"
                try:
                    answer = await self.send(text, task_id=task["id"])
                except Ended:
                    found = await self.get(task["id"])
                    if skill == "chat" or found["status"]["state"] != "TASK_STATE_FAILED":
                        raise Violation(f"{text} was refused by a task that is open") from None
                    return
                if skill == "chat" and _said(answer) != f"heard {text}":
                    raise Violation(f"{text} was answered with {_said(answer)!r}")

        if task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED":
            await together(speak("a"), speak("b"))
        elif skill == "chat":
            raise Violation(f"durable work has ended as {task['status']}")

    async def travel(self, name: str) -> None:
        """Durable work with a question in the middle."""
        task = await self.send(name, "trip")
        tries = 0
        while True:
            task = await self._asked(task)
            try:
                await self.send(f"{name}-inn{tries}", task_id=task["id"], is_quick=True)
                break
            except Ended:  # resumed elsewhere, it has asked again: that is to be answered
                tries += 1
                task = await self.get(task["id"])
        task = await self._ended(task["id"])
        words = _text(task).split()
        if len(words) != 3 or words[1] != f"{name}-inn{tries}":
            raise Violation(f"{name} ended with {task}")
        for word, what in zip(words[::2], ("hotel", "train"), strict=True):
            if word not in await self.booked(name, what):
                raise Violation(f"{word} was never booked")

    async def _asked(self, task: dict[str, Any]) -> dict[str, Any]:
        while task["status"]["state"] != "TASK_STATE_INPUT_REQUIRED":
            if task["status"]["state"] in _OVER:
                raise Violation(f"durable work has ended as {task['status']}")
            await asyncio.sleep(0.2)
            task = await self.get(task["id"])
        return task

    async def watch(self, name: str) -> None:
        """Read a task to its end over several connections, each to any replica."""
        task = await self.send(name, "count", is_quick=True)
        cursor: int | None = None
        is_first = True

        def take(number: int, is_task: bool) -> None:
            nonlocal cursor, is_first
            self.events += 1
            if cursor is not None and not is_first and number != cursor + 1:
                raise Violation(f"event {number} came after {cursor}")
            if is_task and not is_first:
                raise Violation(f"a gap after event {cursor}")
            cursor, is_first = number, False

        while True:
            is_first = cursor is None
            try:
                await self._transport.follow(task["id"], cursor, take)
                break
            except Ended:
                break
            except Again:
                await asyncio.sleep(self.random.random() * 0.5)
        task = await self._ended(task["id"])
        if task["status"]["state"] != "TASK_STATE_COMPLETED":
            raise Violation(f"durable work has ended as {task['status']}")
        if _text(task) != "".join(f"{n} " for n in range(COUNTED)):
            raise Violation(f"{name} says {_text(task)!r}")

    async def call_off(self, name: str) -> None:
        """Cancel a task while it works, asks or ends."""
        skill = self.random.choice(("count", "trip", "plain", "chat"))
        task = await self.send(name, skill, is_quick=True)
        await asyncio.sleep(self.random.random() * 0.5)
        try:
            found = await self._task(lambda: self._transport.cancel(task["id"]))
        except NotCancelable:
            found = await self.get(task["id"])
            if found["status"]["state"] not in _OVER:
                raise Violation(f"a cancel was refused by a task that is open: {found}") from None
            return
        if found["status"]["state"] != "TASK_STATE_CANCELED":
            raise Violation(f"a cancel returned a task that is {found['status']['state']}")

    async def browse(self, name: str) -> None:
        """Lists have every task that was acknowledged before."""
        for _ in range(3):
            known: set[str] = set()

            async def once(known: set[str] = known) -> tuple[set[str], int]:
                known |= self._seen
                return await self._transport.page()

            listed, total = await self._ask(once)
            if known - listed or total < len(known):
                raise Violation(f"a list lacks {known - listed}, total {total}")
            await asyncio.sleep(self.random.random() * 2)


async def _nothing(name: str, what: str) -> list[str]:
    return []


async def together(*works: Awaitable[Any]) -> None:
    """All of them; the first failure ends them all."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in tasks:
            if task in done:
                task.result()
    finally:
        for task in tasks:
            task.cancel()


def _text(task: dict[str, Any]) -> str:
    return "".join(
        part["text"] for artifact in task.get("artifacts", []) for part in artifact["parts"]
    )


def _said(task: dict[str, Any]) -> str:
    message = task["status"].get("message")
    return message["parts"][0]["text"] if message else ""
