"""Tasks as an operator looks for them: lists, search, and how things go.

Nothing is counted while tasks run: lists and figures are read from what the store keeps of tasks. A
search looks at a bounded number of the newest, and says how far back it went.
"""

import copy
import heapq
import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from ..app import App
from ..engine.log import STATE_NUMBER, Ids, Raised, entries_of, state_of
from ..model import InvalidParams, Question, TaskState, whole_number
from ..model import Part as ModelPart
from ..model import Task as ModelTask
from ..protocol.v1 import codec as v1
from ..store import Page, Query, Record, Sample
from .figures import FAILED, Figures, Minute, share_of
from .sampler import Sampler

__all__ = ["TaskLists"]

PAGE = 50
MOST = 200  # tasks of one answer
LOOK = 2_000  # tasks that a search looks at
FIGURES_S = 2.0  # how long they are kept: every open page asks for them
SHOWN = 6  # failures, slow tasks and questions of the first page
TITLE = 120
WHY = 200
WAITING = (TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED)
# What differs between two failures of one kind: ids, references and numbers.
_VARYING = re.compile(r"\b(?:[0-9a-f]{8}[0-9a-f-]*|\d[\d.,]*)(?<![.,])", re.ASCII)
# What agents send in place of what they raised has one for their own log.
_REFERENCE = re.compile(r" Reference: \w+$", re.ASCII)
WINDOWS = {"hour": (3_600_000, 60), "day": (86_400_000, 48), "week": (604_800_000, 56)}


