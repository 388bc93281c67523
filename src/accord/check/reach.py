"""The checks of whether an interface can be reached, and refuses what it must refuse.

They send requests that no client of ours would send, and need no task.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urljoin

from ..model import (
    GetTaskRequest,
    InvalidParams,
    MethodNotFound,
    PermissionDenied,
    TaskNotFound,
    Unauthenticated,
    VersionNotSupported,
    new_id,
)
from ..protocol import spoken_version
from .card import PASS, CheckVerdict
from .checks import InterfaceChecks, skip
from .interface import CallOutcome, CheckedInterface
from .probing import Category, judge
from .shapes import envelope_faults

__all__ = ["ReachChecks"]

_WRONG_VERSION = "99.0"
_NO_METHOD = "NoSuchMethod"
_GET_TASK_X = b"\x12\x01x"  # the protobuf of a GetTaskRequest for the task "x"


class ReachChecks(InterfaceChecks):
    """The checks `reach.*`. If the interface can't be used at all, `why_not` says why."""

    def __init__(self, interface: CheckedInterface) -> None:
        super().__init__(interface)
        self.why_not = ""
        self._without_params: tuple[int, int | None] = (0, None)  # status and code of its answer

    @property
    def checks(self) -> dict[str, Callable[[], Awaitable[CheckVerdict]]]:
        return {
            "reach.connects": self._connects,
            "reach.task": self._unknown_task,
            "reach.version": self._unknown_version,
            "reach.method": self._unknown_method,
            "reach.params": self._no_params,
            "reach.body": self._text_body,
        }

    async def _connects(self) -> CheckVerdict:
        self.outcome = await self.interface.call("GetTask", GetTaskRequest(id=new_id()))
        found = judge(self.interface, self.outcome)
        if found.category in (Category.DNS, Category.REFUSED, Category.TLS, Category.TIMEOUT):
            self.why_not = "the interface can't be reached"
            return CheckVerdict("fail", self.outcome.said, found.sentence)
        if found.category is Category.TOO_SLOW:
            self.why_not = "the interface does not answer"
            return CheckVerdict("fail", self.outcome.said, found.sentence)
        if isinstance(self.outcome.error, Unauthenticated | PermissionDenied):
            self.why_not = "it needs a credential"
        return PASS

    async def _unknown_task(self) -> CheckVerdict:
        # the call that `_connects` made
        faults = self._error_faults(TaskNotFound, -32001, 404, "TASK_NOT_FOUND")
        if not faults:
            return PASS
        found = judge(self.interface, self.outcome)
        fix = found.sentence or (
            "Answer a GetTask of a task that does not exist with TaskNotFound, in the form of "
            "this binding: -32001 over JSON-RPC, 404 with an ErrorInfo over HTTP+JSON, NOT_FOUND "
            "over gRPC."
        )
        return CheckVerdict("fail", "; ".join(faults), fix)

    async def _unknown_version(self) -> CheckVerdict:
        interface = self.interface
        if not interface.is_1:
            return self.not_part("checking the version of a request")
        request = GetTaskRequest(id=new_id(), tenant=interface.interface.tenant)
        headers = {"A2A-Version": _WRONG_VERSION}
        if interface.is_grpc:
            version = {"a2a-version": _WRONG_VERSION}
            self.outcome = await interface.call_rpc("GetTask", _GET_TASK_X, version)
            is_refused = isinstance(self.outcome.error, VersionNotSupported)
        elif interface.is_rest:
            self.outcome = await interface.fetch("GET", self._below("/tasks/x"), None, headers)
            is_refused = "VERSION_NOT_SUPPORTED" in _reasons(self.outcome)
        else:
            body = _rpc("GetTask", {"id": request.id})
            self.outcome = await interface.post(body, headers)
            is_refused = _code(self.outcome) == -32009
        if is_refused:
            return PASS
        return CheckVerdict(
            "fail",
            f"A2A-Version: {_WRONG_VERSION} is answered with {self._said()}",
            "Answer a request for a version that is not served with VersionNotSupported "
            "(A2A 1.0, section 3.6.2).",
        )

    async def _unknown_method(self) -> CheckVerdict:
        interface = self.interface
        if interface.is_grpc:
            self.outcome = await interface.call_rpc(_NO_METHOD, b"", {})
            is_refused = isinstance(self.outcome.error, MethodNotFound)
            wanted = "the status UNIMPLEMENTED"
        elif interface.is_rest:
            path = self._below(f"/message:{_NO_METHOD}")
            self.outcome = await interface.fetch("POST", path, b"{}", {})
            if self._http_status() in (307, 308) and self.outcome.result is not None:
                # frameworks redirect unknown paths to the same one with a slash
                there = urljoin(path, self.outcome.result.headers.get("Location") or path)
                self.outcome = await interface.fetch("POST", there, b"{}", {})
            is_refused = self._http_status() in (404, 405, 501)
            wanted = "404"
        else:
            self.outcome = await interface.post(_rpc(_NO_METHOD, {}), {})
            is_refused = _code(self.outcome) == -32601
            wanted = "the error -32601"
        if is_refused:
            return PASS
        return CheckVerdict(
            "fail",
            f"{_NO_METHOD} is answered with {self._said()}",
            f"Answer a method that does not exist with {wanted}.",
        )

    async def _no_params(self) -> CheckVerdict:
        interface = self.interface
        if interface.is_grpc:
            self.outcome = await interface.call_rpc("SendMessage", b"", {})
            is_refused = isinstance(self.outcome.error, InvalidParams)
            wanted = "the status INVALID_ARGUMENT"
        elif interface.is_rest:
            self.outcome = await interface.fetch("POST", self._below("/message:send"), b"{}", {})
            is_refused = self._http_status() in ((400,) if interface.is_1 else (400, 422))
            wanted = "400"
        else:
            self.outcome = await interface.post(_rpc(_send_method(interface.version), {}), {})
            is_refused = _code(self.outcome) == -32602
            wanted = "the error -32602"
        self._without_params = self._http_status(), _code(self.outcome)
        if is_refused:
            return PASS
        return CheckVerdict(
            "fail",
            f"a send without a message is answered with {self._said()}",
            f"Answer a request that lacks what it needs with {wanted} (InvalidParams).",
        )

    async def _text_body(self) -> CheckVerdict:
        interface = self.interface
        if interface.is_grpc:
            self.outcome = CallOutcome()
            return skip("gRPC has one type of body")
        headers = {"Content-Type": "text/plain"}
        if interface.is_rest:
            path = self._below("/message:send")
            self.outcome = await interface.fetch("POST", path, b"{}", headers)
            is_refused = "CONTENT_TYPE_NOT_SUPPORTED" in _reasons(self.outcome)
        else:
            body = _rpc(_send_method(interface.version), {})
            self.outcome = await interface.post(body, headers)
            is_refused = _code(self.outcome) == -32005
        status = self._http_status()
        if is_refused or status == 415:
            return PASS
        if (status, _code(self.outcome)) == self._without_params:
            return skip("bodies are read whatever their type, which A2A does not forbid")
        return CheckVerdict(
            "fail",
            f"a body of text/plain is answered with {self._said()}",
            "Refuse a body that is not JSON with ContentTypeNotSupported. Web pages of any site "
            "can send text/plain without asking.",
        )

    def _error_faults(
        self, wanted: type[Exception], code: int, status: int, reason: str
    ) -> list[str]:
        """Return what is wrong with an error, in the form of this binding."""
        outcome, interface = self.outcome, self.interface
        if not isinstance(outcome.error, wanted):
            return [f"the answer is {outcome.said}"]
        if interface.is_grpc:
            return []
        if interface.is_rest:
            faults = (
                []
                if outcome.exchange.status == status
                else [f"the HTTP status is {outcome.exchange.status}, not {status}"]
            )
            if interface.is_1 and reason not in _reasons(outcome):
                faults.append(f"error.details has no ErrorInfo with the reason {reason}")
            return faults
        faults = envelope_faults(outcome.answer_json, outcome.request_json)
        found = _code(outcome)
        return faults + ([] if found == code else [f"the code is {found}, not {code}"])

    def _below(self, path: str) -> str:
        own = self.interface.interface
        tenant = f"/{own.tenant}" if own.tenant else ""
        prefix = self.interface.expected.rest_prefix
        return own.url.rstrip("/") + prefix + tenant + path

    def _http_status(self) -> int:
        return self.outcome.exchange.status

    def _said(self) -> str:
        if self.outcome.error is not None:
            return self.outcome.said
        code = _code(self.outcome) if not self.interface.is_rest else None
        if code is not None:
            return f"the error {code}"
        status = self._http_status()
        return f"HTTP {status}" if status else "an answer"


def _send_method(version: str) -> str:
    """Return the JSON-RPC method of a send in a version."""
    return spoken_version(version).rpc.method("SendMessage")


def _rpc(method: str, params: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


def _code(outcome: CallOutcome) -> int | None:
    """Return the code of a JSON-RPC error."""
    value = outcome.answer_json
    error = value.get("error") if isinstance(value, dict) else None
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) else None


def _reasons(outcome: CallOutcome) -> list[str]:
    """Return the reasons in the details of an error over HTTP+JSON."""
    value = outcome.answer_json
    error = value.get("error") if isinstance(value, dict) else None
    details = error.get("details") if isinstance(error, dict) else None
    return [
        str(detail.get("reason"))
        for detail in (details if isinstance(details, list) else ())
        if isinstance(detail, dict)
    ]
