"""The checks of a conversation with one interface: calls, and what the answers must be.

They run in the order of the table and share one conversation: the task that the first message makes
is the one that is read, listed and canceled afterwards. An agent is sent one message, a second
one if it streams, and one that it must refuse; with generations, another one.
"""

import itertools
from collections.abc import Awaitable, Callable
from typing import Any

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
    PushNotificationNotSupported,
    Role,
    SendConfiguration,
    SendMessageRequest,
    SubscribeRequest,
    Task,
    TaskGenerationMismatch,
    TaskNotCancelable,
    TaskNotFound,
    TaskState,
    UnsupportedOperation,
    new_id,
)
from ..protocol import Semantics
from .card import PASS, CheckVerdict
from .checks import InterfaceChecks, skip
from .interface import CallOutcome, CheckedInterface, state_of
from .probing import judge
from .shapes import envelope_faults, send_faults

__all__ = ["ConversationChecks"]


class ConversationChecks(InterfaceChecks):
    """The checks of sends, streams and tasks. They share one conversation, in order."""

    def __init__(self, interface: CheckedInterface, message: str, skill: str) -> None:
        super().__init__(interface)
        self._message = message
        self._skill = skill
        self._sent = CallOutcome(is_sent=False)
        self._streamed = CallOutcome(is_sent=False)
        self._task: Task | None = None

    @property
    def checks(self) -> dict[str, Callable[[], Awaitable[CheckVerdict]]]:
        return {
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
            "rest.generation": self._generation,
            "rest.match": self._match,
        }

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
            return skip("there was no answer to look at")
        interface = self.interface
        if interface.is_grpc:
            task, message = self._sent.result.task, self._sent.result.message
            lacks = not task.id if task is not None else not message.message_id
            faults = ["the id is empty"] if lacks else []
        else:
            value = self._sent.answer_json
            faults = []
            if not interface.is_rest:
                faults = envelope_faults(value, self._sent.request_json)
                value = value.get("result") if isinstance(value, dict) else value
            faults += send_faults(value, interface.expected, is_rest=interface.is_rest)
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
        fix = "Keep tasks, and answer GetTask with the task that the client last got."
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
            return skip("there was no answer to look at")
        if self.interface.expected.names_tasks:
            return self.not_part("a blocking send")
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
        if self.interface.expected.names_tasks:
            return self.not_part("refusing a message to a task that is over")
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
            return skip("the card declares no streaming")
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
            return skip("there was no stream to look at")
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
            return skip("the card declares no streaming")
        self.outcome = await self.interface.stream("SubscribeToTask", SubscribeRequest(id=new_id()))
        if not self.outcome.is_sent:
            return self.not_part("subscribing")
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
            return self.not_part("a list of tasks")
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

    async def _generation(self) -> CheckVerdict:
        if self.interface.expected.asked is None:
            return self.not_part("numbering the changes of a task")
        if self._task is None:
            return self._no_task()
        self.outcome = await self.interface.call(
            "GetTask",
            GetTaskRequest(id=self._task.id),
            semantics=Semantics(current_generation=0),
        )
        fix = (
            "Number the changes of a task: 1 when it is made, and one more for each change of its "
            "status and its artifacts. Answer GetTask at once if the task is beyond "
            "currentGeneration (A2A 1.1, section 3.2.7)."
        )
        if self.outcome.error is not None:
            said = f"GetTask with currentGeneration 0: {self.outcome.said}"
            return CheckVerdict("fail", said, fix)
        if not self.outcome.result.generation:
            return CheckVerdict("fail", "the task has no generation", fix)
        events = self._streamed.result or []
        counted = [e.generation for e in events if not isinstance(e, Task | Message)]
        if any(later != before + 1 for before, later in itertools.pairwise(counted)):
            shown = ", ".join(map(str, counted[:10]))
            return CheckVerdict("fail", f"the events of a stream have generations {shown}", fix)
        return PASS

    async def _match(self) -> CheckVerdict:
        if self.interface.expected.asked is None:
            return self.not_part("a message for one generation of a task")
        task = self._task
        if task is None:
            return self._no_task()
        if not task.generation:
            self.outcome = CallOutcome()
            return skip("the task has no generation")
        request = self._request()
        request.message.task_id = task.id
        self.outcome = await self.interface.call(
            "SendMessage", request, semantics=Semantics(if_generation_match=task.generation + 1000)
        )
        # Which of the two is said of a task that is over is left open.
        refused = (TaskGenerationMismatch, UnsupportedOperation)
        if isinstance(self.outcome.error, refused if task.status.state in FINAL else refused[:1]):
            return PASS
        return CheckVerdict(
            "fail",
            f"a message for another generation of the task: {self.outcome.said}",
            "Refuse a message with TaskGenerationMismatch if the task is not at its "
            "ifGenerationMatch. If you have no generations, don't offer this version.",
        )

    async def _push(self) -> CheckVerdict:
        declared = self.interface.card.capabilities.push_notifications is True
        if not self.interface.expected.lists_push_configs:
            return self.not_part("a list of push configs")
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

    def _no_task(self) -> CheckVerdict:
        self.outcome = CallOutcome()
        return skip(
            "the agent answered with a message: there is no task"
            if self._sent.error is None
            else "there is no task"
        )
