"""The calls of a function that are recorded: its steps, its branches, its delegations.

A step is known by its branch, its name and its number: the n-th call of that name in that branch.
Its end is stored before the function goes on, and in a later attempt it is handed back instead of
being done again.
"""

import asyncio
import functools
import inspect
import itertools
import logging
import traceback
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from ...model import Message, Part, Unavailable
from ...observe import tracing
from ...store import is_armed, point
from ..log import Delegated, Patched, StepEnded, StepLeft
from .backoff import Backoff, backoff_of
from .branches import (
    RUN_POSITION,
    Branch,
    DelegateOptions,
    Recorder,
    RunPosition,
    branch_of,
    position_in,
    step_label,
)
from .history import History, Mismatch, StepEntry
from .timers import Expired, Timers, expired, within_ms
from .values import Result, result_type, routine_of

__all__ = ["StepFailed", "Steps"]

log_ = logging.getLogger("accord")

MOST_TEXT = 10_000  # of what a step raised: it may be as long as what it is about
TOO_LARGE = "ResultTooLarge"
_NULL = msgspec.Raw(b"null")


class StepFailed(Exception):
    """A step raised an exception.

    Every attempt raises it; `__cause__` is what the step raised, in the first attempt only.

    Attributes:
        type: The name of the class of what was raised.
        message: Its text.
    """

    def __init__(self, step: str, type: str, message: str) -> None:
        super().__init__(step, type, message)
        self.step = step
        self.type = type
        self.message = message

    def __str__(self) -> str:
        return f"step {self.step!r} failed: {self.type}{': ' if self.message else ''}{self.message}"


class _Call:
    """A step that is called now."""

    __slots__ = ("branch", "label", "n", "name")

    def __init__(self, branch: Branch, name: str) -> None:
        self.branch = branch
        self.name = name
        self.n = branch.next_step(name)
        self.label = step_label(name, self.n)

    def ended(self, value: msgspec.Raw) -> StepEnded:
        return StepEnded(self.branch.path, self.name, self.n, value)

    def made(self, file: Part) -> StepEnded:
        return StepEnded(self.branch.path, self.name, self.n, file=file)

    def failed(self, type_: str, text: str) -> StepEnded:
        # The log can't hold halves of characters.
        clean = text[:MOST_TEXT].encode(errors="replace").decode()
        return StepEnded(self.branch.path, self.name, self.n, _NULL, type_, clean)


