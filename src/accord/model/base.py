"""The base of every object of the model: JSON names and presence."""

import reprlib
from typing import Any, TypeAlias

import msgspec

__all__ = ["Metadata", "Model", "brief"]

Metadata: TypeAlias = dict[str, Any]


class Model(
    msgspec.Struct,
    rename="camel",
    omit_defaults=True,
    repr_omit_defaults=True,
    kw_only=True,
    forbid_unknown_fields=True,
    gc=False,
):
    """An A2A 1.0 object.

    Members at their default are not written, nor printed. Unknown members are refused here and
    dropped by `codec.lenient`, so that a misspelt or snake_case member is noticed instead of lost.
    """


_LONGEST = 60  # letters of a text that is shown


def brief(value: object) -> str:
    """A value as `repr` shows it, cut where it gets long: for people who print objects."""
    if isinstance(value, str) and len(value) > _LONGEST:
        return f"{value[: _LONGEST - 1]!r}…"
    shown = reprlib.repr(value)  # which does not write out all of a large one
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"
