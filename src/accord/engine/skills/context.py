"""What a skill can do while it runs."""

import datetime
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar, overload

from ...auth import Caller
from ...model import Artifact, ArtifactUpdate, File, Message, Progress, StatusUpdate, Task
from .file_writer import FileWriter
from .values import is_file

if TYPE_CHECKING:
    from ...client import ClientReply
    from ..durable import Backoff, Branch
    from ..log import Sender
    from ..runs import Run

__all__ = ["Context", "Fail", "Reject", "current"]

T = TypeVar("T")
T1 = TypeVar("T1")
T2 = TypeVar("T2")
T3 = TypeVar("T3")
T4 = TypeVar("T4")


NO_RESOURCES: Any = object()  # of an agent without a lifespan
NO_DEFAULT: Any = object()  # of a question that raises Expired
Within: TypeAlias = "float | datetime.timedelta | None"


class Reject(Exception):
    """Raised by `Context.reject`; ends the task as rejected."""


class Fail(Exception):
    """Ends the task as failed, with a reason the client may read.

    Raised by `ctx.fail`, and by `ctx.delegate` if the other agent fails, declines or can't be
    reached.

        try:
            hotel = await ctx.delegate("http://localhost:8000", "Oslo")
        except Fail as error:
            ctx.write(f"No hotel: {error}")
    """


class Pending(Coroutine[Any, Any, T]):
    """What a verb returns that has to be awaited.

    As text it is an error: otherwise a client would be sent `<coroutine object ...>` by a skill
    that forgot an `await`.
    """

    __slots__ = ("_coroutine", "_verb")

    def __init__(self, verb: str, coroutine: Coroutine[Any, Any, T]) -> None:
        self._verb = verb
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, T]:
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        return self._coroutine.throw(*error)

    def close(self) -> None:
        self._coroutine.close()

    def __str__(self) -> str:
        self._coroutine.close()  # nobody will await it
        raise TypeError(
            f"write `await` before ctx.{self._verb}(...): without it there is no result"
        )

    def __repr__(self) -> str:
        return f"<ctx.{self._verb}(...), not awaited yet>"


class Done:
    """Returned by what has already happened; awaiting it waits for room in the log."""

    __slots__ = ("_run",)

    def __init__(self, run: "Run") -> None:
        self._run = run

    def __await__(self) -> Generator[Any, None, None]:
        return self._run.output.drain().__await__()


