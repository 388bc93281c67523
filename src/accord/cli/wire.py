"""--debug: what goes over the wire, on stderr, without credentials."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

from .terminal import echo

__all__ = ["wire_shown"]

_log = logging.getLogger("accord")


@contextmanager
def wire_shown(is_on: bool, secrets: list[str]) -> Iterator[None]:
    """Show diagnostics meanwhile, if asked for. No option shows a credential."""
    if not is_on:
        yield
        return
    handler, level = _Handler([secret for secret in secrets if secret]), _log.level
    _log.addHandler(handler)
    _log.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        _log.removeHandler(handler)
        _log.setLevel(level)


class _Handler(logging.Handler):
    def __init__(self, secrets: list[str]) -> None:
        super().__init__()
        longest_first = sorted(secrets, key=len, reverse=True)
        self._secrets = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")

    def emit(self, record: logging.LogRecord) -> None:
        text = self._secrets.sub("<redacted>", self.format(record))
        for line in text.splitlines():
            echo(f"# {line}", err=True)
