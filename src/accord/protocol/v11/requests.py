"""The requests of A2A 1.1: those of 1.0, and what they may say of generations."""

from typing import Annotated, Any

import msgspec

from ...model import GetTaskRequest, SendConfiguration, SendMessageRequest
from ..contract import Semantics

__all__ = ["MAX_GENERATION", "GetTask", "SendMessage", "asked", "split"]

MAX_GENERATION = 2**63 - 1
Generation = Annotated[int, msgspec.Meta(ge=0, le=MAX_GENERATION)]

_SHOWS_TIMELINE = Semantics(has_timeline=True)


class GetTask(GetTaskRequest):
    current_generation: Generation | None = None


class Configuration(SendConfiguration):
    if_generation_match: Generation | None = None


class SendMessage(SendMessageRequest):
    configuration: Configuration | None = None


def split(request: Any) -> tuple[Any, Semantics]:
    """Return a request as 1.0 has it, and what 1.1 adds to it."""
    match request:
        case GetTask():
            plain = _as(GetTaskRequest, request)
            return plain, Semantics(
                current_generation=request.current_generation, has_timeline=True
            )
        case SendMessage(configuration=None):
            return _as(SendMessageRequest, request), _SHOWS_TIMELINE
        case SendMessage(configuration=Configuration() as given):
            sent = _as(SendMessageRequest, request)
            sent.configuration = _as(SendConfiguration, given)
            return sent, Semantics(if_generation_match=given.if_generation_match, has_timeline=True)
    return request, _SHOWS_TIMELINE


def asked(request: Any, semantics: Semantics) -> Any:
    """Return a request of 1.0 with what 1.1 may say in it: the other way round."""
    match request:
        case GetTaskRequest():
            found = _as(GetTask, request)
            found.current_generation = semantics.current_generation
            return found
        case SendMessageRequest(configuration=configuration):
            sent = _as(SendMessage, request)
            sent.configuration = _as(Configuration, configuration or SendConfiguration())
            sent.configuration.if_generation_match = semantics.if_generation_match
            return sent
    return request


def _as(type_: Any, value: Any) -> Any:
    """Return an object of another type with the members that both have."""
    both = {field.name for field in msgspec.structs.fields(type_)} & set(value.__struct_fields__)
    return type_(**{name: getattr(value, name) for name in both})
