"""The protobuf schema of A2A 1.1: that of 1.0, and the fields it adds.

Both have the same package and service. So they are in different pools, and the metadata of a call
says which one it is written in.
"""

from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto

from ..protobuf import load_schema

__all__ = ["POOL"]

_PACKAGE = "lf.a2a.v1"
_NUMBERS = {
    ("Task", "generation"): 7,
    ("TaskStatusUpdateEvent", "generation"): 5,
    ("TaskArtifactUpdateEvent", "generation"): 7,
    ("Artifact", "start_generation"): 7,
    ("Artifact", "end_generation"): 8,
}
_OPTIONAL_NUMBERS = {
    ("GetTaskRequest", "current_generation"): 4,
    ("SendMessageConfiguration", "if_generation_match"): 5,
}
_TIMELINE = 8


def _amend(file: Any) -> None:
    if file.package != _PACKAGE:
        return
    messages = {message.name: message for message in file.message_type}
    for (message, name), number in _NUMBERS.items():
        _add_number(messages[message], name, number)
    for (message, name), number in _OPTIONAL_NUMBERS.items():
        field = _add_number(messages[message], name, number)
        field.proto3_optional = True
        field.oneof_index = len(messages[message].oneof_decl)
        messages[message].oneof_decl.add(name=f"_{name}")
    entry = file.message_type.add(name="TimelineEntry")
    _add_number(entry, "generation", 1)
    entry.oneof_decl.add(name="content")
    _add_message(entry, "message", 2, "Message").oneof_index = 0
    _add_message(entry, "status", 3, "TaskStatus").oneof_index = 0
    timeline = _add_message(messages["Task"], "timeline", _TIMELINE, "TimelineEntry")
    timeline.label = FieldDescriptorProto.LABEL_REPEATED


def _add_number(message: Any, name: str, number: int) -> Any:
    return message.field.add(
        name=name,
        number=number,
        type=FieldDescriptorProto.TYPE_INT64,
        label=FieldDescriptorProto.LABEL_OPTIONAL,
    )


def _add_message(message: Any, name: str, number: int, type_: str) -> Any:
    return message.field.add(
        name=name,
        number=number,
        type=FieldDescriptorProto.TYPE_MESSAGE,
        type_name=f".{_PACKAGE}.{type_}",
        label=FieldDescriptorProto.LABEL_OPTIONAL,
    )


POOL = load_schema(_amend)
