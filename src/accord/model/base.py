"""What every object of the model shares: JSON names and presence."""

from typing import Any, TypeAlias

import msgspec

__all__ = ["Metadata", "Model"]

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