class Steps:
    """The verbs of one run that are recorded."""

    __slots__ = ("_activity", "_history", "_names", "_patches", "_run")

    def __init__(self, run: Recorder, history: History | None) -> None:
        self._run = run
        self._activity = run.activity
        self._history = history
        self._names: set[str] = set()  # of steps called in tasks of the user's
        self._patches: dict[tuple[str, str], bool] = {}

    # Steps

    async def step(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...] = (),
        *,
        name: str = "",
        returns: Any = None,
        retries: int = 0,
        retry: Backoff | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Do a step, or hand back how it ended.

        Args:
            function: A coroutine function, a plain function (called in a thread), or an async
              generator function: its chunks are written as they come, and the result is their text.
            args: What it is called with.
            name: What the step is known by; the function's own name if empty.
            returns: The type of the result, if the return annotation does not say it.
            retries: How often it is called again if it raises.
            retry: The same with pauses of your own, and only after some exceptions.
            timeout: Seconds for all of it, retries included.

        Raises:
            StepFailed: It raised, or took too long.
            TypeError: It can't be known again, or its result can't be read back.
            Mismatch: Something else is recorded in its place.
        """
        run = self._run
        place = position_in(run)
        backoff = backoff_of(retries, retry)
        if place is not None and place.step:
            # A part of that step.
            return await _perform(run, function, args, place.step, backoff, timeout)
        shown = _name_of(function, name)
        call = _Call(self._branch("step", name), shown)
        result = result_type(function, returns)
        if self._history is not None:
            found = self._history.step(call.branch.path, shown, call.n)
            if found is not None:
                if isinstance(found, Delegated):
                    raise self._history.differs(
                        f"the function now calls step {shown!r}, where a delegation was "
                        "recorded under that name"
                    )
                return await self._recorded(call, found, result)
        await self._activity.may_begin()
        self._activity.begin_step()
        try:
            work = _perform(run, function, args, shown, backoff, timeout)
            if (spans := tracing()) is not None:
                work = spans.step(shown, work)
            return await self._do(call, work, result)
        finally:
            self._activity.end_step()

    async def _do(self, call: _Call, work: Coroutine[Any, Any, Any], result: Result) -> Any:
        """Do the work of a step or of a delegation, and store what comes of it before the function
        goes on.
        """
        cause: BaseException | None = None
        outer = RUN_POSITION.get()
        RUN_POSITION.set(RunPosition(self._run, call.branch, call.label))
        try:
            if is_armed:
                point("step.begun")
            try:
                value = await work
            except asyncio.CancelledError as error:
                if _is_cancelled():
                    raise
                # It comes from what the step waited for. In a later attempt nobody would cancel the
                # step, so it is no left one.
                cause, entry = error, call.failed("CancelledError", str(error))
            except Exception as error:
                cause, entry = error, call.failed(type(error).__name__, str(error))
            else:
                if result.is_file:
                    part = self._run.stored_file(result.file(value))
                    entry = self._fitting(call, call.made(part), msgspec.json.encode(part))
                    value = self._run.opened_file(part)
                else:
                    raw, value = result.encode(value)
                    entry = self._fitting(call, call.ended(raw), raw)
            if is_armed:
                point("step.done")
            await self._store(entry)
        except asyncio.CancelledError:
            self._leave(call)
            raise
        finally:
            RUN_POSITION.set(outer)
        if is_armed:
            point("step.stored")
        if entry.type:
            raise StepFailed(call.name, entry.type, entry.message) from cause
        return value

    async def _recorded(self, call: _Call, found: StepEnded | StepLeft, result: Result) -> Any:
        """Return the result of a step that ended in an earlier attempt, or raise its failure."""
        call.branch.output.claim(call.label)
        if isinstance(found, StepLeft):
            # The function stopped waiting for it, and does so again.
            await self._run.loop.create_future()
        assert isinstance(found, StepEnded)
        if found.type:
            raise StepFailed(call.name, found.type, found.message)
        try:
            if found.file is not None:
                if not result.is_file:
                    raise TypeError("it was a File")
                return self._run.opened_file(found.file)
            return result.decode(found.value)
        except Exception as error:  # some of the classes are the user's
            assert self._history is not None  # it has the step
            raise self._history.differs(
                f"step {call.name!r} (call {call.n}) was recorded with a result that its "
                f"type does not fit any more: {error}"
            ) from error

    def _fitting(self, call: _Call, entry: StepEnded, raw: msgspec.Raw | bytes) -> StepEnded:
        size, left = len(memoryview(raw)), self._run.size_left
        if size <= left:
            return entry
        text = (
            f"its result has {size:,} bytes, and the task may grow by {max(left, 0):,} "
            "(Limits.task_size): store it elsewhere and return where it is"
        )
        return call.failed(TOO_LARGE, text)

    async def _store(self, entry: StepEntry) -> None:
        if self._run.is_stopped:
            # a step that did not heed its cancellation; or undoes something, now that the client
            # has cancelled
            return
        try:
            await self._run.record(entry)
        except Unavailable as error:
            if self._run.is_stopped:  # the run goes on elsewhere, from what is stored
                raise asyncio.CancelledError from error
            raise

    def _leave(self, call: _Call) -> None:
        """The function has stopped waiting for a step. If the run itself is stopped, the step is
        done again instead.
        """
        if not self._run.is_stopping:
            self._run.note(StepLeft(call.branch.path, call.name, call.n))

    @property
    def step_key(self) -> str:
        """Return the idempotency key of the current step. It is the same in every attempt."""
        place = position_in(self._run)
        if place is None or not place.step:
            raise TypeError(
                "ctx.step_key belongs to a step; read it in the function that ctx.step calls"
            )
        return self._key(place.branch, place.step)

    def _key(self, branch: Branch, label: str) -> str:
        return f"{self._run.task_id}/{self._run.turn}/{branch.below(label)}"

    # Branches

    def _branch(self, verb: str, name: str) -> Branch:
        """The branch a step belongs to. In a task of the user's it is one of its own, known by the
        name of the step.
        """
        run = self._run
        branch = branch_of(run)
        if branch is not None:
            return branch
        if not name:
            raise TypeError(
                f"ctx.{verb} was called in a task of your own, where it can't be "
                "found again after a restart; use ctx.gather "
                "for work side by side and timeout= for time limits, or give it a name of "
                f"its own: ctx.{verb}(..., name=...)"
            )
        if name in self._names:
            raise TypeError(
                f"two steps called in tasks of your own have the name {name!r}; give each its own"
            )
        place = position_in(run)
        if place is None:
            raise TypeError(f"ctx.{verb} was called in a task that was not started by its skill")
        self._names.add(name)
        path = f"@{name}"
        return Branch(path, place.branch.output.child(path), asyncio.current_task())

    async def gather(self, *members: Coroutine[Any, Any, Any]) -> list[Any]:
        """Run coroutines side by side, each in a branch of its own, and return their results.

        All are waited for, whatever becomes of the others; then the first failure by position is
        raised.
        """
        branch = self._gathering(members)
        loop, tasks = self._run.loop, []
        number = branch.next_gather() if branch is not None else 0
        for i, member in enumerate(members):
            if branch is not None:
                path = branch.below(f"{number}.{i}")
                task = loop.create_task(
                    self._member(Branch(path, branch.output.child(path)), member)
                )
                self._activity.resume()
                task.add_done_callback(functools.partial(self._member_done, member))
            else:
                task = loop.create_task(_harmless(member))
                task.add_done_callback(functools.partial(_close, member))
            tasks.append(task)
        if branch is not None:
            self._activity.pause()
        try:
            await _all_done(tasks)
        finally:
            if branch is not None:
                self._activity.resume()
        return [task.result() for task in tasks]

    def _gathering(self, members: tuple[Any, ...]) -> Branch | None:
        """The branch that gathers; None within a step, of which the members are a part."""
        wrong = next((member for member in members if not asyncio.iscoroutine(member)), None)
        place = position_in(self._run)
        branch = branch_of(self._run)
        if wrong is None and (branch is not None or (place is not None and place.step)):
            return None if place is not None and place.step else branch
        for member in members:
            if asyncio.iscoroutine(member):
                member.close()  # nobody will await it
        if wrong is not None:
            raise TypeError(
                "ctx.gather takes coroutines, as in ctx.gather(ctx.step(f), other(ctx)), "
                f"not {type(wrong).__name__}"
            )
        raise TypeError(
            "ctx.gather was called in a task of your own; call it in the skill's function, "
            "or in a member of ctx.gather"
        )

    async def _member(self, branch: Branch, member: Coroutine[Any, Any, Any]) -> Any:
        branch.task = asyncio.current_task()
        RUN_POSITION.set(RunPosition(self._run, branch))  # the task has a context of its own
        try:
            value = await _harmless(member)
        except asyncio.CancelledError:
            if self._history is not None:
                self._history.forget(branch.path)
            raise
        except Exception:
            self._end(branch)
            raise
        finally:
            # The task holds the branch: only the garbage collector would find the two.
            branch.task = None
        self._end(branch)
        return value

    def _member_done(self, member: Coroutine[Any, Any, Any], task: "asyncio.Task[Any]") -> None:
        member.close()  # cancelled before it began, it was never awaited
        self._activity.pause()

    def _end(self, branch: Branch) -> None:
        if self._history is not None and not self._run.is_stopping:
            self._history.end(branch.path)

    # Other agents

    async def delegate(
        self, agent: Any, message: Any, options: DelegateOptions, *, name: str = ""
    ) -> Any:
        """Have another agent do a part of the task, and return its reply. It is known again as a
        step is.

        Once the other agent's task is known, a later attempt subscribes to it instead of sending
        the message again.
        """
        run = self._run
        self._outside("delegate")
        call = _Call(self._branch("delegate", name), name or "delegate")
        found = (
            self._history.step(call.branch.path, call.name, call.n)
            if self._history is not None
            else None
        )
        if options.within is not None:
            within_ms(options.within)  # raises what is wrong before anything is done
        if found is not None and not isinstance(found, Delegated):
            try:
                return run.delegates.reply(agent, await self._recorded(call, found, _JSON))
            except StepFailed as error:
                raise _as_expired(error) from None
        # Handed on: our task is none of the other agent's.
        if isinstance(message, Message) and message.task_id == run.task_id:
            message = replace(message, task_id="")
        await self._activity.may_begin()  # it holds up no stop, once begun: it is found again
        task_id = found.task_id if found is not None else ""

        async def on_task(id_: str) -> None:
            if id_ != task_id:
                await self._store(
                    Delegated(call.branch.path, call.name, call.n, _agent_name(agent), id_)
                )

        questions = Branch(call.branch.below(call.label), call.branch.output, call.branch.task)
        key = self._key(call.branch, call.label)
        work: Coroutine[Any, Any, Any] = run.delegates.converse(
            run,
            agent,
            message,
            key,
            task_id=task_id,
            branch=questions,
            on_task=on_task,
            options=options,
        )
        if options.within is not None:
            work = self._in_time(call, work, options.within)
        try:
            return run.delegates.reply(agent, await self._do(call, work, _JSON))
        except StepFailed as error:
            raise _as_expired(error) from error.__cause__

    async def _in_time(self, call: _Call, work: Coroutine[Any, Any, Any], within: Any) -> Any:
        """Await a delegation until its deadline, which an earlier attempt may have set."""
        timers = Timers(self._run, self._history)
        due = timers.deadline(call.branch.below(f"{call.label}#within"), within)
        self._activity.add_due(due)
        working = asyncio.ensure_future(work)
        waiting = asyncio.ensure_future(self._run.clock.sleep_until(due))
        try:
            await asyncio.wait({working, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise expired("the other agent was not done", due)
            return working.result()
        finally:
            working.cancel()
            waiting.cancel()
            await asyncio.wait({working, waiting})
            self._activity.remove_due(due)

    # Changes of the function

    def patched(self, name: str) -> bool:
        """Whether a change of the function applies: not if the record went past this place before
        the change.
        """
        self._outside("patched")
        branch = branch_of(self._run)
        if branch is None:
            raise TypeError(
                "ctx.patched was called in a task of your own; call it in the skill's "
                "function, and hand on the result"
            )
        known = self._patches.get((branch.path, name))
        if known is None:
            known = self._history.patched(branch.path, name) if self._history is not None else None
            if known is None:
                if not self._run.is_stopped:
                    self._run.note(Patched(branch.path, name))
                known = True
            self._patches[branch.path, name] = known
        return known

    def _outside(self, verb: str) -> None:
        place = position_in(self._run)
        if place is not None and place.step:
            step = place.step.rpartition("#")[0]
            raise TypeError(
                f"ctx.{verb} was called within step {step!r}; call it beside the step, and "
                "hand the result to it"
            )


_JSON = Result("delegate", None)


def _as_expired(error: StepFailed) -> Exception:
    """A delegation that took too long raises `Expired`, in every attempt."""
    return Expired(error.message) if error.type == Expired.__name__ else error


async def _harmless(member: Coroutine[Any, Any, Any]) -> Any:
    """Await a member of a gather. Of what is meant to end a program, asyncio would end the whole
    server.
    """
    try:
        return await member
    except (KeyboardInterrupt, SystemExit) as error:
        raise RuntimeError(f"a member of ctx.gather raised {type(error).__name__}") from error


def _close(member: Coroutine[Any, Any, Any], task: "asyncio.Task[Any]") -> None:
    member.close()  # cancelled before it began, it was never awaited


async def _all_done(tasks: Iterable["asyncio.Task[Any]"]) -> None:
    """Wait for all. If we are cancelled so are they; so they are if the function turns out to be
    another than the recorded one.
    """
    pending = set(tasks)
    mismatch: BaseException | None = None
    try:
        while pending and mismatch is None:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_EXCEPTION)
            found = [task.exception() for task in done if not task.cancelled()]
            mismatch = next((error for error in found if isinstance(error, Mismatch)), None)
    finally:
        for task in pending:
            task.cancel()
        if pending:
            await asyncio.wait(pending)  # for their cleaning up
        for task in pending:
            if not task.cancelled():
                task.exception()  # else it would be logged as never looked at
    if mismatch is not None:
        raise mismatch


# Calling the function


async def _perform(
    run: Recorder,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    name: str,
    backoff: Backoff,
    timeout: float | None,
) -> Any:
    if timeout is None:
        return await _try(run, function, args, name, backoff)
    try:
        async with asyncio.timeout(timeout) as limit:
            return await _try(run, function, args, name, backoff)
    except TimeoutError as error:
        if limit.expired():
            raise TimeoutError(f"not done within {timeout:g} s") from error.__cause__
        raise


async def _try(
    run: Recorder, function: Callable[..., Any], args: tuple[Any, ...], name: str, backoff: Backoff
) -> Any:
    """Call the function until it returns. Each try that failed is a line of the log, and the last
    one a traceback.
    """
    known = {"task_id": run.task_id}
    for n in itertools.count():
        try:
            return await _call(run, function, args, name)
        except Exception as error:
            if n == backoff.times or not isinstance(error, backoff.on):
                if n:
                    words = "task %s: step %s failed %d times, and is given up"
                    log_.warning(words, run.task_id, name, n + 1, exc_info=True, extra=known)
                raise
            pause_s = backoff.pause_s(n)
            log_.warning(
                "task %s: step %s failed (%s), and is tried again in %g s, %d of %d",
                *(run.task_id, name, _in_a_line(error), pause_s, n + 1, backoff.times),
                extra=known,
            )
        await asyncio.sleep(pause_s)


def _in_a_line(error: Exception) -> str:
    text = traceback.format_exception_only(error)[-1]  # also of one whose text can't be read
    return " ".join(text.split())[:200]


async def _call(
    run: Recorder, function: Callable[..., Any], args: tuple[Any, ...], name: str
) -> Any:
    flags = _flags(function)
    if flags & inspect.CO_COROUTINE:
        return await function(*args)
    if flags & inspect.CO_ASYNC_GENERATOR:
        return await _write(run, function(*args))
    value = await run.threads.run(functools.partial(function, *args), f"step {name}")
    if inspect.isawaitable(value):  # as of a lambda that calls a coroutine function
        value = await value
    return value


async def _write(run: Recorder, stream: AsyncGenerator[Any, None]) -> str:
    """Write chunks as they come, and return their text."""
    texts = []
    try:
        async for chunk in stream:
            run.output.emit(chunk)
            if isinstance(chunk, str):
                texts.append(chunk)
            await run.output.drain()
    finally:
        await stream.aclose()
    return "".join(texts)


def _flags(function: Any) -> int:
    """Return the flags of the function's code, which say what kind of function it is."""
    code = getattr(function, "__code__", None) or getattr(routine_of(function), "__code__", None)
    return code.co_flags if code is not None else 0


def _name_of(function: Any, name: str) -> str:
    if not callable(function):
        if inspect.iscoroutine(function):
            function.close()  # nobody will await it
        raise TypeError(
            "ctx.step takes a function and its arguments, as in ctx.step(search, trip), "
            f"not {type(function).__name__}"
        )
    if name:
        return name
    found: str = getattr(function, "__name__", "") or type(function).__name__
    if found == "<lambda>" or isinstance(function, functools.partial):
        what = "lambda" if found == "<lambda>" else "functools.partial"
        raise TypeError(
            f"a {what} has no name by which it can be found after a restart; write "
            f"ctx.step({what}..., name='...'), or use a def"
        )
    return found


def _agent_name(agent: Any) -> str:
    return agent if isinstance(agent, str) else str(getattr(agent, "name", ""))


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
