"""What to type next when a command about an agent failed, the codes of the A2A command line
specification for it, and what is going on while a command tries again.
"""

import shlex
from typing import Any

import click

from ..client import (
    AgentFault,
    BadCard,
    ConnectionLost,
    Pause,
    Retry,
    TooSlow,
    Unreachable,
    UntrustedCard,
    is_interrupted,
    task_of,
)
from ..model import (
    A2AError,
    ContentTypeNotSupported,
    InvalidAgentResponse,
    ParseError,
    PermissionDenied,
    TaskNotFound,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
    UnsupportedOperation,
)
from .amount import SECONDS
from .progress import clear_line
from .terminal import clean, secho

__all__ = ["RETRY_MAX_TIME", "Failure", "advised", "envelope", "retry_for", "typed"]

RETRY_MAX_TIME = click.option(
    "--retry-max-time",
    type=SECONDS,
    metavar="DURATION",
    help="How long to retry while the server is away. [default: 30 s; 5 s if the address has "
    "never answered]",
)

_LOCAL = "A2ACLI_ERR_"
# Every other code: 1.
_EXITS = {
    f"{_LOCAL}USAGE": 2,
    f"{_LOCAL}CARD_NOT_FOUND": 3,
    f"{_LOCAL}UNREACHABLE": 3,
    f"{_LOCAL}CREDENTIALS_MISSING": 4,
    f"{_LOCAL}AUTH_FAILED": 4,
    f"{_LOCAL}TIMEOUT": 5,
}
_GRPC_CODES = {
    "INVALID_ARGUMENT": 3,
    "NOT_FOUND": 5,
    "PERMISSION_DENIED": 7,
    "RESOURCE_EXHAUSTED": 8,
    "FAILED_PRECONDITION": 9,
    "UNIMPLEMENTED": 12,
    "INTERNAL": 13,
    "UNAVAILABLE": 14,
    "UNAUTHENTICATED": 16,
}


class Failure(click.ClickException):
    """A command that failed: what is wrong, what helps, and the codes for programs."""

    def __init__(
        self, said: str, *, code: str, hint: str = "", a2a_code: int | None = None
    ) -> None:
        said, hint = clean(said), clean(hint)
        super().__init__(f"{said}\n{hint}" if hint else said)
        self.said, self.code, self.hint, self.a2a_code = said, code, hint, a2a_code
        self.exit_code = _EXITS.get(code, 1)  # type: ignore[misc]  # click reads the instance's


def envelope(error: click.ClickException) -> dict[str, Any]:
    """An error as JSON."""
    if isinstance(error, Failure):
        code, said, hint, number = error.code, error.said, error.hint, error.a2a_code
    else:
        is_usage = isinstance(error, click.UsageError)
        code, hint, number = f"{_LOCAL}{'USAGE' if is_usage else 'INTERNAL'}", "", None
        said = error.format_message()
    return {"error": {"code": code, "message": said, "hint": hint or None, "a2aCode": number}}


def retry_for(max_time_s: float | None) -> Retry:
    """How a command tries again: for so long, and not in silence."""
    if max_time_s is None:
        return Retry(on_pause=_say)
    return Retry(max_time_s=max_time_s, first_max_time_s=max_time_s, on_pause=_say)


def _say(pause: Pause) -> None:
    if pause.attempt == 1:
        how = "busy" if isinstance(pause.error, TooManyRequests) else "away"
        task_id = task_of(pause.error)
        clear_line()
        why = f"task {task_id} continues when it is back" if task_id else pause.error
        secho(f"the server is {how}, trying again ...   ({why})", err=True, dim=True)


def typed(*words: str) -> str:
    """A command as it is typed."""
    return shlex.join(["accord", *words])