class TaskLists:
    """What an operator's page shows of many tasks."""

    def __init__(
        self, app: App, agent: Callable[[], str], extra: Callable[[Record], dict[str, Any]]
    ) -> None:
        """Args:
        app: Whose tasks.
        agent: Gives the name of the agent whose tasks are shown; empty for all.
        extra: Gives what a summary has beside what the store knows.
        """
        self._tasks = app.engine.tasks
        self._kept_ms = app.engine.retention.tasks_s * 1000
        self._agent = agent
        self._extra = extra
        self._is_operator = True
        self._figures = Figures(app.engine.tasks.store, agent)
        self.sampler = Sampler(app.engine.tasks, agent, self._count_waiting)
        self._answers: dict[str, tuple[float, Any]] = {}

    def seen_by(
        self, extra: Callable[[Record], dict[str, Any]], *, is_operator: bool
    ) -> "TaskLists":
        """Return the same for somebody else. What functions raised is for operators alone."""
        other = copy.copy(self)
        other._extra, other._is_operator = extra, is_operator
        return other

    async def listed(self, query: dict[str, str]) -> Any:
        """Return a page of tasks; with words to find, or by duration, what a bounded look finds."""
        asked = self._query(query)
        if words := query.get("find", "").strip():
            return await self._found(asked, words)
        if query.get("sort") == "slow":
            return await self._slowest(asked)
        page = await self._page(asked)
        return {
            "tasks": await self.summaries(page.tasks),
            "next": "" if page.next is None else f"{page.next[0]}.{page.next[1]}",
            "total": page.total,
            "isExact": page.is_exact,
        }

    def _query(self, query: dict[str, str]) -> Query:
        state = query.get("state", "")
        known = {state.word: state for state in TaskState}
        if state and state not in known:
            raise InvalidParams(f"state {state!r:.40} is not one of {', '.join(known)}")
        limit = number_of(query.get("limit", str(PAGE)), "limit")
        if not limit:
            raise InvalidParams("limit is 0; give a number of tasks, 1 or more")
        return Query(
            namespace=None,
            agent=self._agent(),
            limit=min(limit, MOST),
            context_id=query.get("context", ""),
            state=STATE_NUMBER[known[state]] if state else 0,
            since_ms=number_of(query["since"], "since") if query.get("since") else None,
            before=_cursor(query.get("cursor", "")),
            has_artifacts=False,
            oldest_first=query.get("order") == "oldest",
        )

    async def _page(self, query: Query) -> Page:
        return await self._tasks.reader.page(query)

    async def _looked_at(self, asked: Query) -> tuple[list[Record], bool]:
        """Return the newest tasks of a query, and whether these are all."""
        query = msgspec.structs.replace(asked, limit=MOST, before=None)
        found: list[Record] = []
        while len(found) < LOOK:
            page = await self._page(query)
            found += page.tasks
            if page.next is None:
                return found, True
            query = msgspec.structs.replace(query, before=page.next)
        return found, False

    async def _found(self, asked: Query, words: str) -> Any:
        records, is_all = await self._looked_at(asked)
        wanted = words.casefold().split()
        tasks: list[dict[str, Any]] = []
        for start in range(0, len(records), PAGE):
            batch = records[start : start + PAGE]
            whys = await self._whys(batch)
            for record in batch:
                task = await self._read(record)
                text = _searched(record, task, whys.get(record.key, "")).casefold()
                if all(word in text for word in wanted):
                    tasks.append(self._summary(record, task, whys.get(record.key, "")))
            if len(tasks) >= asked.limit:
                is_all = is_all and start + PAGE >= len(records)
                records = records[: start + PAGE]
                break
        return _answer(tasks[: asked.limit], records, is_all=is_all)

    async def _slowest(self, asked: Query) -> Any:
        records, is_all = await self._looked_at(asked)
        slowest = sorted(records, key=_took, reverse=True)[: asked.limit]
        return _answer(await self.summaries(slowest), records, is_all=is_all)

    # Summaries

    async def summaries(self, records: Sequence[Record]) -> list[dict[str, Any]]:
        """Return a line for each task."""
        whys = await self._whys(records)
        return [
            self._summary(record, await self._read(record), whys.get(record.key, ""))
            for record in records
        ]

    async def _read(self, record: Record) -> ModelTask | None:
        try:
            return (await self._tasks.reader.shown(record, None)).task
        except ValueError:
            return None

    def _summary(self, record: Record, task: ModelTask | None, why: str) -> dict[str, Any]:
        title = "(this task can't be read)"
        if task is not None:
            title = _title(task.history[0].parts) if task.history else ""
            why = why or _said(task)
        return {
            "id": record.id,
            "contextId": record.context_id,
            "state": state_of(record.state).word,
            "at": record.at_ms,
            "created": record.created_ms,
            "skill": record.skill,
            "agent": record.namespace.agent,
            "tenant": record.namespace.tenant,
            "caller": record.namespace.caller,
            "title": title,
            "why": why[:WHY],
            "events": record.seq,
            **_awaited(record, task),
        } | self._extra(record)

    async def _whys(self, records: Iterable[Record]) -> dict[int, str]:
        """Return what the functions of failed tasks raised. It stands before the last status."""
        failed = {r.key: r for r in records if state_of(r.state) in FAILED}
        if not failed or not self._is_operator:
            return {}
        rows = await self._tasks.store.read({key: max(0, r.pos - 2) for key, r in failed.items()})
        whys: dict[int, str] = {}
        for row in rows:
            record = failed[row.task]
            for one in entries_of([row], Ids(record.id, record.context_id)):
                if isinstance(one.entry, Raised):
                    whys[row.task] = f"{one.entry.type}: {one.entry.message}"
        return whys

    async def usage(self, agent: str) -> Any:
        """Return how many calls an agent got in the last week and from how many callers, in all and
        by skill: of the newest tasks, as far as one look goes.
        """
        since = self._tasks.store.now_ms() - WINDOWS["week"][0]
        query = Query(namespace=None, agent=agent, limit=MOST, since_ms=since, has_artifacts=False)
        records, is_all = await self._looked_at(query)
        skills: dict[str, list[Record]] = {}
        for record in records:
            skills.setdefault(record.skill, []).append(record)
        return {
            "isAll": is_all,
            **_used(records),
            "skills": {skill: _used(of) for skill, of in skills.items()},
        }

    # How things go

    async def counts(self) -> dict[str, int]:
        """Return how many tasks wait for somebody, and how many failed in the last 24 hours."""
        now = self._tasks.store.now_ms()
        since = now - WINDOWS["day"][0]
        failed = [await self._total(state, since) for state in FAILED]
        return {"waiting": await self._count_waiting(), "failed": sum(failed)}

    async def _count_waiting(self) -> int:
        return sum([await self._total(state) for state in WAITING])

    async def _total(self, state: TaskState, since_ms: int | None = None) -> int:
        number = STATE_NUMBER[state]
        query = Query(
            namespace=None,
            agent=self._agent(),
            limit=1,
            state=number,
            since_ms=since_ms,
            has_artifacts=False,
        )
        return (await self._page(query)).total

    async def activity(self, window: str) -> Any:
        """Return how many tasks ended, failed and how long they took; what failed, what was slow
        and what waits.
        """
        if window not in WINDOWS:
            raise InvalidParams(f"window {window!r:.40} is not one of {', '.join(WINDOWS)}")
        kept = self._answers.get(window)
        if kept is None or time.monotonic() - kept[0] > FIGURES_S:
            kept = self._answers[window] = (time.monotonic(), await self._measured(window))
        return kept[1]

    async def _measured(self, window: str) -> dict[str, Any]:
        length, pieces = WINDOWS[window]
        step = length // pieces
        now = self._tasks.store.now_ms()
        since = now - now % step - (pieces - 1) * step
        minutes = await self._figures.since(since)
        every = [one for _, one in minutes]
        query = Query(
            namespace=None, agent=self._agent(), limit=PAGE, since_ms=since, has_artifacts=False
        )
        waiting = await self._waiting()
        samples = await self.sampler.since(since)
        streams = self.sampler.streams_now(samples)
        opened = _opened([*samples, Sample(now, streams, waiting.total)], since, step, pieces)
        is_whole = self._kept_ms >= length
        return {
            "since": since if is_whole else int(now - self._kept_ms),
            "isWhole": is_whole,
            "bucket": step,
            "buckets": [
                one | {"streams": most.streams, "waiting": most.waiting}
                for one, most in zip(_buckets(minutes, since, step, pieces), opened, strict=True)
            ],
            "ended": sum(one.ended for one in every),
            "failed": sum(one.failed for one in every),
            "p50": share_of(every, 0.5),
            "p95": share_of(every, 0.95),
            "running": await self._total(TaskState.WORKING),
            "streams": streams,
            "waiting": waiting.total,
            "causes": await self._causes(query),
            "slowest": await self.summaries(await self._slow(every)),
            "oldest": await self.summaries(waiting.tasks[:SHOWN]),
        }

    async def _slow(self, minutes: list[Minute]) -> list[Record]:
        """Return the slowest tasks of these minutes that are still there."""
        found: list[Record] = []
        places = (place for one in minutes for place in one.slowest)
        for _, at_ms, key in heapq.nlargest(SHOWN, places):
            query = Query(
                namespace=None,
                agent=self._agent(),
                limit=1,
                before=(at_ms, key + 1),
                has_artifacts=False,
            )
            found += [one for one in (await self._page(query)).tasks if one.key == key]
        return found

    async def _waiting(self) -> Page:
        pages = [
            await self._page(
                Query(
                    namespace=None,
                    agent=self._agent(),
                    limit=SHOWN,
                    state=STATE_NUMBER[state],
                    has_artifacts=False,
                    oldest_first=True,
                )
            )
            for state in WAITING
        ]
        tasks = sorted((one for page in pages for one in page.tasks), key=lambda one: one.at_ms)
        return Page(tasks=tasks, total=sum(page.total for page in pages), next=None)

    async def _causes(self, query: Query) -> list[dict[str, Any]]:
        """Return why the newest tasks failed: each reason once, with its newest task.

        Agents keep what they raised to themselves: at a hub many report the same words, each with
        a reference. Without it they are one reason.
        """
        found: dict[str, dict[str, Any]] = {}
        for state in FAILED:
            page = await self._page(msgspec.structs.replace(query, state=STATE_NUMBER[state]))
            whys = await self._whys(page.tasks)
            for record, summary in zip(page.tasks, await self.summaries(page.tasks), strict=True):
                cause = summary["why"].partition("\n")[0] or summary["state"]
                if record.key not in whys:
                    cause = _REFERENCE.sub("", cause)
                kind = _VARYING.sub("…", cause)
                one = found.setdefault(
                    kind, {"cause": cause, "count": 0, "newest": summary, "agents": []}
                )
                one["count"] += 1
                if summary["agent"] not in one["agents"]:
                    one["agents"].append(summary["agent"])
                if one["count"] > 1:
                    one["cause"] = kind
        return sorted(found.values(), key=lambda one: -one["count"])[:SHOWN]


