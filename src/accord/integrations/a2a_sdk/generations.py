"""The objects of a2a-sdk and ours, in both directions, for the release that is installed.

1.x has protobuf messages; 0.2 and 0.3 have pydantic models of the JSON of A2A 0.3.
"""

import contextlib
import functools
from typing import Any, Protocol

import msgspec

from ... import model
from ...model import (
    A2AError,
    AgentCard,
    ArtifactUpdate,
    Message,
    SendMessageRequest,
    StatusUpdate,
    Task,
)

__all__ = ["SdkGeneration", "installed"]

Said = Task | Message | StatusUpdate | ArtifactUpdate


class SdkGeneration(Protocol):
    """What differs between the releases of a2a-sdk."""

    def request_context(
        self,
        request: SendMessageRequest | None,
        task: Task | None,
        task_id: str,
        context_id: str,
        call: Any,
    ) -> Any:
        """A `RequestContext` for a message, or for a cancel; `task` is None on the first turn."""
        ...

    def event(self, event: Any) -> Said:
        """What an executor has put into its queue."""
        ...

    def card(self, card: Any) -> AgentCard: ...


def installed() -> SdkGeneration:
    """The generation of the a2a-sdk that can be imported here.

    Raises:
        ImportError: There is none.
    """
    try:
        import a2a.types
    except ImportError as error:
        raise ImportError(
            "a2a-sdk is not installed here; install the release your program was written for, "
            "as in: pip install 'a2a-sdk>=1'"
        ) from error
    return _pydantic() if hasattr(a2a.types, "TextPart") else _protobuf()


@functools.cache
def _protobuf() -> SdkGeneration:
    return _Protobuf()


@functools.cache
def _pydantic() -> SdkGeneration:
    return _Pydantic()


class _Protobuf:
    """a2a-sdk 1.x: messages of protobuf, through their bytes."""

    def __init__(self) -> None:
        from a2a.types import a2a_pb2

        from ...protocol.protobuf import kind

        self._pb = a2a_pb2
        self._kind = kind
        self._models: dict[str, Any] = {
            "Task": Task,
            "Message": Message,
            "TaskStatusUpdateEvent": StatusUpdate,
            "TaskArtifactUpdateEvent": ArtifactUpdate,
        }

    def _write(self, name: str, value: Any) -> Any:
        made = self._kind(f"lf.a2a.v1.{name}").encode(msgspec.to_builtins(value))
        return getattr(self._pb, name).FromString(made)

    def _read(self, message: Any) -> Any:
        name = type(message).__name__
        value = self._kind(f"lf.a2a.v1.{name}").decode(message.SerializeToString())
        return msgspec.convert(value, self._models[name])

    def request_context(
        self,
        request: SendMessageRequest | None,
        task: Task | None,
        task_id: str,
        context_id: str,
        call: Any,
    ) -> Any:
        from a2a.server.agent_execution import RequestContext

        return RequestContext(
            call,
            request=None if request is None else self._write("SendMessageRequest", request),
            task_id=task_id,
            context_id=context_id,
            task=None if task is None else self._write("Task", task),
        )

    def event(self, event: Any) -> Said:
        if type(event).__name__ not in self._models:
            raise TypeError(f"an executor can't send a {type(event).__name__}")
        said: Said = self._read(event)
        return said

    def card(self, card: Any) -> AgentCard:
        return _card(self._kind("lf.a2a.v1.AgentCard").decode(card.SerializeToString()))


class _Pydantic:
    """a2a-sdk 0.2 and 0.3: pydantic models, through the JSON of A2A 0.3."""

    def __init__(self) -> None:
        import a2a.types

        from ...protocol import v03

        self._types = a2a.types
        self._v03 = v03

    def request_context(
        self,
        request: SendMessageRequest | None,
        task: Task | None,
        task_id: str,
        context_id: str,
        call: Any,
    ) -> Any:
        from a2a.server.agent_execution import RequestContext

        params = None
        if request is not None:
            value = self._v03.write_send(msgspec.to_builtins(request))
            value.get("configuration", {}).pop("pushNotificationConfig", None)
            params = self._types.MessageSendParams.model_validate(value)
        if task is not None:
            task = self._types.Task.model_validate(self._v03.write_task(msgspec.to_builtins(task)))
        made = {
            "request": params,
            "task_id": task_id,
            "context_id": context_id,
            "task": task,
        }
        with contextlib.suppress(TypeError):  # before 0.2.6 it has no call context
            return RequestContext(**made, call_context=call)
        return RequestContext(**made)

    def event(self, event: Any) -> Said:
        value = event.model_dump(mode="json", by_alias=True, exclude_none=True)
        value = self._v03.read_event(value)
        said: Said = msgspec.convert(value, model.StreamResponse).event
        return said

    def card(self, card: Any) -> AgentCard:
        return _card(card.model_dump(mode="json", by_alias=True, exclude_none=True))


def _card(value: Any) -> AgentCard:
    """A card as the client reads it, who forgives what programs leave out."""
    from ...client.discovery import card_of

    return card_of(value, "http://localhost/", [])


# The SDK's errors, by their class name without "Error"; what has another name here.
_OURS = {
    "JSONParse": "ParseError",
    "AuthenticatedExtendedCardNotConfigured": "ExtendedAgentCardNotConfigured",
}


def a2a_error(error: BaseException) -> A2AError | None:
    """An error of the protocol that an executor has raised, as ours; None if it is another."""
    inner = getattr(error, "error", None) or error  # 0.x: ServerError(InvalidParamsError())
    name = type(inner).__name__
    if not type(inner).__module__.startswith("a2a.") or not name.endswith("Error"):
        return None
    ours = getattr(model, _OURS.get(name.removesuffix("Error"), name.removesuffix("Error")), None)
    text = getattr(inner, "message", None) or str(error)
    if isinstance(ours, type) and issubclass(ours, A2AError):
        return ours(text)
    return A2AError(text) if name in ("A2AError", "InternalError") else None