def advised(
    error: A2AError | AgentFault,
    url: str = "",
    again: str = "",
    *,
    binding: str = "",
    has_credential: bool = False,
) -> Failure:
    """Return the error as the command line shows it: what is wrong, then what helps.

    Args:
        error: What went wrong.
        url: The agent that was asked for something.
        again: What brings the answer without having the work done twice; empty if nothing does.
        binding: The one in use, whose code of the error is shown.
        has_credential: Whether one was sent.
    """
    said, task_id = str(error), task_of(error)
    hint = ""
    match error:
        case _ if task_id and url and is_interrupted(error):
            hint = (
                "The agent may go on with its task. Ask for it with:  "
                f"{typed('task', 'get', url, task_id, '--wait')}"
            )
        case _ if again and is_interrupted(error):
            hint = f"The agent may have started. To get this answer and not start again:  {again}"
        case Unreachable() if "no secure connection" in said:
            hint = "If the agent has no TLS, its address begins with http://, not https://."
        case Unreachable() if "the card of" in said:
            pass  # the agent is there; what to change is said
        case Unreachable(cause="dns"):
            hint = "Check the host name in the address."
        case Unreachable():
            hint = "Start one with:  accord serve FILE"
        case UntrustedCard():
            hint = (
                "Say whose signatures count with --keys or --key-url."
                if _has_option("--key-url")
                else "Check its signature with:  accord card verify URL --keys FILE"
            )
        case BadCard() if "which is not at" in said:
            hint = (
                "Use the address that accord serve prints. To try the agent on its own machine, "
                "serve it without --url."
            )
        case BadCard():
            hint = (
                "Use the address that accord serve prints, or the address of its card. An agent in "
                "an app of yours is below the path where it is mounted."
            )
        case Unauthenticated() if url and has_credential and "the card needs" in said:
            # Not to send them is a rule of the command line's specification (§12.4).
            login = typed("auth", "login", url, "--with", "key")
            hint = f"Credentials given as options are not sent to cards. Log in with:  {login}"
        case Unauthenticated() if url and "accord auth login" not in said:
            hint = f"Log in with:  {typed('auth', 'login', url)}"
        case ContentTypeNotSupported() if "needs a file" in said and _has_option("--file"):
            hint = "Send one with --file FILE."
        case ContentTypeNotSupported() if _has_option("--media-type"):
            hint = "Say what a file is with --media-type TYPE after its --file."
        case TaskNotFound():
            hint = "It may have been deleted, or belong to someone else."
            if url:
                hint += f" See yours with:  {typed('task', 'list', url)}"
            if _has_option("--task-id"):
                hint += "\nLeave out --task-id to start a new task; --debug shows what was sent."
        case UnsupportedOperation() if "takes no more messages" in said and _has_option(
            "--task-id"
        ):
            hint = (
                "Leave out --task-id, and give that context with --context-id to continue the "
                "conversation; --debug shows what was sent."
            )
    code = _code(error, has_credential)
    return Failure(said, code=code, hint=hint, a2a_code=_number(error, binding))


def _has_option(name: str) -> bool:
    """Return whether the command that runs has an option: a hint must not name another's."""
    context = click.get_current_context(silent=True)
    return context is not None and any(name in param.opts for param in context.command.params)


def _code(error: A2AError | AgentFault, has_credential: bool) -> str:
    """The name of an error: A2A's own, or a local one for what is not of the protocol."""
    match error:
        case BadCard():
            return f"{_LOCAL}CARD_{'NOT_FOUND' if error.cause == 'missing' else 'INVALID'}"
        case Unreachable() | ConnectionLost():
            return f"{_LOCAL}UNREACHABLE"
        case TooSlow():
            return f"{_LOCAL}TIMEOUT"
        case InvalidAgentResponse():  # BadAnswer too
            return "InvalidAgentResponseError"
        case Unauthenticated() if not has_credential:
            return f"{_LOCAL}CREDENTIALS_MISSING"
        case Unauthenticated() | PermissionDenied():
            return f"{_LOCAL}AUTH_FAILED"
        case TooManyRequests():
            return f"{_LOCAL}INTERNAL"
        case ParseError():
            return "JSONParseError"
        case A2AError() if type(error) in (A2AError, Unavailable):
            return "InternalError"
        case A2AError():
            # A subclass is a special case of what A2A names.
            named = next(c for c in reversed(type(error).__mro__[:-3]) if c is not A2AError)
            return f"{named.__name__}Error"
    return f"{_LOCAL}INTERNAL"


def _number(error: A2AError | AgentFault, binding: str) -> int | None:
    """The code the binding had for what the agent reported; None for what was found out here."""
    if not isinstance(error, A2AError) or isinstance(error, AgentFault):
        return getattr(error, "http_status", None) or None
    if not error.agent:
        return None
    if binding == "GRPC":
        return _GRPC_CODES.get(error.grpc)
    return error.status if binding == "HTTP+JSON" or error.is_http_level else error.code
