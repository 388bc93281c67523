"""The process that serves: its loop, its signals, its watchdog and its end."""

from typing import TYPE_CHECKING

from ...lazy_imports import lazy_imports

if TYPE_CHECKING:
    from .logs import LOG_FORMATS as LOG_FORMATS
    from .logs import LOG_LEVELS as LOG_LEVELS
    from .logs import JsonFormatter as JsonFormatter
    from .logs import set_up_log as set_up_log
    from .main import bind as bind
    from .main import is_in_loop as is_in_loop
    from .main import is_local as is_local
    from .main import serve as serve
    from .main import serve_here as serve_here
    from .main import url_of as url_of
    from .signals import hearing as hearing
    from .workers import WorkerProcess as WorkerProcess
    from .workers import run_workers as run_workers

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy_imports(__name__)
