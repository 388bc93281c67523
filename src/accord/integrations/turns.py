"""What the files of the frameworks share: an agent of theirs is one skill, whose turns it makes.

A file has an async generator `run(obj, turn, ctx)`. It yields text as it comes, and other values as
data; it calls `ctx.status` to say which tool is called; and where the framework stops to ask a
person, it yields a `HumanPause`. The turn ends with that, so nothing waits in memory, and no model
is called again after a restart: what the framework needs to go on is in `ctx.state`.
"""

import base64
import contextlib
import inspect
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from ..agent import Agent
from ..engine.skills import Ask, Context, definition_of, is_of_mode
from ..model import ContentTypeNotSupported, File, InvalidParams, Message
from ..schema import Shape

__all__ = [
    "MEDIA",
    "YES_OR_NO",
    "FrameworkTurn",
    "HumanPause",
    "Options",
    "TurnFile",
    "add_ask_skill",
    "approval",
    "shown_call",
    "text_of",
]

# Keyword arguments for the framework's run call, for each turn.
Options: TypeAlias = (
    Callable[[Context], Mapping[str, Any] | Awaitable[Mapping[str, Any]]] | Mapping[str, Any] | None
)

YES_OR_NO = {"type": "boolean"}
MEDIA = ("image/*", "audio/*", "video/*", "application/pdf")  # what models take today
_TEXT = ("text/plain", "text/*", "application/json")
_PAUSED = "paused"  # in ctx.state: runs that wait for a person, by task
_MOST_PAUSED = 8


class TurnFile(msgspec.Struct):
    """A file of a message, with its content."""

    name: str
    media_type: str
    data: bytes

    @property
    def kind(self) -> str:
        """Return image, audio, video or file."""
        kind = self.media_type.partition("/")[0]
        return kind if kind in ("image", "audio", "video") else "file"

    @property
    def base64(self) -> str:
        return base64.b64encode(self.data).decode()

    @property
    def data_url(self) -> str:
        return f"data:{self.media_type};base64,{self.base64}"


class FrameworkTurn(msgspec.Struct):
    """One message for the framework's agent."""

    message: Message
    options: dict[str, Any]
    texts: list[str] = []  # files of text, each after its name
    files: list[TurnFile] = []  # the others
    paused: Any = None  # the state of the run that paused, if this message answers its question
    answer: Any = None

    @property
    def text(self) -> str:
        return "\n\n".join(text for text in (text_of(self.message), *self.texts) if text)

    @property
    def texts_and_files(self) -> list[str | TurnFile]:
        """Return the text, if there is any, and the files."""
        return [*([self.text] if self.text or not self.files else []), *self.files]


class HumanPause(msgspec.Struct):
    """The framework asks a person, and goes on with the next message of this task."""

    question: str
    schema: dict[str, Any] | None  # of the answer; None for any text
    state: Any  # what it needs to go on, as JSON


Run: TypeAlias = Callable[[Any, FrameworkTurn, Context], AsyncGenerator[Any, None]]


def add_ask_skill(
    agent: Agent,
    obj: Any,
    run: Run,
    options: Options,
    *,
    returns: Any = None,
    files: Sequence[str] = (),
) -> None:
    """Give an agent one skill, `ask`, whose turns `run` makes.

    Args:
        agent: Whose skill it is.
        obj: The framework's agent.
        run: Makes a turn.
        options: Of the framework's run call.
        returns: The type of a result that is data, for the card.
        files: The media types of files that `run` passes on. Files of text are passed on as text.
          Others are refused, so that none is lost silently.
    """

    async def ask(
        message: Message, ctx: Context, sent: list[File] | None = None
    ) -> AsyncIterator[Any]:
        turn = FrameworkTurn(message, await _given(options, ctx))
        for file in sent or ():
            await _add_file(turn, file, files)
        waiting = ctx.state.get(_PAUSED, {})
        if (paused := waiting.get(ctx.task_id)) is not None:
            try:
                turn.answer = _answer(message, paused["schema"])
            except InvalidParams as error:
                yield Ask(
                    f"That does not fit: {error}\n{paused['question']}", paused["schema"] or str
                )
                return
            turn.paused = paused["state"]
            del waiting[ctx.task_id]
        async with contextlib.aclosing(run(obj, turn, ctx)) as output:
            async for item in output:
                if isinstance(item, HumanPause):
                    _keep(ctx, item)
                    yield Ask(item.question, item.schema or str)
                    return
                if item != "":
                    yield item

    if returns is not None:
        ask.__annotations__["return"] = AsyncIterator[returns]
    modes = None if definition_of(agent).has_input_modes else [*_TEXT, *files]
    agent.skill(ask, description=agent.description, input_modes=modes)


