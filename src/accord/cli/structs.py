"""Settings of a struct on the command line: `NAME=VALUE`, several with commas."""

import json
import re
import typing
from collections.abc import Iterable
from typing import Any, TypeVar

import click
import msgspec

from .amount import read_seconds, read_size
from .near import did_you_mean

__all__ = ["read_struct"]

S = TypeVar("S", bound=msgspec.Struct)

_COMMA = re.compile(r",(?![^\[]*\])")  # not in a list


def read_struct(type_: type[S], words: Iterable[str], option: str, **given: Any) -> S:
    """Return a struct with what was typed for its fields: `body=8MiB,tasks=500`.

    Raises:
        click.BadParameter: There is no such field, or its value does not fit; says which there are.
    """
    hints = typing.get_type_hints(type_)
    found = dict(given)
    for word in (one for words_ in words for one in _COMMA.split(words_) if one.strip()):
        name, is_set, value = word.partition("=")
        name = name.strip().replace("-", "_")
        if not is_set or name not in hints:
            near = did_you_mean(name, hints)
            raise click.BadParameter(
                f"write NAME=VALUE, where NAME is one of {', '.join(hints)}; not {word!r}.{near}",
                param_hint=option,
            )
        found[name] = _value(value.strip(), hints[name], name, option)
    try:
        return type_(**found)
    except (TypeError, ValueError) as error:
        raise click.BadParameter(str(error), param_hint=option) from None


def _value(text: str, hint: Any, name: str, option: str) -> Any:
    if hint is bool:
        if text.lower() in ("true", "yes", "on", "1", "false", "no", "off", "0"):
            return text.lower() in ("true", "yes", "on", "1")
        raise click.BadParameter(f"{name} is on or off, not {text!r}", param_hint=option)
    if hint in (int, float):
        if hint is float and text == "inf":
            return float("inf")
        is_time = name.endswith("_s")
        number = read_seconds(text) if is_time else read_size(text)
        if not number >= 0:
            like = "a time, like 30, 90s or 12h" if is_time else "a number, like 500 or 8MiB"
            raise click.BadParameter(f"{name} is {like}; not {text!r}", param_hint=option)
        return int(number) if hint is int else number
    try:
        return json.loads(text)
    except ValueError:
        return text
