"""The numbers of versions and the names of bindings as types, and the versions that are meant where
nobody names one.
"""

from typing import Literal, TypeAlias, get_args

__all__ = [
    "NEWEST",
    "NEWEST_OLD",
    "PREVIEW_NUMBERS",
    "BindingName",
    "PreviewNumber",
    "VersionNumber",
]

BindingName: TypeAlias = Literal["JSONRPC", "HTTP+JSON", "GRPC"]
PreviewNumber: TypeAlias = Literal["1.1"]
VersionNumber: TypeAlias = Literal["0.1", "0.2", "0.3", "1.0", "1.1"]

NEWEST = "1.0"  # whose shapes the model has
NEWEST_OLD = "0.3"  # of before 1.0
PREVIEW_NUMBERS: tuple[str, ...] = get_args(PreviewNumber)