def approval(calls: Sequence[str], state: Any) -> HumanPause:
    """Ask whether tools may be called: one yes or no for all of them."""
    return HumanPause("\n".join(f"Allow {call}?" for call in calls), YES_OR_NO, state)


def shown_call(name: str, arguments: Any) -> str:
    """A call of a tool as a person reads it; arguments are an object, or JSON text of one."""
    if isinstance(arguments, str):
        with contextlib.suppress(ValueError):
            arguments = json.loads(arguments)
    if isinstance(arguments, Mapping):
        arguments = ", ".join(
            f"{key}={json.dumps(value, ensure_ascii=False, default=str)}"
            for key, value in arguments.items()
        )
    return f"{name}({arguments or ''})"


def _keep(ctx: Context, pause: HumanPause) -> None:
    """Remember a paused run. One whose task was cancelled is never asked for again: only so many
    are kept.
    """
    waiting: dict[str, Any] = ctx.state.setdefault(_PAUSED, {})
    waiting[ctx.task_id] = msgspec.to_builtins(pause)
    for task_id in list(waiting)[:-_MOST_PAUSED]:
        del waiting[task_id]


async def _given(options: Options, ctx: Context) -> dict[str, Any]:
    given = options(ctx) if callable(options) else options
    if inspect.isawaitable(given):
        given = await given
    return dict(given or {})


async def _add_file(turn: FrameworkTurn, file: File, taken: Sequence[str]) -> None:
    """Read a file into a turn.

    Raises:
        ContentTypeNotSupported: The framework's agent can't be given files of this type.
        InvalidParams: It can't be fetched, or is no text although its type says so.
    """
    name, kind = file.name or file.url or "a file", file.media_type.partition(";")[0].lower()
    if any(is_of_mode(kind, mode) for mode in _TEXT):
        try:
            turn.texts.append(f"{name}:\n{(await file.read()).decode()}")
        except UnicodeDecodeError:
            raise InvalidParams(f"{name} is {kind}, but not text in UTF-8") from None
    elif taken and kind != "application/octet-stream":
        turn.files.append(TurnFile(file.name, kind, await file.read()))
    else:
        raise ContentTypeNotSupported(
            f"{name} is {kind}; this agent takes {', '.join([*_TEXT, *taken])}",
            parameter="message.parts",
        )


def _answer(message: Message, schema: dict[str, Any] | None) -> Any:
    if any(isinstance(part.raw, bytes) or isinstance(part.url, str) for part in message.parts):
        raise InvalidParams("answer with text, without files")
    if schema is None:
        return text_of(message)
    # Without the package jsonschema a schema is not checked, and a yes or no has to be one.
    shape = Shape(bool if schema == YES_OR_NO else schema)
    for part in message.parts:
        if part.data is not msgspec.UNSET:
            return shape.read(part.data, "answer")
    return shape.read_text(message.text, "answer")


def text_of(message: Message) -> str:
    """Return what a model gets of a message: its text, and its data as JSON."""
    data = [
        json.dumps(part.data, ensure_ascii=False)
        for part in message.parts
        if part.data is not msgspec.UNSET
    ]
    return "\n".join([message.text, *data] if message.text else data)
