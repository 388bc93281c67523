"""Noticing a stop in a process of somebody else's, whose server notifies an app only when all its
connections are closed.
"""

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

__all__ = ["hearing", "sigterm_heard"]


@contextlib.contextmanager
def hearing(stop: Callable[[int], None]) -> Iterator[None]:
    """Call `stop` in the loop when the process is asked to stop, with the signal, while the block
    lasts; its server hears of it as before.

    Where nobody handles the signal it is left alone, and outside of the main thread none can be
    heard.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before = {
        number: found
        for number in (signal.SIGINT, signal.SIGTERM)
        if callable(found := signal.getsignal(number))
    }

    def on(number: int, frame: FrameType | None) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(stop, number)
        before[signal.Signals(number)](number, frame)

    for number in before:
        signal.signal(number, on)
    try:
        yield
    finally:
        for number, found in before.items():
            if signal.getsignal(number) is on:  # else somebody has come after us, and calls us
                signal.signal(number, found)


@contextlib.contextmanager
def sigterm_heard() -> Iterator[None]:
    """Have SIGTERM handled while the block lasts, so that `hearing` hears of it. Where somebody
    handles it already, that stays.
    """
    is_ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    )
    if is_ours:
        signal.signal(signal.SIGTERM, _nothing)
    try:
        yield
    finally:
        if is_ours and signal.getsignal(signal.SIGTERM) is _nothing:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _nothing(number: int, frame: FrameType | None) -> None:
    pass
