"""One rpc: protobuf on the wire, the version's JSON codec behind it.

A request becomes the JSON it stands for and is read as any other; an answer is made from the JSON
that would have been sent. What a version means is said once, in its JSON codec, and every binding
refuses the same things in the same words.
"""

import copy
import functools
from collections.abc import Callable
from typing import Any

import msgspec
import msgspec.inspect as mi

from ...model import A2AError, Limits, Message, TaskState
from .. import lenient, text
from ..contract import DEFAULT_SEMANTICS, Codec, Semantics, Snapshot
from ..v1 import codec as v1
from .messages import kind, kind_of
from .schema import POOL

__all__ = ["Rpc", "rpcs", "status"]

SMALL = 16 << 10

_TASK = kind("lf.a2a.v1.Task")
_JSON = msgspec.json.Decoder()
_encode = msgspec.json.Encoder().encode


class Rpc:
    """How one rpc of a service writes the request and the answers of one operation."""

    def __init__(self, method: Any, operation: str, codec: Codec, limits: Limits) -> None:
        self.name = method.name
        self.operation = operation
        self.codec = codec
        self.is_as_stored = codec is v1.CODEC  # tasks and events are kept in this very shape
        self._limits = limits
        self._request = kind_of(method.input_type)
        self._answer = kind_of(method.output_type)
        # Of versions whose JSON has the shape of their messages.
        self._type = codec.requests[operation] if isinstance(codec, v1.V1) else None

    def with_codec(self, codec: Codec) -> "Rpc":
        """Return this rpc with another codec of its version."""
        other = copy.copy(self)
        other.codec = codec
        return other

    def decode(self, data: bytes) -> tuple[Any, Semantics]:
        """Return the request in `data`. Raises ParseError or InvalidParams."""
        value = self._request.decode(data)
        if self.is_as_stored and len(data) <= SMALL:  # too little to break a limit
            type_ = v1.REQUESTS[self.operation]
            try:
                return msgspec.convert(value, type_), DEFAULT_SEMANTICS
            except msgspec.ValidationError:
                return lenient.convert(_whole(value, _info(type_)), type_), DEFAULT_SEMANTICS
        if self._type is not None:
            value = _whole(value, _info(self._type))
        params = _encode(value)
        text.check(params, self._limits)
        return self.codec.decode(self.operation, params)

    def result(self, answer: Any) -> bytes:
        if isinstance(answer, Snapshot) and self.is_as_stored:
            is_small = len(answer.head) + len(answer.artifacts) <= SMALL
            task = (
                _small_task(answer.head, answer.artifacts)
                if is_small
                else _TASK.encode(_JSON.decode(answer.data))
            )
            return self._answer.holding("task", task) if self.operation == "SendMessage" else task
        return self._answer.encode(_JSON.decode(self.codec.result(self.operation, answer)))

    def frames(
        self, data: bytes, *, seq: int, is_last: bool, index: Callable[[str], int]
    ) -> list[bytes]:
        """Return a stream's event, stored as `data`: usually one frame."""
        if self.is_as_stored:
            return [self._answer.encode(_JSON.decode(data))]
        event = v1.decode_event(data)
        return self._frames(self.codec.frames(event, seq=seq, is_last=is_last, index=index))

    def message(self, message: Message) -> list[bytes]:
        """Return the one event of a stream that is a bare reply."""
        return self._frames(self.codec.frames(message, seq=0, is_last=True, index=lambda _: 0))

    def _frames(self, frames: list[bytes]) -> list[bytes]:
        return [self._answer.encode(_JSON.decode(frame)) for frame in frames]


@functools.cache
def _info(type_: type) -> mi.Type:
    return mi.type_info(type_)


def _whole(value: Any, node: mi.Type) -> Any:
    """Return a request with its empty members: protobuf leaves them out, and it is the operation
    that says they are required.
    """
    match node:
        case mi.StructType() if isinstance(value, dict):
            found = dict(value)
            for field in node.fields:
                if field.encode_name in value:
                    found[field.encode_name] = _whole(value[field.encode_name], field.type)
                elif field.required and (empty := _empty(field.type)) is not None:
                    found[field.encode_name] = empty
            return found
        case mi.ListType() if isinstance(value, list):
            return [_whole(item, node.item_type) for item in value]
        case mi.UnionType():
            return next(
                (_whole(value, type_) for type_ in node.types if isinstance(type_, mi.StructType)),
                value,
            )
    return value


def _empty(node: mi.Type) -> Any:
    match node:
        case mi.StrType():
            return ""
        case mi.ListType():
            return []
        case mi.EnumType():
            return next(iter(node.cls)).value  # the one that is unspecified
    return None


@functools.lru_cache(256)
def _small_task(head: bytes, artifacts: bytes) -> bytes:
    """Return a stored task as a message: a sender's answer and what is then asked for again and
    again are the same.
    """
    return _TASK.encode(_JSON.decode(Snapshot(0, TaskState.UNSPECIFIED, head, artifacts).data))


def rpcs(
    service: str, operations: dict[str, str], codec: Codec, limits: Limits, pool: Any = POOL
) -> list[Rpc]:
    """Return the rpcs of the service called `service` in full, of those that `operations` has a row
    for. `pool` has the schema of its version.
    """
    methods = pool.FindServiceByName(service).methods
    return [
        Rpc(method, operations[method.name], codec, limits)
        for method in methods
        if method.name in operations
    ]


def status(code: int, text: str, error: A2AError) -> bytes:
    """Return an error as the google.rpc.Status that travels in `grpc-status-details-bin`."""
    details = []
    for detail in v1.error_details(error):
        url = detail.pop("@type")
        details.append({"typeUrl": url, "value": kind(url.rpartition("/")[2]).encode(detail)})
    return kind("google.rpc.Status").encode({"code": code, "message": text, "details": details})
