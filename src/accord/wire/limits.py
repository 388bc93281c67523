"""How much one caller may ask of this server. Every limit is a setting; these are the defaults (reliability, section 5)."""

import msgspec

__all__ = ["Limits"]


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    body: int = 4 << 20
