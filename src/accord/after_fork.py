"""State that belongs to this process alone: a forked child (of a pool of processes, for example)
does not have it.

Such a child may outlive us. A port, a client's connection or the lock of a database it still held
would be held for nobody.
"""

import contextlib
import os
import signal
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

__all__ = ["close_in_children", "own_signals"]

T = TypeVar("T")

_owners: "weakref.WeakKeyDictionary[object, Callable[[object], Iterable[int]]]" = (
    weakref.WeakKeyDictionary()
)
_signals: set[int] = set()
_here = threading.local()  # what this thread held back before


def close_in_children(owner: T, filenos: Callable[[T], Iterable[int]]) -> None:
    """Close in every child what `filenos` then finds open of the owner; here nothing is closed, and
    no lock is given back.
    """
    _owners[owner] = filenos  # type: ignore[assignment]  # each function is called with its own owner


@contextlib.contextmanager
def own_signals(*numbers: int) -> Iterator[None]:
    """Have these signals end a child as they end any process, while the block lasts. With the
    handlers of a loop, which it inherits, it would not even notice: they wake the loop of the
    parent, which would take a signal to its child for its own.
    """
    _signals.update(numbers)
    try:
        yield
    finally:
        _signals.difference_update(numbers)


def _before() -> None:
    if _signals:  # held back until the child has handlers of its own
        _here.mask = signal.pthread_sigmask(signal.SIG_BLOCK, _signals)


def _after() -> None:
    mask = _here.__dict__.pop("mask", None)
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _in_child() -> None:
    try:
        if _signals:
            signal.set_wakeup_fd(-1)
        for number in _signals:
            signal.signal(
                number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            )
        _signals.clear()
        _let_go()
    finally:
        _after()


def _let_go() -> None:
    if not _owners:
        return
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for owner, filenos in list(_owners.items()):
        with contextlib.suppress(Exception):  # whatever it is, the child is to begin
            for fileno in filenos(owner):
                if fileno >= 0:
                    # The number stays taken: some object still knows it.
                    os.dup2(nothing, fileno, inheritable=False)
    os.close(nothing)
    _owners.clear()


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing is forked
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_in_child)
