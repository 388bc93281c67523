"""MCP tasks: a call that takes long is answered with a handle, which its client polls and cancels.

The extension `io.modelcontextprotocol/tasks` of MCP 2026-07-28. Nothing is kept here: the handle
names the tool, the time and the agent's task, so any process that serves the same agents can answer
for it, also after a restart.
"""

import contextlib
import time
from typing import Any, NamedTuple

import mcp_types as mcp
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import is_version_at_least
from pydantic import Field

from ...client import AgentFault, ClientReply
from ...model import (
    FINAL,
    INTERRUPTED,
    A2AError,
    InvalidParams,
    TaskNotFound,
    TaskState,
    timestamp,
    whole_number,
)
from .calls import AgentCall, question_id
from .toolsets import DirectoryFailed, ToolSet

__all__ = ["EXTENSION", "McpTasks", "has_tasks", "task_result"]

EXTENSION = "io.modelcontextprotocol/tasks"
_SINCE = "2026-07-28"
_POLL_MS = 1000
_MAX_MS = 253_402_300_799_999  # the end of the year 9999
_MAX_STATUS = 500  # characters of what the agent says of its work


class _TaskParams(mcp.RequestParams):
    task_id: str = Field(alias="taskId")


class _UpdateParams(_TaskParams):
    input_responses: mcp.InputResponses = Field(alias="inputResponses")


class _Handle(NamedTuple):
    """What the id of a task says to us. To clients it says nothing."""

    tool: str
    began_ms: int
    task_id: str

    @classmethod
    def read(cls, given: str) -> "_Handle | None":
        tool, _, rest = given.partition("/")
        began, _, task_id = rest.partition("/")
        began_ms = whole_number(began, _MAX_MS)
        return cls(tool, began_ms, task_id) if began_ms is not None and task_id else None

    def __str__(self) -> str:
        return f"{self.tool}/{self.began_ms}/{self.task_id}"


def has_tasks(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Whether the client of a request takes tasks: it says so with each request."""
    known = ctx.session.client_capabilities
    declared = known.extensions if known is not None else None
    return EXTENSION in (declared or {}) and is_version_at_least(ctx.protocol_version, _SINCE)


def task_result(tool: str, reply: ClientReply) -> dict[str, Any]:
    """Return the result of a call whose work goes on."""
    handle = _Handle(tool, time.time_ns() // 1_000_000, reply.task_id)
    return {"resultType": "task", **_described(handle, reply), "status": "working"}


class McpTasks:
    """Answers what clients ask about tasks."""

    def __init__(self, tools: ToolSet) -> None:
        self._tools = tools

    def add_to(self, server: Server[Any]) -> None:
        """Serve the methods of the extension, and say so."""
        server.extensions[EXTENSION] = {}
        server.add_request_handler("tasks/get", _TaskParams, self._get)
        server.add_request_handler("tasks/update", _UpdateParams, self._update)
        server.add_request_handler("tasks/cancel", _TaskParams, self._cancel)

    async def _get(
        self, ctx: ServerRequestContext[Any, Any], params: _TaskParams
    ) -> dict[str, Any]:
        call, reply, handle = await self._found(ctx, params.task_id)
        described = _described(handle, reply)
        if reply.state is TaskState.CANCELED:
            return described | {"status": "cancelled"}
        if reply.state in INTERRUPTED:
            request = call.request(reply)
            if request is None:  # in a form that this client can't show
                return described | {"status": "completed", "result": _dumped(call.question(reply))}
            asked = {question_id(reply): _dumped(request)}
            return described | {"status": "input_required", "inputRequests": asked}
        if reply.state in FINAL:
            with _errors():
                result = await call.result(reply)
            return described | {"status": "completed", "result": _dumped(result)}
        return described | {"status": "working"}

    async def _update(
        self, ctx: ServerRequestContext[Any, Any], params: _UpdateParams
    ) -> dict[str, Any]:
        call, reply, _ = await self._found(ctx, params.task_id)
        response = params.input_responses.get(question_id(reply))
        # An answer to another question was given before, or is to none: it is ignored.
        if reply.state in INTERRUPTED and isinstance(response, mcp.ElicitResult):
            with _errors():
                await call.give(reply, response)
        return {}

    async def _cancel(
        self, ctx: ServerRequestContext[Any, Any], params: _TaskParams
    ) -> dict[str, Any]:
        call, _, _ = await self._found(ctx, params.task_id)
        await call.cancel()
        return {}

    async def _found(
        self, ctx: ServerRequestContext[Any, Any], given: str
    ) -> tuple[AgentCall, ClientReply, _Handle]:
        """Return the task of a handle, and what answers for it. Raises MCPError."""
        _check_client(ctx)
        handle = _Handle.read(given)
        with _errors():
            served = await self._tools.named(handle.tool) if handle is not None else None
        if handle is None or served is None:
            raise MCPError(code=mcp.INVALID_PARAMS, message=f"no task {given!r:.200}")
        params = mcp.CallToolRequestParams(name=handle.tool, arguments={"task_id": handle.task_id})
        call = AgentCall(served.client, served.tool, ctx, params, 0.0)
        with _errors():
            return call, await call.look(handle.task_id), handle


def _check_client(ctx: ServerRequestContext[Any, Any]) -> None:
    """Raise MCPError if the client of a request has not said that it takes tasks."""
    if has_tasks(ctx):
        return
    if not is_version_at_least(ctx.protocol_version, _SINCE):  # which had other tasks, or none
        raise MCPError(
            code=mcp.METHOD_NOT_FOUND, message=f"tasks need MCP {_SINCE} and {EXTENSION}"
        )
    needed = mcp.MissingRequiredClientCapabilityErrorData(
        required_capabilities=mcp.ClientCapabilities(extensions={EXTENSION: {}})
    )
    raise MCPError(
        code=mcp.MISSING_REQUIRED_CLIENT_CAPABILITY,
        message=f"declare {EXTENSION} in the client capabilities of each request",
        data=_dumped(needed),
    )


@contextlib.contextmanager
def _errors() -> Any:
    """What the agent says, as MCP says it. Only a task that is not there has a wrong handle: to
    clients that means that there is nothing more to poll.
    """
    try:
        yield
    except (TaskNotFound, InvalidParams) as error:
        raise MCPError(code=mcp.INVALID_PARAMS, message=str(error)[:500]) from None
    except (A2AError, AgentFault, DirectoryFailed) as error:
        raise MCPError(code=mcp.INTERNAL_ERROR, message=str(error)[:500]) from None


def _described(handle: _Handle, reply: ClientReply) -> dict[str, Any]:
    """What every form of a task has."""
    task = reply.task
    assert task is not None  # a reply without one is over
    said = task.status.message.text if task.status.message is not None else ""
    began = timestamp(handle.began_ms)
    return {
        "taskId": str(handle),
        "createdAt": began,
        # The agent's status may be older than the handle.
        "lastUpdatedAt": max(began, task.status.timestamp),
        "ttlMs": None,  # the agent decides how long it keeps its tasks
        "pollIntervalMs": _POLL_MS,
        **({"statusMessage": said[:_MAX_STATUS]} if said else {}),
    }


def _dumped(value: Any) -> dict[str, Any]:
    dumped: dict[str, Any] = value.model_dump(by_alias=True, mode="json", exclude_none=True)
    return dumped
