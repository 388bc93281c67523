"""Numbers on the command line: so many of a unit, or the words for what to give instead."""

import math
import re
from typing import Any

import click

__all__ = ["DAYS", "SECONDS", "SOME_SECONDS"]

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}


class _Amount(click.types.FloatParamType):
    """A number that ends and is not too small: `nan` and `inf` are numbers to Python, and would
    wait for nothing or for ever.
    """

    def __init__(self, unit: str, *, takes_none: bool = True) -> None:
        self.name = unit
        self._takes_none = takes_none

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        try:
            number = float(value)
        except ValueError:
            number = self._with_units(value)
        if not math.isfinite(number) or number < 0 or (number == 0 and not self._takes_none):
            least = "0 or more" if self._takes_none else "more than 0"
            self.fail(
                f"give a number of {self.name}, {least}, like 30 or 0.5; not {value}", param, ctx
            )
        return number

    def _with_units(self, value: str) -> float:
        """A duration like 500ms, 5s or 1m30s, in seconds; nan if it is none."""
        if self.name != "seconds" or not re.fullmatch(r"(\d+(\.\d+)?(ms|s|m|h))+", value):
            return math.nan
        found = re.findall(r"([\d.]+)(ms|s|m|h)", value)
        return sum(float(number) * _UNITS[unit] for number, unit in found)


SECONDS = _Amount("seconds")
SOME_SECONDS = _Amount("seconds", takes_none=False)
DAYS = _Amount("days")
