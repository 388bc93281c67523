"""Signals as a program started in a terminal has them."""

import signal

__all__ = ["reset_signals"]


def reset_signals() -> None:
    """Take Ctrl-C even if whoever started the tests ignores it, as a shell does for what a script
    starts in the background. Processes inherit what is ignored: without this, servers started by
    tests could not be stopped with SIGINT.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_IGN:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
