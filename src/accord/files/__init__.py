"""Files of any size: where their bytes are, and how they go in and out."""

from .contract import PIECE_BYTES, FileStore, NoSpace
from .files import (
    SPILL,
    UNUSED_S,
    FileInUse,
    Files,
    GrowingFile,
    Hold,
    UploadConflict,
    file_too_large,
)
from .giving import MARK, Address, Given, Giver
from .open import open_files
from .spilling import (
    CopiedFiles,
    file_not_found,
    has_references,
    is_large,
    named_by_content,
    opened,
    refer_parts,
    restored,
    uses_of,
)

__all__ = [
    "MARK",
    "PIECE_BYTES",
    "SPILL",
    "UNUSED_S",
    "Address",
    "CopiedFiles",
    "FileInUse",
    "FileStore",
    "Files",
    "Given",
    "Giver",
    "GrowingFile",
    "Hold",
    "NoSpace",
    "UploadConflict",
    "file_not_found",
    "file_too_large",
    "has_references",
    "is_large",
    "named_by_content",
    "open_files",
    "opened",
    "refer_parts",
    "restored",
    "uses_of",
]
