"""The usual send of 0.2 and 0.3, read at C speed: an old client is not to be a slow one."""

from typing import Literal

import msgspec

from ...model import Message, Metadata, Part, Role, SendConfiguration, SendMessageRequest
from ..legacy import read_modes

__all__ = ["read"]


class _Text(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    text: str
    kind: Literal["text"]


class _Message(msgspec.Struct, rename="camel", forbid_unknown_fields=True, gc=False):
    message_id: str
    role: Literal["user"]
    parts: list[_Text]
    kind: Literal["message"] = "message"
    task_id: str = ""
    context_id: str = ""
    metadata: Metadata | None = None


class _Configuration(msgspec.Struct, rename="camel", forbid_unknown_fields=True, gc=False):
    accepted_output_modes: list[str] = []
    blocking: bool = True
    history_length: int | None = None


class _Send(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """What nearly every send is: text of the user. `v03.read_send` knows all the rest."""

    message: _Message
    configuration: _Configuration | None = None
    metadata: Metadata | None = None


_decode_send = msgspec.json.Decoder(_Send).decode


def read(params: bytes) -> SendMessageRequest | None:
    """Return the request if it is the usual one, at a fifth of what the long way costs; None for
    everything else.
    """
    try:
        sent = _decode_send(params)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    message, chosen = sent.message, sent.configuration
    request = SendMessageRequest(
        message=Message(
            message_id=message.message_id,
            role=Role.USER,
            parts=[Part(text=part.text) for part in message.parts],
            task_id=message.task_id,
            context_id=message.context_id,
            metadata=message.metadata,
        ),
        metadata=sent.metadata,
    )
    if chosen is not None:
        request.configuration = SendConfiguration(
            accepted_output_modes=read_modes(chosen.accepted_output_modes),
            history_length=chosen.history_length,
            return_immediately=not chosen.blocking,
        )
    return request
