"""The process that serves: its loop, its signals, its watchdog and its end."""

from typing import TYPE_CHECKING

from ...lazy import lazy

if TYPE_CHECKING:
    from .main import bind as bind
    from .main import is_loopback as is_loopback
    from .main import serve as serve
    from .main import url_of as url_of
    from .signals import hearing as hearing
    from .workers import WorkerProcess as WorkerProcess
    from .workers import run_workers as run_workers

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__ = lazy(
        __name__,
        {
            "WorkerProcess": "workers",
            "bind": "main",
            "hearing": "signals",
            "is_loopback": "main",
            "run_workers": "workers",
            "serve": "main",
            "url_of": "main",
        },
    )
