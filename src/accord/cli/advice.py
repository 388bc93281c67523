"""What to type next, when a command about an agent failed."""

import click

from ..client.errors import AgentFault, BadCard, Unreachable
from ..model import A2AError, TaskNotFound, UnsupportedOperation

__all__ = ["advised"]


def advised(error: A2AError | AgentFault) -> click.ClickException:
    """Return the error as the command line shows it: what is wrong, then what helps."""
    said = str(error)
    match error:
        case Unreachable() if "no secure connection" in said:
            help_ = "If the agent has no TLS, its address begins with http://, not https://."
        case Unreachable():
            help_ = "Is it running, and on this port? Start one with:  accord serve FILE"
        case BadCard():
            help_ = "Give the address an agent is served at, as accord serve prints it, or the address of its card."
        case TaskNotFound():
            help_ = "Leave --task-id out to start a new task."
        case UnsupportedOperation() if "takes no more messages" in said:
            help_ = "Here: leave --task-id out, and give that context with --context-id to go on with the conversation."
        case _:
            return click.ClickException(said)
    return click.ClickException(f"{said}\n{help_}")
