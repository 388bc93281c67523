"""The checks of one interface: calls, and what the answers must be.

They run in the order of the table and share one conversation: the task that the first message makes
is the one that is read, listed and canceled afterwards. An agent is sent one message, a second
one if it streams, and one that it must refuse.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urljoin

from ..model import (
    FINAL,
    INTERRUPTED,
    PROBE,
    CancelTaskRequest,
    GetTaskRequest,
    InvalidParams,
    InvalidRequest,
    ListPushConfigsRequest,
    ListTasksRequest,
    Message,
    MethodNotFound,
    Part,
    PermissionDenied,
    PushNotificationNotSupported,
    Role,
    SendConfiguration,
    SendMessageRequest,
    SubscribeRequest,
    Task,
    TaskNotCancelable,
    TaskNotFound,
    TaskState,
    Unauthenticated,
    UnsupportedOperation,
    VersionNotSupported,
    new_id,
)
from .card import PASS, CheckVerdict
from .interface import CallOutcome, CheckedInterface, state_of
from .probing import Category, judge
from .shapes import envelope_faults, send_faults

__all__ = ["InterfaceChecks"]

_WRONG_VERSION = "99.0"
_NO_METHOD = "NoSuchMethod"
_GET_TASK_X = b"\x12\x01x"  # the protobuf of a GetTaskRequest for the task "x"


def _skip(reason: str) -> CheckVerdict:
    return CheckVerdict("skip", reason)


class InterfaceChecks:
    """Runs the checks of one interface. Each method returns its verdict; `outcome` is the call it
    judged.
    """

    def __init__(self, interface: CheckedInterface, message: str, skill: str) -> None:
        self.interface = interface
        self.outcome = CallOutcome()
        self._message = message
        self._skill = skill
        self._sent = CallOutcome(is_sent=False)
        self._streamed = CallOutcome(is_sent=False)
        self._task: Task | None = None
        self._without_params: tuple[int, int | None] = (0, None)  # status and code of its answer
        self._why_not = ""  # why the checks that follow can't be made

    @property
    def checks(self) -> dict[str, Callable[[], Awaitable[CheckVerdict]]]:
        return {
            "reach.connects": self._connects,
            "reach.task": self._unknown_task,
            "reach.version": self._unknown_version,
            "reach.method": self._unknown_method,
            "reach.params": self._no_params,
            "reach.body": self._text_body,
            "send.answers": self._answers,
            "send.shape": self._shape,
            "send.get": self._get,
            "send.wait": self._wait,
            "send.history": self._history,
            "send.follow": self._follow,
            "stream.first": self._first,
            "stream.end": self._end,
            "stream.subscribe": self._subscribe,
            "rest.list": self._list,
            "rest.cancel": self._cancel,
            "rest.push": self._push,
        }

    async def run(self, id: str) -> CheckVerdict:
        """Run one check; those that can't be made since an earlier one failed are skipped."""
        if self._why_not:
            self.outcome = CallOutcome()
            return _skip(self._why_not)
        return await self.checks[id]()

    # Reaching it

    async def _connects(self) -> CheckVerdict:
        self.outcome = await self.interface.call("GetTask", GetTaskRequest(id=new_id()))
        found = judge(self.interface, self.outcome)
        if found.category in (Category.DNS, Category.REFUSED, Category.TLS, Category.TIMEOUT):
            self._why_not = "the interface can't be reached"
            return CheckVerdict("fail", self.outcome.said, found.sentence)
        if found.category is Category.TOO_SLOW:
            self._why_not = "the interface does not answer"
            return CheckVerdict("fail", self.outcome.said, found.sentence)
        if isinstance(self.outcome.error, Unauthenticated | PermissionDenied):
            self._why_not = "it needs a credential"
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
            return self._not_part("checking the version of a request")
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
            return _skip("gRPC has one type of body")
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
            return _skip("bodies are read whatever their type, which A2A does not forbid")
        return CheckVerdict(
            "fail",
            f"a body of text/plain is answered with {self._said()}",
            "Refuse a body that is not JSON with ContentTypeNotSupported. Web pages of any site "
            "can send text/plain without asking.",
        )

    # Sending

    async def _answers(self) -> CheckVerdict:
        self.outcome = self._sent = await self.interface.call(
            "SendMessage", self._request(), extensions=self._extensions()
        )
        if self._sent.error is not None:
            found = judge(self.interface, self._sent)
            return CheckVerdict(
                "fail",
                self._sent.said,
                found.sentence
                or "Answer the message with a task or a message. If the agent "
                "does not understand this one, choose another with --message or --skill.",
            )
        self._task = self._sent.result.task
        if self._task is not None and self._task.status.state is TaskState.FAILED:
            said = self._task.status.message
            words = f": {' '.join(said.text.split())[:300]}" if said is not None else ""
            return CheckVerdict(
                "fail",
                f"the task failed{words}",
                "Look into the agent's log. If it does not understand this message, choose "
                "another with --message or --skill.",
            )
        return PASS

    async def _shape(self) -> CheckVerdict:
        self.outcome = self._sent
        if self._sent.error is not None:
            return _skip("there was no answer to look at")
        interface = self.interface
        if interface.is_grpc:
            task, message = self._sent.result.task, self._sent.result.message
            lacks = not task.id if task is not None else not message.message_id
            faults = ["the id is empty"] if lacks else []
        else:
            value = _json(self._sent)
            faults = []
            if not interface.is_rest:
                faults = envelope_faults(value, _loads(self._sent.exchange.sent))
                value = value.get("result") if isinstance(value, dict) else value
            faults += send_faults(value, interface.version, is_rest=interface.is_rest)
        if not faults:
            return PASS
        return CheckVerdict(
            "fail",
            "; ".join(faults[:5]),
            f"Write the answer as A2A {interface.version} has it; strict clients refuse this one.",
        )

    async def _get(self) -> CheckVerdict:
        if self._task is None:
            return self._no_task()
        self.outcome = await self.interface.call("GetTask", GetTaskRequest(id=self._task.id))
        fix = "Keep tasks, and answer GetTask with the task as it was last told to the client."
        if self.outcome.error is not None:
            return CheckVerdict("fail", f"GetTask of {self._task.id}: {self.outcome.said}", fix)
        found: Task = self.outcome.result
        sent = self._task
        if found.id != sent.id:
            return CheckVerdict("fail", f"asked for {sent.id}, got {found.id}", fix)
        if sent.context_id and found.context_id and found.context_id != sent.context_id:
            return CheckVerdict("fail", "the contextId is another one", fix)
        if sent.status.state in FINAL and found.status.state is not sent.status.state:
            words = (sent.status.state.word, found.status.state.word)
            return CheckVerdict("fail", f"the task was {words[0]} and is now {words[1]}", fix)
        return PASS

    async def _wait(self) -> CheckVerdict:
        self.outcome = self._sent
        if self._sent.error is not None:
            return _skip("there was no answer to look at")
        if self.interface.version == "0.1":
            return self._not_part("a blocking send")
        if self._task is None:
            return self._no_task()
        state = self._task.status.state
        if state in FINAL | INTERRUPTED:
            return PASS
        return CheckVerdict(
            "fail",
            f"a blocking send returned a task that is {state.word}",
            "Return from a blocking send when the task has ended or waits for the client "
            "(A2A 1.0, section 3.2.2). Return early only if the client asks for it.",
        )

    async def _history(self) -> CheckVerdict:
        if self._task is None:
            return self._no_task()
        # Before 1.0, zero was also what stood there if nothing was said.
        most = 0 if self.interface.is_1 else 1
        self.outcome = await self.interface.call(
            "GetTask", GetTaskRequest(id=self._task.id, history_length=most)
        )
        fix = "Return at most historyLength messages of the history, the newest ones."
        if self.outcome.error is not None:
            what = f"GetTask with historyLength {most}: {self.outcome.said}"
            return CheckVerdict("fail", what, fix)
        found = len(self.outcome.result.history)
        if found <= most:
            return PASS
        return CheckVerdict("fail", f"historyLength {most} gives {found} messages", fix)

    async def _follow(self) -> CheckVerdict:
        if self.interface.version == "0.1":
            return self._not_part("refusing a message to a task that is over")
        task = self._task
        over = task is not None and task.status.state in FINAL
        request = self._request()
        request.message.task_id = task.id if over and task is not None else new_id()
        self.outcome = await self.interface.call("SendMessage", request)
        wanted = UnsupportedOperation if over else TaskNotFound
        refused: tuple[type[Exception], ...] = (wanted,)
        if not self.interface.is_1:  # which named no error for a task that is over
            refused = (wanted, InvalidParams, InvalidRequest, TaskNotFound)
        if isinstance(self.outcome.error, refused):
            return PASS
        what = "a task that is over" if over else "an unknown task"
        return CheckVerdict(
            "fail",
            f"a message to {what}: {self.outcome.said}",
            f"Answer a message to {what} with {wanted.__name__} (A2A 1.0, section 3.1.1).",
        )

    # Streaming

    async def _first(self) -> CheckVerdict:
        if self.interface.card.capabilities.streaming is not True:
            self.outcome = CallOutcome()
            return _skip("the card declares no streaming")
        self.outcome = self._streamed = await self.interface.stream(
            "SendStreamingMessage", self._request(), extensions=self._extensions()
        )
        events = self._streamed.result
        fix = "Begin the stream with the task, or with the one message that is the answer."
        if not events:
            return CheckVerdict("fail", f"no event came: {self._streamed.said}", fix)
        if self.interface.is_1 and not isinstance(events[0], Task | Message):
            kind = type(events[0]).__name__
            return CheckVerdict("fail", f"the first event is a {kind}", fix)
        if not self.interface.is_grpc and not self._streamed.exchange.content_type.startswith(
            "text/event-stream"
        ):
            return CheckVerdict(
                "fail",
                f"the stream comes as {self._streamed.exchange.content_type!r}",
                "Send a stream as text/event-stream, or declare no streaming in the card.",
            )
        return PASS

    async def _end(self) -> CheckVerdict:
        self.outcome = self._streamed
        if not self._streamed.is_sent or not self._streamed.result:
            return _skip("there was no stream to look at")
        fix = "Send the task's last status on the stream, then close it."
        if self._streamed.error is not None:
            return CheckVerdict("fail", f"the stream broke off: {self._streamed.said}", fix)
        if isinstance(self._streamed.result[0], Message):
            return PASS
        state = state_of(self._streamed.result)
        if state not in FINAL | INTERRUPTED:
            word = state.word if state is not None else "unknown"
            how = "ended" if self._streamed.has_ended else "was silent"
            return CheckVerdict("fail", f"the stream {how} while the task is {word}", fix)
        if not self._streamed.has_ended and state in FINAL:
            return CheckVerdict("fail", f"the stream stays open behind {state.word}", fix)
        return PASS

    async def _subscribe(self) -> CheckVerdict:
        if self.interface.card.capabilities.streaming is not True:
            self.outcome = CallOutcome()
            return _skip("the card declares no streaming")
        self.outcome = await self.interface.stream("SubscribeToTask", SubscribeRequest(id=new_id()))
        if not self.outcome.is_sent:
            return self._not_part("subscribing")
        if isinstance(self.outcome.error, TaskNotFound):
            return PASS
        return CheckVerdict(
            "fail",
            f"SubscribeToTask of an unknown task: {self.outcome.said}",
            "Answer a subscription to a task that does not exist with TaskNotFound.",
        )

    # The rest

    async def _list(self) -> CheckVerdict:
        if not self.interface.is_1:
            return self._not_part("a list of tasks")
        if self._task is None:
            return self._no_task()
        self.outcome = await self.interface.call(
            "ListTasks", ListTasksRequest(context_id=self._task.context_id, page_size=10)
        )
        fix = "List the caller's tasks, filtered by contextId, newest first."
        if self.outcome.error is not None:
            return CheckVerdict("fail", f"ListTasks: {self.outcome.said}", fix)
        ids = [task.id for task in self.outcome.result.tasks]
        if self._task.id not in ids:
            return CheckVerdict("fail", f"the task is not among the {len(ids)} of its context", fix)
        return PASS

    async def _cancel(self) -> CheckVerdict:
        task = self._task
        over = task is not None and task.status.state in FINAL
        id_ = task.id if over and task is not None else new_id()
        self.outcome = await self.interface.call("CancelTask", CancelTaskRequest(id=id_))
        wanted: tuple[type[Exception], ...] = (TaskNotCancelable,) if over else (TaskNotFound,)
        if isinstance(self.outcome.error, wanted):
            return PASS
        # Cancel is idempotent: a task that was canceled may be returned as it is.
        if over and task is not None and self.outcome.error is None:
            found = self.outcome.result.status.state
            if found is TaskState.CANCELED and task.status.state is TaskState.CANCELED:
                return PASS
        what = "a task that is over" if over else "an unknown task"
        return CheckVerdict(
            "fail",
            f"CancelTask of {what}: {self.outcome.said}",
            f"Answer CancelTask of {what} with {wanted[0].__name__}.",
        )

    async def _push(self) -> CheckVerdict:
        declared = self.interface.card.capabilities.push_notifications is True
        if self.interface.version in ("0.1", "0.2"):
            return self._not_part("a list of push configs")
        if declared and self._task is None:
            return self._no_task()
        task_id = self._task.id if self._task is not None else new_id()
        self.outcome = await self.interface.call(
            "ListTaskPushNotificationConfigs", ListPushConfigsRequest(task_id=task_id)
        )
        error = self.outcome.error
        if declared:
            if error is None:
                return PASS
            return CheckVerdict(
                "fail",
                f"the card declares push notifications, and their list is: {self.outcome.said}",
                "Serve the operations on push configs, or declare no pushNotifications.",
            )
        refused = PushNotificationNotSupported, UnsupportedOperation, MethodNotFound
        if isinstance(error, refused[:1] if self.interface.is_1 else refused):
            return PASS
        return CheckVerdict(
            "fail",
            f"the card declares no push notifications, but they are answered with "
            f"{self.outcome.said}",
            "Answer operations on push configs with PushNotificationNotSupported, or declare "
            "pushNotifications in the card.",
        )

    # Helpers

    def _request(self) -> SendMessageRequest:
        metadata: dict[str, Any] = {"skill": self._skill} if self._skill else {"probe": True}
        return SendMessageRequest(
            message=Message(
                message_id=new_id(),
                role=Role.USER,
                parts=[Part(text=self._message)],
                metadata=metadata,
            ),
            configuration=SendConfiguration(),
        )

    def _extensions(self) -> str:
        """The probe extension, where the agent has it: it answers without calling a skill."""
        offered = {extension.uri for extension in self.interface.card.capabilities.extensions}
        return PROBE if PROBE in offered and not self._skill else ""

    def _error_faults(
        self, wanted: type[Exception], code: int, status: int, reason: str
    ) -> list[str]:
        """What is wrong with an error, in the form of this binding."""
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
        faults = envelope_faults(_json(outcome), _loads(outcome.exchange.sent))
        found = _code(outcome)
        return faults + ([] if found == code else [f"the code is {found}, not {code}"])

    def _not_part(self, what: str) -> CheckVerdict:
        self.outcome = CallOutcome()
        return _skip(f"{what} is not part of A2A {self.interface.version}")

    def _no_task(self) -> CheckVerdict:
        self.outcome = CallOutcome()
        return _skip(
            "the agent answered with a message: there is no task"
            if self._sent.error is None
            else "there is no task"
        )

    def _below(self, path: str) -> str:
        own = self.interface.interface
        tenant = f"/{own.tenant}" if own.tenant else ""
        prefix = "" if self.interface.is_1 else "/v1"
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
    """What JSON-RPC calls a send in a version."""
    return {"1.0": "SendMessage", "0.1": "tasks/send"}.get(version, "message/send")


def _rpc(method: str, params: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


def _loads(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _json(outcome: CallOutcome) -> Any:
    return _loads(outcome.exchange.body)


def _code(outcome: CallOutcome) -> int | None:
    """The code of a JSON-RPC error."""
    value = _json(outcome)
    error = value.get("error") if isinstance(value, dict) else None
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) else None


def _reasons(outcome: CallOutcome) -> list[str]:
    """The reasons in the details of an error over HTTP+JSON."""
    value = _json(outcome)
    error = value.get("error") if isinstance(value, dict) else None
    details = error.get("details") if isinstance(error, dict) else None
    return [
        str(detail.get("reason"))
        for detail in (details if isinstance(details, list) else ())
        if isinstance(detail, dict)
    ]
