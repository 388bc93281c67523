"""What to type next, when a command about an agent failed, and what is going on while it tries
again.
"""

import shlex

import click

from ..client import (
    AgentFault,
    BadCard,
    Pause,
    Retry,
    Unreachable,
    UntrustedCard,
    is_interrupted,
    task_of,
)
from ..model import (
    A2AError,
    TaskNotFound,
    TooManyRequests,
    Unauthenticated,
    UnsupportedOperation,
)
from .amount import SECONDS

__all__ = ["RETRY_MAX_TIME", "advised", "retry_for", "typed"]

RETRY_MAX_TIME = click.option(
    "--retry-max-time",
    type=SECONDS,
    help="Seconds to try again while the server is away.  [default: 30; 5 if the address has never "
    "answered]",
)


def retry_for(max_time_s: float | None) -> Retry:
    """How a command tries again: for so long, and not in silence."""
    if max_time_s is None:
        return Retry(on_pause=_say)
    return Retry(max_time_s=max_time_s, first_max_time_s=max_time_s, on_pause=_say)


def _say(pause: Pause) -> None:
    if pause.attempt == 1:
        how = "busy" if isinstance(pause.error, TooManyRequests) else "away"
        task_id = task_of(pause.error)
        why = f"task {task_id} continues when it is back" if task_id else pause.error
        click.secho(f"the server is {how}, trying again ...   ({why})", err=True, dim=True)


def typed(*words: str) -> str:
    """A command as it is typed."""
    return shlex.join(["accord", *words])


def advised(error: A2AError | AgentFault, url: str = "", again: str = "") -> click.ClickException:
    """Return the error as the command line shows it: what is wrong, then what helps.

    Args:
        error: What went wrong.
        url: The agent that was asked for something.
        again: What brings the answer without having the work done twice; empty if nothing does.
    """
    said, task_id = str(error), task_of(error)
    match error:
        case _ if task_id and url and is_interrupted(error):
            help_ = (
                "The agent may go on with its task. Ask for it with:  "
                f"{typed('task', 'get', url, task_id, '--wait')}"
            )
        case _ if again and is_interrupted(error):
            help_ = f"The agent may have started. To get this answer and not start again:  {again}"
        case Unreachable() if "no secure connection" in said:
            help_ = "If the agent has no TLS, its address begins with http://, not https://."
        case Unreachable():
            help_ = "Start one with:  accord serve FILE"
        case UntrustedCard():
            help_ = "Say whose signatures count with --keys or --key-url."
        case BadCard():
            help_ = "Use the address that accord serve prints, or the address of its card."
        case Unauthenticated() if url and "accord auth login" not in said:
            help_ = f"Log in with:  {typed('auth', 'login', url)}"
        case TaskNotFound():
            help_ = (
                "It may have been deleted, or be someone else's. Leave --task-id out to start "
                "a new task."
            )
        case UnsupportedOperation() if "takes no more messages" in said:
            help_ = (
                "Here: leave --task-id out, and give that context with --context-id to go on "
                "with the conversation."
            )
        case _:
            return click.ClickException(said)
    return click.ClickException(f"{said}\n{help_}")