class Context:
    """Report progress, write output, ask the client and call other agents, from a skill.

    `status`, `write` and `artifact` act at once and may be called from any thread. Await them if
    the skill produces faster than the disk can store. `ask` waits for the client, however long that
    takes.
    """

    __slots__ = ("_context_id", "_resources", "_run", "_sender", "_tenant")

    def __init__(
        self,
        run: "Run | None",
        sender: "Sender",
        context_id: str,
        tenant: str = "",
        resources: Any = NO_RESOURCES,
    ) -> None:
        self._run = run
        self._resources = resources
        self._sender = sender
        self._tenant = tenant
        self._context_id = context_id

    @property
    def caller(self) -> Caller:
        """The caller who sent the message that this run works on."""
        return self._sender.caller

    @property
    def extensions(self) -> frozenset[str]:
        """The URIs of the extensions that are active: those the client asked for in
        `A2A-Extensions` and the agent card offers.
        """
        return frozenset(self._sender.extensions)

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the request (gRPC: of the metadata), by their names in lower case: those that
        the agent asks for with `Agent(headers=["X-Region"])`; by default `x-request-id` and
        `x-correlation-id`. They are stored with the task.
        """
        return dict(self._sender.headers)

    @property
    def tenant(self) -> str:
        """The tenant that the caller or its credentials named; empty if there is none."""
        return self._tenant if self._run is None else self._run.log.namespace.tenant

    @property
    def resources(self) -> Any:
        """The value that the agent's lifespan yielded: pools, clients, models. See
        `agent.lifespan`."""
        found = self._resources if self._run is None else self._run.resources
        if found is NO_RESOURCES:
            raise RuntimeError(
                "the agent has no resources; open them in a function decorated with @agent.lifespan"
            )
        return found

    @property
    def _task_run(self) -> "Run":
        if self._run is None:
            raise TypeError(
                "a skill annotated -> Reply has no task; drop the annotation to use this"
            )
        return self._run

    def _waiting(self, verb: str, *, on_any_loop: bool = False) -> "Run":
        """The run, for something that has to be awaited: said at the call, since nobody awaits it
        in a plain function.
        """
        run = self._task_run
        home = run.runs.home
        if not home.is_here and not (on_any_loop and home.is_on_a_loop):
            raise TypeError(
                f"ctx.{verb} has to be awaited, which a plain function can't; write async "
                f"def {run.skill.id}"
            )
        return run

    async def _question(
        self, verb: str, ask: "Callable[[Branch], Coroutine[Any, Any, Any]]"
    ) -> Any:
        """Ask in the branch that awaits this: a member of `gather` is called outside of its own."""
        from ..durable import (
            position_in,  # brings asyncio, which someone who only names a Context need not load
        )

        place = position_in(self._task_run)
        if place is None:
            raise TypeError(f"ctx.{verb} was called in a task that was not started by its skill")
        if place.step:
            step = place.step.rpartition("#")[0]
            raise TypeError(
                f"ctx.{verb} was called within step {step!r}; call it beside the step, and "
                "hand the result to it"
            )
        return await ask(place.branch)

    @property
    def context_id(self) -> str:
        """The id of the conversation. Messages with the same one belong together."""
        return self._context_id

    @property
    def task_id(self) -> str:
        """The id of the task."""
        return self._task_run.task_id

    @property
    def task(self) -> Task:
        """A copy of the task in its current state, including output that is not stored yet."""
        return self._task_run.log.snapshot().task

    @property
    def cursor(self) -> str:
        """The last `cursor` that earlier attempts of this run passed to `say`; empty in the first
        attempt."""
        return self._task_run.cursor

    @property
    def idempotency_key(self) -> str:
        """The idempotency key of the message that made this task; empty if there is none. Only the
        first attempt of a run has it.
        """
        return self._task_run.idempotency_key

    @property
    def message(self) -> Message:
        """The newest message that the skill has read."""
        return self._task_run.message

    @property
    def history(self) -> list[Message]:
        """All messages of this task, oldest first, including the newest one. `ctx.files_of` opens
        their files.

        While a run is replayed after a restart, it has the messages up to the one that the function
        had read at this point.
        """
        return self._task_run.messages

    def files_of(self, said: Message | Artifact) -> list[File]:
        """Return the files of a message or an artifact: of `ctx.history`, `ctx.message`, `ctx.task`
        or a task of `ctx.conversation()`. Each can be read, opened and saved as a parameter of type
        `File` can, whatever its size.

        for message in ctx.history:
            for file in ctx.files_of(message):
                await file.save("inbox")
        """
        run = self._task_run
        return [run.opened_file(part) for part in said.parts if is_file(part)]

    @property
    def accepted_output_modes(self) -> list[str]:
        """The media types that the client accepts; empty if it did not say."""
        return list(self._task_run.output_modes)

    @property
    def state(self) -> dict[str, Any]:
        """The state of this conversation (same contextId and caller): a JSON object
        that you may change.

        It is loaded when the turn begins and stored when the turn ends, also with a question, but
        not if the turn fails or is cancelled. If two turns run at the same time, the state of the
        one that ends later is kept.

        history = ctx.state.setdefault("history", [])
        """
        conversation = self._task_run.output.conversation
        if conversation is None:
            raise RuntimeError(
                f"give skill {self._task_run.skill.id} a parameter `ctx: Context`: the state of a "
                "conversation is loaded only for skills that have one"
            )
        return conversation.value

    def conversation(self, limit: int = 20) -> Coroutine[Any, Any, list[Task]]:
        """Return the newest earlier tasks of this conversation (same contextId), oldest first,
        without this one.
        """
        from ..runs import conversation

        return Pending("conversation", conversation(self._waiting("conversation"), limit))

    def status(self, text: str, *, metadata: dict[str, Any] | None = None) -> Awaitable[None]:
        """Report what the skill is doing. The task stays working."""
        run = self._task_run
        run.output.act(lambda: run.output.progress(text, metadata))
        return Done(run)

    def progress(self, done: float, total: float | None = None, text: str = "") -> Awaitable[None]:
        """Report progress in numbers: `ctx.progress(3, 10, "rows read")`. The task stays working.

        Clients get the text "3 of 10 rows read", and the numbers in `event.progress` and
        `reply.progress`. The command line and the console show a bar. Each call stores an event, so
        don't call it for each of a million rows.

        Args:
            done: How much is done, 0 or more.
            total: How much there is to do, if that is known.
            text: What is counted.
        """
        progress = Progress.of(done, total)
        return self.status(f"{progress} {text}".rstrip(), metadata=progress.metadata)

    def write(self, chunk: Any, *, last: bool = False) -> Awaitable[None]:
        """Add a chunk to the run's artifact, as `yield` does."""
        run = self._task_run
        run.output.act(lambda: run.output.emit(chunk, is_last=last))
        return Done(run)

    def artifact(
        self,
        *content: Any,
        name: str = "",
        description: str = "",
        id: str = "",
        metadata: dict[str, Any] | None = None,
    ) -> Awaitable[None]:
        """Add a whole artifact. An artifact with the same id is replaced."""
        run = self._task_run
        run.output.act(
            lambda: run.output.add_artifact(
                content, name=name, description=description, artifact_id=id, metadata=metadata
            )
        )
        return Done(run)

    def file(self, name: str, *, media_type: str = "", description: str = "") -> "FileWriter":
        """Write a file piece by piece: an artifact that grows while clients read along.

            async with ctx.file("report.csv", media_type="text/csv") as f:
                await f.write("month,sold\\n")

        It is finished when the block ends. If the block raises, what was written stays.
        """
        return FileWriter(self._task_run, name, media_type, description)

    def say(
        self, event: StatusUpdate | ArtifactUpdate | Message, *, cursor: str | None = None
    ) -> Awaitable[None]:
        """Add an event of the protocol as it is; for bridges to other frameworks and agents.

        The ids become those of this task. A final status ends the task; with an interrupted one
        (input or authorization required) the turn ends when the function returns, and the next
        message calls it again. A Message is the last word of the completed task.

        A durable skill gives the `cursor` of each event on the other side too, or "" if there is
        none. When it is called again, `ctx.cursor` and `ctx.task` show what it had said.
        """
        run = self._task_run
        run.output.act(lambda: run.output.say(event, cursor))
        return Done(run)

    def sleep(
        self,
        duration: float | datetime.timedelta | None = None,
        *,
        until: datetime.datetime | None = None,
    ) -> Coroutine[Any, Any, None]:
        """Wait for a while, or until a time: `await ctx.sleep(timedelta(days=2))`.

        In a durable skill the time is recorded: after a restart only the rest is waited for. A
        sleep of more than ten seconds needs no memory: the function is given up, and called again
        when it is time. Messages that come meanwhile wait for their turn; a cancel ends the task.
        In other skills it is an ordinary sleep.

        Args:
            duration: How long, in seconds or as a `timedelta`.
            until: Until when, with a time zone. If it has passed, this returns at once.
        """
        run = self._waiting("sleep")
        return Pending("sleep", self._question("sleep", lambda _: run.sleep(duration, until)))

    # With a `default` the answer may be that.

    @overload
    def ask(
        self, question: str | Message, *, name: str = "", within: Within = None
    ) -> Coroutine[Any, Any, str]: ...

    @overload
    def ask(
        self, question: str | Message, type: type[T], *, name: str = "", within: Within = None
    ) -> Coroutine[Any, Any, T]: ...

    @overload
    def ask(
        self,
        question: str | Message,
        type: type[T],
        *,
        name: str = "",
        within: Within,
        default: T1,
    ) -> Coroutine[Any, Any, T | T1]: ...

    @overload
    def ask(
        self, question: str | Message, *, name: str = "", within: Within, default: T1
    ) -> Coroutine[Any, Any, str | T1]: ...

    @overload
    def ask(
        self,
        question: str | Message,
        type: dict[str, Any],
        *,
        name: str = "",
        within: Within = None,
        default: Any = NO_DEFAULT,
    ) -> Coroutine[Any, Any, Any]: ...

    def ask(
        self,
        question: str | Message,
        type: Any = str,
        *,
        name: str = "",
        within: Within = None,
        default: Any = NO_DEFAULT,
    ) -> Coroutine[Any, Any, Any]:
        """Ask the client and return the answer. The task is input-required until then.

        With a type other than `str` the question carries its JSON Schema and the answer is checked.
        If it does not fit, the client is asked again, with the reason. With `Message` the whole
        message is returned, with `File` the file in it, of any size. A dict is sent as a JSON
        Schema; the answer is JSON, and checked if the package `jsonschema` is installed.

        After a restart the answer is found by the question's text and type. If the text changes
        from run to run (a time, a price), give the question a `name`, which is used instead.

        With `within`, a `timedelta` or seconds, it has a deadline, which a restart does not move.
        When it passes, the `default` is returned; without one this raises `Expired`, a
        `TimeoutError`. An answer that comes later is refused. Clients see the deadline:
        `ctx.ask("Pay 4,000?", bool, within=timedelta(days=2), default=False)`.
        """
        run = self._waiting("ask", on_any_loop=True)
        if default is not NO_DEFAULT and within is None:
            raise TypeError("ctx.ask(default=...) is for a deadline: give within= too")
        asked = self._question(
            "ask",
            lambda branch: run.questions.ask(
                branch, question, type, name, within=within, default=default
            ),
        )
        home = run.runs.home
        return Pending("ask", asked if home.is_here else home.here(asked, run.task))

    # The result has the type that `returns` names, or the one that the function returns.

    @overload
    def step(
        self,
        function: Callable[..., Any],
        *args: Any,
        name: str = "",
        returns: type[T],
        retries: int = 0,
        retry: "Backoff | None" = None,
        timeout: float | None = None,
    ) -> Coroutine[Any, Any, T]: ...

    @overload
    def step(
        self,
        function: Callable[..., AsyncIterator[str]],
        *args: Any,
        name: str = "",
        returns: None = None,
        retries: int = 0,
        retry: "Backoff | None" = None,
        timeout: float | None = None,
    ) -> Coroutine[Any, Any, str]: ...

    @overload
    def step(
        self,
        function: Callable[..., Awaitable[T]],
        *args: Any,
        name: str = "",
        returns: None = None,
        retries: int = 0,
        retry: "Backoff | None" = None,
        timeout: float | None = None,
    ) -> Coroutine[Any, Any, T]: ...

    @overload
    def step(
        self,
        function: Callable[..., T],
        *args: Any,
        name: str = "",
        returns: None = None,
        retries: int = 0,
        retry: "Backoff | None" = None,
        timeout: float | None = None,
    ) -> Coroutine[Any, Any, T]: ...

    def step(
        self,
        function: Callable[..., Any],
        *args: Any,
        name: str = "",
        returns: Any = None,
        retries: int = 0,
        retry: "Backoff | None" = None,
        timeout: float | None = None,
    ) -> Coroutine[Any, Any, Any]:
        """Call a function and record its result, so that it is not called again after a restart.

        After a restart the recorded result is returned and the function is not called. If the
        process dies during the call, the function is called again: make it safe to repeat, or pass
        on `ctx.step_key` as an idempotency key.

        A step is known by its name, the function's own by default, and by its number among the
        calls of that name. JSON values come back as they are; everything else by the function's
        return annotation, or by `returns`. What it raises in the end is recorded too, and raised as
        `StepFailed`. `retries` is how often it is called again if it raises, with growing pauses;
        `retry=Backoff(...)` sets the pauses, and after which exceptions it is called again.
        `timeout` is how many seconds it may take in all. An async generator function writes each
        chunk as it comes, and gives the joined text. What a step says with `write`, `status` and
        `artifact` is said once.
        """
        run = self._run
        if run is None or run.runs.home.thread != threading.get_ident():
            run = self._waiting("step")  # says what is wrong
        done = run.steps.step(
            function,
            args,
            name=name,
            returns=returns,
            retries=retries,
            retry=retry,
            timeout=timeout,
        )
        return Pending("step", done)

    # A few results of different types are typed as a tuple, so that each keeps its own when they
    # are unpacked. `asyncio.gather` is typed the same way; both return a list.

    @overload
    def gather(
        self, a: Coroutine[Any, Any, T1], b: Coroutine[Any, Any, T2], /
    ) -> Coroutine[Any, Any, tuple[T1, T2]]: ...

    @overload
    def gather(
        self,
        a: Coroutine[Any, Any, T1],
        b: Coroutine[Any, Any, T2],
        c: Coroutine[Any, Any, T3],
        /,
    ) -> Coroutine[Any, Any, tuple[T1, T2, T3]]: ...

    @overload
    def gather(
        self,
        a: Coroutine[Any, Any, T1],
        b: Coroutine[Any, Any, T2],
        c: Coroutine[Any, Any, T3],
        d: Coroutine[Any, Any, T4],
        /,
    ) -> Coroutine[Any, Any, tuple[T1, T2, T3, T4]]: ...

    @overload
    def gather(self, *members: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, list[T]]: ...

    def gather(self, *members: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
        """Run coroutines side by side and return their results in order: `a, b = await
        ctx.gather(ctx.step(f), ctx.step(g))`.

        Each coroutine is a branch of its own, so after a restart its steps are found in whatever
        order they run. All are waited for; then the first failure by position is raised.
        """
        return Pending("gather", self._waiting("gather").steps.gather(*members))

    @property
    def step_key(self) -> str:
        """A key for the current step that is the same after every restart. Pass it on as an
        idempotency key.
        """
        return self._task_run.steps.step_key

    def patched(self, name: str) -> bool:
        """Return whether a change of the function applies to this run. It is False if the run had
        passed this place before the change.

        if ctx.patched("pricing"): price = await ctx.step(new_price)
        else: price = await ctx.step(old_price)
        """
        return self._waiting("patched").steps.patched(name)

    @property
    def is_canceled(self) -> bool:
        """Return whether the client cancelled the task. A function that is cancelled for any other
        reason is called again later.
        """
        return self._task_run.is_canceled

    @property
    def is_sure(self) -> bool:
        """Return whether no other process can have taken over this task. It is False while the
        server can't reach its database: another process may then be doing the same.

        Check it before something that must not be done twice: `if not ctx.is_sure: ctx.fail("try
        again")`.
        """
        return self._task_run.is_sure

    @overload
    def delegate(
        self,
        agent: Any,
        message: Any,
        *,
        skill: str = "",
        metadata: dict[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        write: bool = False,
        name: str = "",
        within: Within = None,
        returns: None = None,
    ) -> Coroutine[Any, Any, "ClientReply"]: ...

    @overload
    def delegate(
        self,
        agent: Any,
        message: Any,
        *,
        skill: str = "",
        metadata: dict[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        write: bool = False,
        name: str = "",
        within: Within = None,
        returns: type[T],
    ) -> Coroutine[Any, Any, T]: ...

    def delegate(
        self,
        agent: Any,
        message: Any,
        *,
        skill: str = "",
        metadata: dict[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        write: bool = False,
        name: str = "",
        within: Within = None,
        returns: Any = None,
    ) -> Coroutine[Any, Any, Any]:
        """Send a message to another agent as a part of this task, and return its reply.

        The other agent's progress is reported here, its questions are passed to the client of this
        task, and cancelling this task cancels the other one. If it fails or rejects, `Fail` is
        raised, which fails this task unless you catch it. After a restart the delegation goes on
        with the same task of the other agent. An `Agent` object keeps its tasks in memory, so they
        are lost in a restart: give `agent.app(store=...)` or a URL for work that has to outlast it.

        Args:
            agent: The other agent: a URL, a card, an `Agent`, its app or a client.
            message: The message to send.
            skill: The skill of the other agent to use.
            metadata: The metadata of the message.
            headers: Headers of the request. Headers of your own caller are never passed on by
              themselves.
            write: Whether to copy its text into the artifact of this task as it comes.
            name: A name to find it by after a restart. `ctx.gather` makes it unnecessary.
            within: How long it may take, in seconds or as a `timedelta`. A restart does not move
              that deadline. When it passes, the other agent's task is cancelled, and this raises
              `Expired`.
            returns: Return the result as this type, as `reply.as_(returns)` does, instead of the
              reply.
        """
        from ..durable import DelegateOptions

        steps = self._waiting("delegate").steps
        options = DelegateOptions(skill, metadata, headers, write, within)
        reply = steps.delegate(agent, message, options, name=name)
        return Pending("delegate", reply if returns is None else _read(reply, returns))

    def require_auth(
        self, text: str, *, until: Awaitable[T] | None = None
    ) -> Coroutine[Any, Any, T | Message]:
        """Ask the client to authorize something, and wait: for `until`, if given, or for a message
        of the client.

        Streams stay open meanwhile. The message is returned as it is. A message alone authorizes
        nothing.
        """
        run = self._waiting("require_auth")
        asked = self._question(
            "require_auth", lambda branch: run.questions.require_auth(branch, text, until)
        )
        return Pending("require_auth", asked)

    def reject(self, reason: str) -> NoReturn:
        """End the task as rejected, with a reason. Code after this call does not run."""
        raise Reject(reason)

    def fail(self, reason: str) -> NoReturn:
        """End the task as failed, with a reason that the client sees. Code after this call does not
        run."""
        raise Fail(reason)


async def _read(reply: Coroutine[Any, Any, "ClientReply"], type_: type[T]) -> T:
    return (await reply).as_(type_)


def current() -> Context:
    """Return the Context of the skill that called this code, directly or through other functions.

    async def search(query: str) -> str:  # a tool that knows nothing of agents
        accord.current().status(f"searching for {query}")

    Raises:
        RuntimeError: No skill called this code.
    """
    # Brings asyncio, which someone who only names a Context need not.
    from ..durable import (
        RUN_POSITION,
    )

    place = RUN_POSITION.get()
    if place is None:
        raise RuntimeError("accord.current() works only in code that a skill with a task calls")
    run: Run = place.run
    return Context(run, run.sender, run.log.ids.context_id)
