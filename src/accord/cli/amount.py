"""Numbers on the command line: so many of a unit, or the words for what to give instead."""

import math
from typing import Any

import click

__all__ = ["DAYS", "SECONDS", "SOME_SECONDS"]


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
            number = math.nan
        if not math.isfinite(number) or number < 0 or (number == 0 and not self._takes_none):
            least = "0 or more" if self._takes_none else "more than 0"
            self.fail(
                f"give a number of {self.name}, {least}, like 30 or 0.5; not {value}", param, ctx
            )
        return number


SECONDS = _Amount("seconds")
SOME_SECONDS = _Amount("seconds", takes_none=False)
DAYS = _Amount("days")
