"""What clients of each version saw of a task over each binding, and what they did not get."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from ..model import InvalidParams
from ..operations import Version
from ..protocol import Codec

__all__ = ["codec_of", "codecs_of", "lost"]

_MARK = re.compile(r"^(TASK_STATE|ROLE)_")


def codecs_of(version: Version) -> dict[str, Codec]:
    """Return how a version writes on each binding that it has."""
    found: dict[str, Codec] = {"JSONRPC": version.rpc_codec}
    if version.rest:
        found["HTTP+JSON"] = version.rest_codec
    if version.grpc:
        found["GRPC"] = version.grpc_codec
    return found


def codec_of(versions: list[Version], number: str, binding: str) -> Codec:
    """Return how a version writes on a binding.

    Raises:
        InvalidParams: There is no such version here, or it does not have this binding.
    """
    known = {version.number: codecs_of(version) for version in versions}
    if number not in known:
        raise InvalidParams(f"version {number!r:.40} is not one of {', '.join(known)}")
    if binding not in known[number]:
        raise InvalidParams(f"binding {binding!r:.40} is not one of {', '.join(known[number])}")
    return known[number][binding]


def lost(event: bytes, frames: list[bytes]) -> list[str]:
    """Return the members of an event, as 1.0 writes it, whose values stand nowhere in the frames
    that carry it for another client. Names differ between versions, values do not.
    """
    kept = {value for frame in frames for _, value in _leaves(msgspec.json.decode(frame), "")}
    missing = (path for path, value in _leaves(msgspec.json.decode(event), "") if value not in kept)
    return list(dict.fromkeys(missing))


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield texts and numbers with the path to each, states and roles in the form all share."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield from _leaves(member, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item, f"{path}[]")
    elif isinstance(value, str) and value:
        yield path, _shared(value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, repr(float(value))


def _shared(text: str) -> str:
    if _MARK.match(text):
        return _MARK.sub("", text).lower().replace("_", "-").replace("cancelled", "canceled")
    return text.removesuffix("+00:00") + "Z" if text.endswith("+00:00") else text
