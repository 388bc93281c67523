"""Every error A2A has a code for.

    A2AError
    ├── TaskNotFound                     -32001  404
    ├── TaskNotCancelable                -32002  400
    ├── PushNotificationNotSupported     -32003  400
    ├── UnsupportedOperation             -32004  400
    ├── ContentTypeNotSupported          -32005  400
    │   └── UnsupportedMediaType         -32005  400   (the request itself, not a part of it)
    ├── InvalidAgentResponse             -32006  500
    ├── ExtendedAgentCardNotConfigured   -32007  400
    ├── ExtensionSupportRequired         -32008  400
    ├── VersionNotSupported              -32009  400
    ├── TaskGenerationMismatch           -32010  409
    ├── ParseError                       -32700  400
    ├── InvalidRequest                   -32600  400
    │   └── BodyTooLarge                 -32600  413   *
    ├── MethodNotFound                   -32601  404
    │   └── MethodNotAllowed             -32601  405
    ├── InvalidParams                    -32602  400
    │   └── AgentNotFound                -32602  404   *
    ├── Unauthenticated                  -32603  401   *
    ├── PermissionDenied                 -32603  403   *
    ├── TooManyRequests                  -32603  429   *
    └── Unavailable                      -32603  503   *

Each class carries its own codes, so no second table can disagree with it. A star marks the ones
that are an HTTP status on every HTTP binding, JSON-RPC included.
"""

from collections.abc import Mapping
from typing import ClassVar

__all__ = [
    "A2AError",
    "AgentNotFound",
    "BodyTooLarge",
    "ContentTypeNotSupported",
    "ExtendedAgentCardNotConfigured",
    "ExtensionSupportRequired",
    "InvalidAgentResponse",
    "InvalidParams",
    "InvalidRequest",
    "MethodNotAllowed",
    "MethodNotFound",
    "ParseError",
    "PermissionDenied",
    "PushNotificationNotSupported",
    "TaskGenerationMismatch",
    "TaskNotCancelable",
    "TaskNotFound",
    "TooManyRequests",
    "Unauthenticated",
    "Unavailable",
    "UnsupportedMediaType",
    "UnsupportedOperation",
    "VersionNotSupported",
]


class A2AError(Exception):
    """Something failed that A2A has a code for.

    `detail` and `violations` are sent to the caller as they are: never a secret, never a traceback.
    """

    code: ClassVar[int] = -32603
    status: ClassVar[int] = 500
    grpc: ClassVar[str] = "INTERNAL"
    reason: str = "INTERNAL_ERROR"
    is_http_level: ClassVar[bool] = False
    agent: str = ""  # the other agent that reported it, if one did

    def __init__(
        self,
        message: str = "",
        *,
        violations: tuple[tuple[str, str], ...] = (),
        retry_after_s: int | None = None,
        reason: str | None = None,
        **detail: str,
    ) -> None:
        super().__init__(message or (type(self).__doc__ or "").partition("\n")[0])
        self.violations = violations
        self.retry_after_s = retry_after_s
        self.detail = detail
        self.challenges: tuple[str, ...] = ()  # values of WWW-Authenticate
        if reason is not None:
            self.reason = reason


class TaskNotFound(A2AError):
    """Task not found, or not yours to see."""

    code, status, grpc, reason = -32001, 404, "NOT_FOUND", "TASK_NOT_FOUND"


class TaskNotCancelable(A2AError):
    """The task has already ended."""

    code, status, grpc, reason = -32002, 400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE"


class PushNotificationNotSupported(A2AError):
    """This agent sends no push notifications."""

    code, status, grpc, reason = (
        -32003,
        400,
        "FAILED_PRECONDITION",
        "PUSH_NOTIFICATION_NOT_SUPPORTED",
    )


class UnsupportedOperation(A2AError):
    """This agent does not support that operation here."""

    code, status, grpc, reason = -32004, 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION"


class ContentTypeNotSupported(A2AError):
    """The agent cannot take content of that type."""

    code, status, grpc, reason = -32005, 400, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED"


class UnsupportedMediaType(ContentTypeNotSupported):
    """The request is not JSON; send it with Content-Type: application/json."""


class InvalidAgentResponse(A2AError):
    """The agent said something the protocol does not allow."""

    code, status, grpc, reason = -32006, 500, "INTERNAL", "INVALID_AGENT_RESPONSE"


class ExtendedAgentCardNotConfigured(A2AError):
    """This agent has no extended card."""

    code, status, grpc, reason = (
        -32007,
        400,
        "FAILED_PRECONDITION",
        "EXTENDED_AGENT_CARD_NOT_CONFIGURED",
    )


class ExtensionSupportRequired(A2AError):
    """This agent requires an extension the request did not activate."""

    code, status, grpc, reason = -32008, 400, "FAILED_PRECONDITION", "EXTENSION_SUPPORT_REQUIRED"


class VersionNotSupported(A2AError):
    """This agent does not speak that version of A2A."""

    code, status, grpc, reason = -32009, 400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED"


class TaskGenerationMismatch(A2AError):
    """The task has changed since the generation that the message was written for."""

    code, status, grpc, reason = -32010, 409, "ABORTED", "TASK_GENERATION_MISMATCH"


class ParseError(A2AError):
    """Invalid JSON payload."""

    code, status, grpc, reason = -32700, 400, "INVALID_ARGUMENT", "PARSE_ERROR"


class InvalidRequest(A2AError):
    """Request payload validation error."""

    code, status, grpc, reason = -32600, 400, "INVALID_ARGUMENT", "INVALID_REQUEST"


class BodyTooLarge(InvalidRequest):
    """The request body is larger than this server accepts."""

    status, grpc, reason, is_http_level = 413, "RESOURCE_EXHAUSTED", "BODY_TOO_LARGE", True


class MethodNotFound(A2AError):
    """Method not found."""

    code, status, grpc, reason = -32601, 404, "UNIMPLEMENTED", "METHOD_NOT_FOUND"


class MethodNotAllowed(MethodNotFound):
    """That path exists, but not for this HTTP method."""

    status = 405


class InvalidParams(A2AError):
    """Invalid parameters."""

    code, status, grpc, reason = -32602, 400, "INVALID_ARGUMENT", "INVALID_PARAMS"


class AgentNotFound(InvalidParams):
    """No agent has this name, or none that this caller may see."""

    status, grpc, reason, is_http_level = 404, "NOT_FOUND", "NOT_FOUND", True


class Unauthenticated(A2AError):
    """Credentials are missing or not valid."""

    status, grpc, reason, is_http_level = 401, "UNAUTHENTICATED", "UNAUTHENTICATED", True


class PermissionDenied(A2AError):
    """These credentials do not allow that."""

    status, grpc, reason, is_http_level = 403, "PERMISSION_DENIED", "PERMISSION_DENIED", True


class TooManyRequests(A2AError):
    """Too much at once; try again later."""

    status, grpc, reason, is_http_level = 429, "RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED", True


class Unavailable(A2AError):
    """The server cannot do that right now; try again later."""

    status, grpc, reason, is_http_level = 503, "UNAVAILABLE", "UNAVAILABLE", True


def error_of(name: str, text: str, detail: Mapping[str, str] | None = None) -> A2AError:
    """Return the error of a class by its name, as the log of a task keeps it."""
    found = globals().get(name)
    cls = found if isinstance(found, type) and issubclass(found, A2AError) else A2AError
    error = cls(text)
    error.detail = dict(detail or {})
    return error
