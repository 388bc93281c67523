"""What a skill can do while it runs."""

import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, overload

from ...auth import Caller
from ...model import ArtifactUpdate, Message, Progress, StatusUpdate, Task

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


class Reject(Exception):
    """Raised by `Context.reject`; ends the task as rejected."""


class Fail(Exception):
    """Raised by `Context.fail`; ends the task as failed, with a reason the client may read."""


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
        return self._run.drain().__await__()


class Context:
    """The task a skill works on, and what it can do: report, write, ask, call others, decline.

    `status`, `write` and `artifact` act at once and may be called from any thread; awaiting them
    lets a fast agent wait for a slow disk. `ask` waits for the client, for as long as it takes.
    """

    __slots__ = ("_resources", "_run", "_sender", "_tenant", "context_id")

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
        self.context_id = context_id

    @property
    def caller(self) -> Caller:
        """Who sent the message this run works on."""
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
        """The tenant the caller named, or its credentials did; empty if there is none."""
        return self._tenant if self._run is None else self._run.log.namespace.tenant

    @property
    def resources(self) -> Any:
        """What the agent's lifespan has yielded: pools, clients, models. See `agent.lifespan`."""
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
        if not run.is_here and not (on_any_loop and run.is_on_a_loop):
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
    def task_id(self) -> str:
        return self._task_run.task_id

    @property
    def task(self) -> Task:
        """The task as it stands now, as a copy: what was said, and is not stored yet, included."""
        return self._task_run.log.snapshot().task

    @property
    def cursor(self) -> str:
        """The last `cursor` that earlier attempts of this run gave to `say`; empty in the first."""
        return self._task_run.cursor

    @property
    def idempotency_key(self) -> str:
        """The key under which the message that made this task may be sent again; empty if there is
        none. Only the first attempt of a run knows it.
        """
        return self._task_run.idempotency_key

    @property
    def message(self) -> Message:
        """The newest message the skill has taken."""
        return self._task_run.message

    @property
    def history(self) -> list[Message]:
        """Everything said in this task, oldest first, the newest message included.

        After a restart, while what was done before is gone through again, it is what it was then:
        up to the message the function had taken.
        """
        return self._task_run.messages

    @property
    def accepted_output_modes(self) -> list[str]:
        """The media types the client says it can take; empty if it did not say."""
        return list(self._task_run.output_modes)

    @property
    def state(self) -> dict[str, Any]:
        """What the agent remembers of this conversation (the same contextId and caller): a JSON
        object, yours to change.

        It is loaded when the turn begins, and stored with the status that ends it: also with a
        question, not if the turn fails or is cancelled. Of two turns that run at once the later
        one's is kept, whole.

        history = ctx.state.setdefault("history", [])
        """
        conversation = self._task_run.conversation
        if conversation is None:
            raise RuntimeError(
                f"give skill {self._task_run.skill.id} a parameter `ctx: Context`: the state of a "
                "conversation is loaded only for skills that have one"
            )
        return conversation.value

    def conversation(self, limit: int = 20) -> Coroutine[Any, Any, list[Task]]:
        """The newest earlier tasks of this conversation (the same contextId), oldest of them first,
        this one left out.
        """
        from ..runs import conversation

        return Pending("conversation", conversation(self._waiting("conversation"), limit))

    def status(self, text: str, *, metadata: dict[str, Any] | None = None) -> Awaitable[None]:
        """Say how far the work is. The task stays working."""
        run = self._task_run
        run.act(lambda: run.progress(text, metadata))
        return Done(run)

    def progress(self, done: float, total: float | None = None, text: str = "") -> Awaitable[None]:
        """Say how far the work is, in numbers: `ctx.progress(3, 10, "rows read")`. The task stays
        working.

        Clients read "3 of 10 rows read" as with `status`, and the numbers in `event.progress` and
        `reply.progress`; the command line and the console show a bar. Each call is an event that
        is stored: for a million rows call it now and then.

        Args:
            done: How much is done, 0 or more.
            total: Of how much, if that is known.
            text: What is counted.
        """
        progress = Progress.of(done, total)
        return self.status(f"{progress} {text}".rstrip(), metadata=progress.metadata)

    def write(self, chunk: Any, *, last: bool = False) -> Awaitable[None]:
        """Add a chunk to the run's artifact, as `yield` does."""
        run = self._task_run
        run.act(lambda: run.emit(chunk, is_last=last))
        return Done(run)

    def artifact(
        self,
        *content: Any,
        name: str = "",
        description: str = "",
        id: str = "",
        metadata: dict[str, Any] | None = None,
    ) -> Awaitable[None]:
        """Add a whole artifact. One with an id that exists replaces it."""
        run = self._task_run
        run.act(
            lambda: run.add_artifact(
                content, name=name, description=description, artifact_id=id, metadata=metadata
            )
        )
        return Done(run)

    def say(
        self, event: StatusUpdate | ArtifactUpdate | Message, *, cursor: str | None = None
    ) -> Awaitable[None]:
        """Add an event of the protocol as it is; for bridges to other frameworks and agents.

        The ids become those of this task. A final status ends the task; with an interrupted one
        (input or authorization required) the turn ends when the function returns, and the next
        message calls it again. A Message is the last word of the completed task.

        A durable skill gives the `cursor` of each event on the other side too, or "" if there is
        none. When it is called again, `ctx.cursor` and `ctx.task` tell what it had said.
        """
        run = self._task_run
        run.act(lambda: run.say(event, cursor))
        return Done(run)

    @overload
    def ask(self, question: str | Message, *, name: str = "") -> Coroutine[Any, Any, str]: ...

    @overload
    def ask(
        self, question: str | Message, type: type[T], *, name: str = ""
    ) -> Coroutine[Any, Any, T]: ...

    @overload
    def ask(
        self, question: str | Message, type: dict[str, Any], *, name: str = ""
    ) -> Coroutine[Any, Any, Any]: ...

    def ask(
        self, question: str | Message, type: Any = str, *, name: str = ""
    ) -> Coroutine[Any, Any, Any]:
        """Ask the client and wait for the answer: the task is input-required until then.

        With a type other than `str` the question carries its JSON Schema and the answer is checked;
        a wrong one is asked again, saying what was wrong. With `Message` the whole answer is
        returned. A dict is a JSON Schema, sent as it is: the answer is JSON, checked if the package
        `jsonschema` is installed.

        After a restart the answer is found again by the question's text and type. If something in
        the text is another every time (a time, a price of now), give the question a `name`, which
        then counts instead.
        """
        run = self._waiting("ask", on_any_loop=True)
        asked = self._question(
            "ask", lambda branch: run.questions.ask(branch, question, type, name)
        )
        return Pending("ask", asked if run.is_here else run.here(asked))

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
        """Call a function once, even if the process dies after it: its result is in the log before
        this returns.

        After a restart the recorded result is given back and the function is not called. It may be
        called twice if the process dies during it: make it safe to repeat, or hand `ctx.step_key`
        on as an idempotency key.

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
        if run is None or run.thread != threading.get_ident():
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

        Each member is a branch of its own: after a restart its steps are known whichever of them
        comes first. All are waited for; then the first failure by position is raised.
        """
        return Pending("gather", self._waiting("gather").steps.gather(*members))

    @property
    def step_key(self) -> str:
        """What the step we are in is called, the same after every restart: an idempotency key for
        what the step calls.
        """
        return self._task_run.steps.step_key

    def patched(self, name: str) -> bool:
        """Whether a change of the function applies to this run: False if it had gone past this
        place before the change.

        if ctx.patched("pricing"): price = await ctx.step(new_price)
        else: price = await ctx.step(old_price)
        """
        return self._waiting("patched").steps.patched(name)

    @property
    def is_canceled(self) -> bool:
        """Whether the client cancelled the task. A function that is cancelled for any other reason
        is called again later.
        """
        return self._task_run.is_canceled

    @property
    def is_sure(self) -> bool:
        """Whether no other process can have taken up this task. False while the server can't reach
        its database: what is done now may be done elsewhere too.

        Ask it before what must not be done twice: `if not ctx.is_sure: ctx.fail("try again")`.
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
        returns: Any = None,
    ) -> Coroutine[Any, Any, Any]:
        """Have another agent do a part of this task, and return its reply (as `connect(agent).send`
        does).

        `agent` is a URL, a card, an Agent or a client. Its progress becomes ours, its questions are
        asked of our own client, and cancelling this task cancels its. If it fails or declines, this
        raises `Fail`, and so fails this task unless caught. It is known again after a restart as a
        step is: the other agent goes on with the same task.

        Args:
            agent: Whom to ask.
            message: What to do.
            skill: Which of its skills it is for.
            metadata: Of the message.
            headers: Of the request. What our own caller sent is never handed on by itself.
            write: Write the text it writes into our own artifact, as it comes.
            name: By which it is known after a restart, if several run side by side.
            returns: The type of the result: what `reply.as_(returns)` gives instead of the reply.
        """
        from ..durable import DelegateOptions

        steps = self._waiting("delegate").steps
        options = DelegateOptions(skill, metadata, headers, write)
        reply = steps.delegate(agent, message, options, name=name)
        return Pending("delegate", reply if returns is None else _read(reply, returns))

    def require_auth(
        self, text: str, *, until: Awaitable[T] | None = None
    ) -> Coroutine[Any, Any, T | Message]:
        """Say what has to be authorized and wait: for `until`, if given, or for a message of the
        client.

        Open streams stay open meanwhile. A message is returned as it is; it authorizes
        nothing by itself.
        """
        run = self._waiting("require_auth")
        asked = self._question(
            "require_auth", lambda branch: run.questions.require_auth(branch, text, until)
        )
        return Pending("require_auth", asked)

    def reject(self, reason: str) -> NoReturn:
        """Decline the task. Nothing after this is run."""
        raise Reject(reason)

    def fail(self, reason: str) -> NoReturn:
        """End the task as failed, for a reason the client may know."""
        raise Fail(reason)


async def _read(reply: Coroutine[Any, Any, "ClientReply"], type_: type[T]) -> T:
    return (await reply).as_(type_)


def current() -> Context:
    """Return the Context of the run this code is part of, however deep in its calls.

    async def search(query: str) -> str:  # a tool that knows nothing of agents
        accord.current().status(f"searching for {query}")

    Raises:
        RuntimeError: No skill called this code.
    """
    from ..durable import (
        RUN_POSITION,
    )  # brings asyncio, which someone who only names a Context need not

    place = RUN_POSITION.get()
    if place is None:
        raise RuntimeError("accord.current() works only in code that a skill with a task calls")
    run: Run = place.run
    return Context(run, run.sender, run.log.ids.context_id)
