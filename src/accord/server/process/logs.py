"""The log of a server: lines for people, or JSON for programs that collect it."""

import json
import logging
from datetime import UTC, datetime
from typing import get_args

from ...model import LogFormat, LogLevel
from ...observe import current_trace

__all__ = ["LOG_FORMATS", "LOG_LEVELS", "JsonFormatter", "set_up_log"]

LOG_FORMATS: tuple[LogFormat, ...] = get_args(LogFormat)
LOG_LEVELS: tuple[LogLevel, ...] = get_args(LogLevel)

# What our own lines say beside their text, for programs.
_FIELDS = ("operation", "caller", "task_id", "skill", "state", "error", "ms")


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _Text(logging.Formatter):
    """One line per record, and its traceback below."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{_time(record)} {record.levelname}: {super().format(record)}"


class JsonFormatter(logging.Formatter):
    """One JSON object per record."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        trace = current_trace()
        if trace.traceparent:
            line["trace_id"], line["span_id"] = trace.trace_id, trace.span_id
        for name in _FIELDS:
            if (value := getattr(record, name, None)) not in (None, ""):
                line[name] = value
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def set_up_log(level: str, form: str) -> None:
    """Log to stderr, unless the program has set up logging itself: then that stays as it is."""
    if form not in LOG_FORMATS:
        raise ValueError(f"log_format is {form!r}; give one of {', '.join(LOG_FORMATS)}")
    if level not in LOG_LEVELS:
        raise ValueError(f"log_level is {level!r}; give one of {', '.join(LOG_LEVELS)}")
    accord = logging.getLogger("accord")
    if accord.level == logging.NOTSET:
        accord.setLevel(level.upper())
    if accord.hasHandlers():
        return
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if form == "json" else _Text())
    logging.basicConfig(level=level.upper(), handlers=[handler])
