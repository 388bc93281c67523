"""One call of a tool that is an agent: progress, questions, the result, and cancel."""

import asyncio
import contextlib
import re
from collections.abc import Callable
from typing import Any, TypeAlias

import anyio
import mcp_types as mcp
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import is_version_at_least

from ... import observe
from ...client import AgentFault, Client, ClientReply, Stream, answering
from ...model import (
    FINAL,
    INTERRUPTED,
    A2AError,
    ArtifactUpdate,
    StatusUpdate,
    Task,
    TaskState,
    UnsupportedOperation,
)
from ..remote import RemoteTool, described_result, follow, question_of, still_working
from .content import content_of, load_files, structured_of
from .forms import form_of

__all__ = ["AgentCall", "CallResult", "failed", "question_id"]

_ROUNDS_SINCE = "2026-07-28"  # a server asks in the result of a call, and the call is repeated
_MAX_ROUNDS = 9  # after which we ask for no more: clients give up after 10
_QUESTION = "question"  # the key of the only thing we ask for in a round
_CANCEL_S = 5.0
_LITTLE = 0.001  # what an event that has no number of its own adds, beside those that have
_MAX_PROGRESS = 500  # characters of a message about progress
_URL = re.compile(r"https?://[^\s<>\"')\]]+")
_AUTHORIZED = "The user says that this is done."


# The last is a task of MCP, for which the SDK has no type.
CallResult: TypeAlias = mcp.CallToolResult | mcp.InputRequiredResult | dict[str, Any]


class _Unanswered(Exception):
    """The user wants no more of it."""


class _Rounds(msgspec.Struct):
    """What a call that is repeated has to know of the rounds before; sealed on its way through the
    client.
    """

    task_id: str
    question: str  # the id of the message that asks it; empty while the agent works
    progress: float  # the last number sent: it has to grow over all rounds
    number: int = 1


