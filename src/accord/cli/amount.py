"""Amounts on the command line: durations like 1m30s or 90d, sizes like 8MiB, and times."""

import math
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import click

__all__ = [
    "DAYS",
    "EXPIRES",
    "SECONDS",
    "SOME_SECONDS",
    "TIME",
    "read_duration",
    "read_seconds",
    "read_size",
]

_DURATIONS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_DURATION = re.compile(r"(?:\d{1,9}(?:\.\d{1,9})?(?:ms|s|m|h|d|w))+", re.ASCII)
_PIECE = re.compile(r"([\d.]+)(ms|s|m|h|d|w)", re.ASCII)
_SIZES = {"": 1, "k": 1000, "kib": 1 << 10, "kb": 1000, "m": 1_000_000, "mb": 1_000_000,
          "mib": 1 << 20, "g": 1_000_000_000, "gb": 1_000_000_000, "gib": 1 << 30}  # fmt: skip
_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)\s*([a-z]*)", re.IGNORECASE | re.ASCII)


def read_duration(text: str) -> float:
    """Return a duration like 500ms, 5s, 1m30s, 12h, 90d or 2w in seconds; nan if it is none."""
    if not _DURATION.fullmatch(text):
        return math.nan
    return sum(float(number) * _DURATIONS[unit] for number, unit in _PIECE.findall(text))


def read_seconds(text: str) -> float:
    """Return a duration, or a bare number of seconds; nan if it is none."""
    try:
        return float(text)
    except ValueError:
        return read_duration(text)


def read_size(text: str) -> float:
    """Return a number with or without a unit (500, 8MiB, 2k); nan if it is none."""
    match = _SIZE.fullmatch(text)
    if match is None or match[2].lower() not in _SIZES:
        return math.nan
    return float(match[1]) * _SIZES[match[2].lower()]


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
            number = float(value)  # of this unit
        except ValueError:
            number = read_duration(value) / _DURATIONS[self.name[0]]
        if not math.isfinite(number) or number < 0 or (number == 0 and not self._takes_none):
            least = "0 or more" if self._takes_none else "more than 0"
            self.fail(
                f"give a number of {self.name}, {least}, like 30 or 2m30s; not {value}",
                param,
                ctx,
            )
        return number


class _Expires(click.ParamType[int]):
    """How long something is valid, in milliseconds. It needs a unit: 90 alone says nothing."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        seconds = read_duration(str(value))
        if not seconds > 0:
            self.fail(f"{value} is not a time; write 30m, 12h, 90d or 2w", param, ctx)
        return int(seconds * 1000)


class _Time(click.ParamType[str]):
    """A moment, as RFC 3339: typed like that, as a date, or as how long ago it was."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        ago_s = read_duration(text)
        try:
            if math.isnan(ago_s):
                moment = datetime.fromisoformat(text).astimezone(UTC)  # without a zone: ours
            else:
                moment = datetime.now(UTC) - timedelta(seconds=ago_s)
        except (ValueError, OverflowError):
            self.fail(
                f"{text} is not a time; write 2026-03-01, 2026-03-01T12:00:00Z, or 2h for two "
                "hours ago",
                param,
                ctx,
            )
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


SECONDS = _Amount("seconds")
SOME_SECONDS = _Amount("seconds", takes_none=False)
DAYS = _Amount("days")
EXPIRES = _Expires()
TIME = _Time()
