"""The log of a server: lines for people, or JSON for programs that collect it."""

import json
import logging
from datetime import UTC, datetime

__all__ = ["FORMATS", "set_up_log"]

FORMATS = ["text", "json"]


class _Json(logging.Formatter):
    """One JSON object per record."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        line = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def set_up_log(level: str, form: str) -> None:
    """Log to stderr, unless the user has set up logging already."""
    handler = logging.StreamHandler()
    handler.setFormatter(
        _Json() if form == "json" else logging.Formatter("%(levelname)s: %(message)s")
    )
    logging.basicConfig(level=level.upper(), handlers=[handler])