def number_of(value: str, name: str) -> int:
    """Return a whole number that somebody gave.

    Raises:
        InvalidParams: It is none.
    """
    number = whole_number(value)
    if number is None:
        raise InvalidParams(f"{name} is {value!r:.40}; give a whole number, 0 or more")
    return number


def _used(records: list[Record]) -> dict[str, int]:
    callers = {(one.namespace.tenant, one.namespace.caller) for one in records}
    return {"calls": len(records), "callers": len(callers)}


def _cursor(value: str) -> tuple[int, int] | None:
    if not value:
        return None
    at, _, key = value.partition(".")
    return number_of(at, "cursor"), number_of(key, "cursor")


def _answer(tasks: list[Any], looked_at: list[Record], *, is_all: bool) -> dict[str, Any]:
    back = looked_at[-1].at_ms if looked_at else 0
    looked = {"count": len(looked_at), "back": back, "isAll": is_all}
    return {"tasks": tasks, "next": "", "total": len(tasks), "isExact": is_all, "looked": looked}


def _searched(record: Record, task: ModelTask | None, why: str) -> str:
    """What of a task is looked at: ids, names, what was said first and last, and the error."""
    space = record.namespace
    parts = [record.id, record.context_id, record.skill, space.agent, space.caller, why]
    if task is not None:
        parts += [part.text for part in _spoken(task) if isinstance(part.text, str)]
    return "\n".join(parts)