class AgentCall:
    """A call of a tool, from its first word to its result.

    Args:
        client: Of the agent.
        tool: What is called.
        ctx: The request.
        params: Its parameters.
        wait_s: How long the agent may work before the result says that it still does.
        on_long: Makes the result then, of the reply so far; None: the call is repeated, or the
          result says so.
    """

    def __init__(
        self,
        client: Client,
        tool: RemoteTool,
        ctx: ServerRequestContext[Any, Any],
        params: mcp.CallToolRequestParams,
        wait_s: float,
        on_long: Callable[[ClientReply], dict[str, Any]] | None = None,
    ) -> None:
        self._client = client
        self._tool = tool
        self._ctx = ctx
        self._params = params
        self._wait_s = wait_s
        self._on_long = on_long
        self._arguments = params.arguments or {}
        self._task_id = ""
        self._progress: float = 0
        self._total: float | None = None  # once the agent has said one
        self._round = 1

    async def run(self) -> CallResult:
        meta = self._ctx.meta or {}
        observe.enter(str(meta.get("traceparent") or ""), str(meta.get("tracestate") or ""))
        # In a task of its own: what is cancelled by the SDK can't await anything any more.
        running = asyncio.create_task(self._run())
        try:
            await asyncio.wait({running})
        finally:
            running.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.gather(running, return_exceptions=True)
        try:
            return running.result()
        except A2AError as error:
            return failed(f"{self._tool.agent} answered with an error: {error}")
        except AgentFault as error:
            return failed(f"{self._tool.agent} gave no answer: {error}")

    async def _run(self) -> CallResult:
        try:
            reply = await (self._begin() if self._params.request_state is None else self._go_on())
            while reply.state in INTERRUPTED:
                request = self.request(reply)
                if request is None or self._round >= _MAX_ROUNDS:
                    return self.question(reply)
                if self._has_rounds:
                    return self._again(reply, {_QUESTION: request})
                try:
                    elicited = await self._elicit(request)
                except MCPError:  # it can't be asked after all
                    return self.question(reply)
                reply = await self._send(self._answer(reply, elicited), reply)
        except _Unanswered:
            await self.cancel()
            return failed(f"The user did not answer {self._tool.agent}; its task was canceled.")
        if self._on_long is not None and not _is_over(reply):
            return self._on_long(reply)
        if self._has_rounds and not _is_over(reply) and self._round < _MAX_ROUNDS:
            return self._again(reply, None)
        return await self.result(reply)

    async def _begin(self) -> ClientReply:
        """The first round, or the only one."""
        self._task_id = str(self._arguments.get("task_id") or "")
        content = self._tool.content(self._arguments)
        return await (self._follow() if self._task_id and content == "" else self._send(content))

    async def _go_on(self) -> ClientReply:
        """A later round: with the user's answer, or to go on waiting."""
        rounds = msgspec.json.decode(self._params.request_state or "", type=_Rounds)
        self._task_id, self._progress = rounds.task_id, rounds.progress
        self._round = rounds.number + 1
        response = (self._params.input_responses or {}).get(_QUESTION)
        reply = ClientReply(self._client, await self._client.get(self._task_id))
        if not rounds.question or question_id(reply) != rounds.question:
            return await self._follow()  # it works still, or this answer has arrived before
        if not isinstance(response, mcp.ElicitResult):
            return reply
        return await self._send(self._answer(reply, response), reply)

    # The agent's side

    async def look(self, task_id: str) -> ClientReply:
        """Return a task of an earlier call as it is."""
        self._task_id = task_id
        return ClientReply(self._client, await self._client.get(task_id))

    async def give(self, reply: ClientReply, result: mcp.ElicitResult) -> None:
        """Pass on the user's answer, and don't wait for what comes of it."""
        try:
            answer = self._answer(reply, result)
        except _Unanswered:
            await self.cancel()
        else:
            await self._client.send(
                answer, task_id=reply.task_id, metadata=answering(reply), wait=False
            )

    async def _send(self, content: Any, asked: ClientReply | None = None) -> ClientReply:
        """Send a message. An answer names the question it was shown with, and answers no other."""
        is_first = not self._task_id
        stream = self._client.stream(
            content,
            skill=self._tool.skill if is_first else "",
            task_id=self._task_id,
            metadata=answering(asked) if asked is not None else None,
        )
        return await self._read(stream, is_answer=not is_first)

    async def _follow(self) -> ClientReply:
        """Wait on for a task of an earlier call."""
        task = await self._client.get(self._task_id)
        if task.state in FINAL or task.state in INTERRUPTED:
            return ClientReply(self._client, task)
        with contextlib.suppress(UnsupportedOperation):  # it has ended meanwhile
            return await self._read(self._client.subscribe(self._task_id), ends=INTERRUPTED)
        return ClientReply(self._client, await self._client.get(self._task_id))

    async def _read(self, stream: Stream, **how: Any) -> ClientReply:
        """Read to the end of the turn, or for as long as we wait."""

        async def on_event(event: Any) -> None:
            self._task_id = stream.task_id or self._task_id
            await self._report(event)

        return await follow(self._client, stream, on_event, wait_s=self._wait_s, **how)

    async def _report(self, event: Any) -> None:
        """Report to the client that something goes on."""
        said = ""
        if isinstance(event, StatusUpdate) and event.status.state is TaskState.WORKING:
            said = event.status.message.text if event.status.message is not None else ""
        elif isinstance(event, ArtifactUpdate):
            said = event.artifact.text
        elif not isinstance(event, Task):
            return
        known = event.progress if isinstance(event, StatusUpdate) else None
        total = known.total if known is not None else None
        # MCP wants a number that grows: the agent's own, if it does.
        if known is not None and known.done > self._progress:
            self._progress = known.done
        else:
            self._progress += 1 if self._total is None else _LITTLE
        self._total = total or self._total
        await self._ctx.session.report_progress(
            self._progress, self._total, said[:_MAX_PROGRESS] or None
        )

    async def cancel(self) -> None:
        """Cancel the task, if there is one; whatever comes of it."""
        if self._task_id:
            with contextlib.suppress(A2AError, AgentFault, TimeoutError):
                async with asyncio.timeout(_CANCEL_S):
                    await self._client.cancel(self._task_id)

    # The client's side

    @property
    def _has_rounds(self) -> bool:
        return is_version_at_least(self._ctx.protocol_version, _ROUNDS_SINCE)

    def _again(
        self, reply: ClientReply, requests: dict[str, mcp.InputRequest] | None
    ) -> mcp.InputRequiredResult:
        """Have the call repeated: with the user's answer, or just to go on waiting."""
        rounds = _Rounds(self._task_id, question_id(reply), self._progress, self._round)
        return mcp.InputRequiredResult(
            input_requests=requests, request_state=msgspec.json.encode(rounds).decode()
        )

    def request(self, reply: ClientReply) -> mcp.ElicitRequest | None:
        """Return what to ask the user, in a form that this client can show; None if it can't."""
        known = self._ctx.session.client_capabilities
        can = known.elicitation if known is not None else None
        if can is None:
            return None
        question, schema = question_of(reply)
        if reply.state is TaskState.AUTH_REQUIRED:
            link = _link(reply, question)
            if can.url is None or not link:
                return None
            return mcp.ElicitRequest(
                params=mcp.ElicitRequestURLParams(
                    message=question, url=link, elicitation_id=self._task_id
                )
            )
        if can.form is None and can.url is not None:
            return None
        form = form_of(schema)
        return mcp.ElicitRequest(
            params=mcp.ElicitRequestFormParams(message=question, requested_schema=form.schema)
        )

    async def _elicit(self, request: mcp.ElicitRequest) -> mcp.ElicitResult:
        """Ask in the middle of the call, as clients before 2026-07-28 are asked."""
        session, request_id = self._ctx.session, self._ctx.request_id
        asked = request.params
        try:
            if isinstance(asked, mcp.ElicitRequestURLParams):
                return await session.elicit_url(
                    asked.message, asked.url, asked.elicitation_id or "", request_id
                )
            return await session.elicit_form(asked.message, asked.requested_schema, request_id)
        except asyncio.CancelledError:
            await self.cancel()
            raise

    def _answer(self, reply: ClientReply, result: mcp.ElicitResult) -> Any:
        """What to send to the agent. Raises _Unanswered."""
        if result.action != "accept":
            raise _Unanswered
        if reply.state is TaskState.AUTH_REQUIRED:
            return _AUTHORIZED
        return form_of(question_of(reply)[1]).answer(result.content)

    def question(self, reply: ClientReply) -> mcp.CallToolResult:
        """Return a question as an ordinary result, for clients that can't ask their user."""
        question, schema = question_of(reply)
        asked = {"question": question, "task_id": reply.task_id, "state": reply.state.word}
        return mcp.CallToolResult(
            content=[mcp.TextContent(text=described_result(self._tool, reply))],
            structured_content=asked | ({"schema": schema} if schema is not None else {}),
            _meta=_ids(reply),
        )

    async def result(self, reply: ClientReply) -> mcp.CallToolResult:
        """Return the result of a call."""
        if not _is_over(reply):
            asked = {"task_id": reply.task_id, "state": reply.state.word}
            return mcp.CallToolResult(
                content=[mcp.TextContent(text=still_working(self._tool, reply.task_id))],
                structured_content=asked,
                _meta=_ids(reply),
            )
        if reply.state is not TaskState.COMPLETED:
            return failed(described_result(self._tool, reply), _ids(reply))
        await load_files(self._client, reply.task)
        return mcp.CallToolResult(
            content=content_of(reply, self._tool.name) or [mcp.TextContent(text="(no answer)")],
            structured_content=structured_of(reply),
            _meta=_ids(reply),
        )


def failed(text: str, meta: dict[str, Any] | None = None) -> mcp.CallToolResult:
    """Return the result of a call that did not work, for the model to read."""
    return mcp.CallToolResult(content=[mcp.TextContent(text=text)], is_error=True, _meta=meta)


def _is_over(reply: ClientReply) -> bool:
    return reply.task is None or reply.state in FINAL


def question_id(reply: ClientReply) -> str:
    """Return the id of the message that asks; empty if nothing is asked."""
    said = reply.task.status.message if reply.task is not None else None
    return said.message_id if said is not None and reply.state in INTERRUPTED else ""


def _ids(reply: ClientReply) -> dict[str, Any]:
    found = {
        "a2a/taskId": reply.task_id,
        "a2a/contextId": reply.context_id,
        "a2a/state": reply.state.word,
    }
    return {key: value for key, value in found.items() if value}


def _link(reply: ClientReply, question: str) -> str:
    """The address where the user can authorize it."""
    said = reply.task.status.message if reply.task is not None else None
    for part in said.parts if said is not None else ():
        if isinstance(part.url, str):
            return part.url
    match = _URL.search(question)
    return match[0].rstrip(".,;") if match else ""
