"""The fixed sets of values that options take, as types: a checker finds a wrong one."""

from typing import Literal, TypeAlias

__all__ = ["LogFormat", "LogLevel"]

LogLevel: TypeAlias = Literal["critical", "error", "warning", "info", "debug"]
LogFormat: TypeAlias = Literal["text", "json"]