def _spoken(task: ModelTask) -> list[ModelPart]:
    said = [part for message in task.history for part in message.parts]
    return said + (list(task.status.message.parts) if task.status.message else [])


def _said(task: ModelTask) -> str:
    """What a task that failed was told to say of it."""
    if task.status.state not in FAILED or not task.status.message:
        return ""
    return " ".join(p.text for p in task.status.message.parts if isinstance(p.text, str))


def _awaited(record: Record, task: ModelTask | None) -> dict[str, Any]:
    """Return how far a task is and what it waits for: the deadline of its question, or the end of
    its sleep. Zeros and None where there is no such thing.
    """
    state = state_of(record.state)
    asked = task.status.message if task is not None and state in WAITING else None
    progress = task.progress if task is not None and state == TaskState.WORKING else None
    return {
        "expires": Question.read(asked).expires_ms if asked is not None else 0,
        "wakes": record.due_ms if state == TaskState.WORKING else 0,
        "progress": progress and {"done": progress.done, "total": progress.total},
    }


def _title(parts: Sequence[ModelPart]) -> str:
    for part in parts:
        if isinstance(part.text, str) and part.text.strip():
            return part.text.strip()[:TITLE]
    for part in parts:
        if part.filename:
            return part.filename[:TITLE]
        if part.data is not msgspec.UNSET:
            return v1.encode(part.data).decode()[:TITLE]
    return ""


def _took(record: Record) -> int:
    return record.at_ms - record.created_ms


def _opened(samples: list[Sample], since: int, length: int, count: int) -> list[Sample]:
    """Return the most that was open in each piece of time. What waits goes on waiting while there
    is no sample; a stream ends with its process.
    """
    found: list[Sample] = []
    waiting = left = 0
    for i in range(count):
        end = since + (i + 1) * length
        streams, most = 0, waiting
        while left < len(samples) and (samples[left].at_ms < end or i == count - 1):
            one = samples[left]
            waiting = one.waiting
            if one.at_ms >= since:
                streams, most = max(streams, one.streams), max(most, waiting)
            else:
                most = waiting
            left += 1
        found.append(Sample(end - length, streams, most))
    return found


def _buckets(
    minutes: list[tuple[int, Minute]], since: int, length: int, count: int
) -> list[dict[str, int | None]]:
    parts: list[list[Minute]] = [[] for _ in range(count)]
    for at, one in minutes:
        parts[min(count - 1, (at - since) // length)].append(one)
    return [
        {
            "at": since + i * length,
            "ended": sum(one.ended for one in part),
            "failed": sum(one.failed for one in part),
            "p50": share_of(part, 0.5),
            "p95": share_of(part, 0.95),
        }
        for i, part in enumerate(parts)
    ]
