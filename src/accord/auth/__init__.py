"""Who is calling."""

from .caller import ANONYMOUS, Caller

__all__ = ["ANONYMOUS", "Caller"]
