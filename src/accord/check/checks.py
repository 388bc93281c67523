"""What the checks of an interface have in common."""

import abc
from collections.abc import Awaitable, Callable

from .card import CheckVerdict
from .interface import CallOutcome, CheckedInterface

__all__ = ["InterfaceChecks", "skip"]


class InterfaceChecks(abc.ABC):
    """A group of checks of one interface. `outcome` is the call that the last one judged."""

    def __init__(self, interface: CheckedInterface) -> None:
        self.interface = interface
        self.outcome = CallOutcome()

    @property
    @abc.abstractmethod
    def checks(self) -> dict[str, Callable[[], Awaitable[CheckVerdict]]]:
        """Return the checks by their ids in the table, in the order they run."""

    def not_part(self, what: str) -> CheckVerdict:
        self.outcome = CallOutcome()
        return skip(f"{what} is not part of A2A {self.interface.version}")


def skip(reason: str) -> CheckVerdict:
    return CheckVerdict("skip", reason)
