"""A webhook that records what comes and answers as it is told: plain HTTP on this machine, knowing
nothing of our code.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from aiohttp import web

PATIENCE_S = 60.0  # far more than anything here takes


class Call(NamedTuple):
    """One request to the webhook. Header names are in lower case."""

    headers: dict[str, str]
    body: bytes
    path: str

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def number(self) -> int:
        return int(self.headers["webhook-id"].split("/")[1])

    @property
    def task_id(self) -> str:
        return self.headers["webhook-id"].split("/")[0]

    @property
    def kind(self) -> str:
        """What a call of 1.0 tells: the task, or a state."""
        [(name, value)] = self.json.items()
        if name == "statusUpdate":
            return value["status"]["state"].removeprefix("TASK_STATE_").lower()
        return name


Answer = int | tuple[int, dict[str, str]] | Callable[[], Awaitable[int]]


class Webhook:
    """Answers 200, or what stands in `answers` first. `judge` decides by the call, if it is set."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.answers: deque[Answer] = deque()
        self.judge: Callable[[Call], int] | None = None
        self.url = ""
        self._changed = asyncio.Event()

    async def answer(self, request: web.Request) -> web.Response:
        if request.method == "GET":
            return web.Response(text=request.query.get("validationToken", ""))
        headers = {name.lower(): value for name, value in request.headers.items()}
        call = Call(headers, await request.read(), request.path_qs)
        answer: Answer = self.answers.popleft() if self.answers else 200
        if self.judge is not None:
            answer = self.judge(call)
        if callable(answer):
            answer = await answer()
        status, more = answer if isinstance(answer, tuple) else (answer, {})
        self.calls.append(call)
        self._changed.set()
        return web.Response(status=status, headers=more)

    async def until(self, is_so: Callable[[list[Call]], bool]) -> list[Call]:
        """Wait until the calls are as they should be."""
        async with asyncio.timeout(PATIENCE_S):
            while not is_so(self.calls):
                self._changed.clear()
                await self._changed.wait()
        return self.calls

    async def ended(self, task_id: str = "") -> list[Call]:
        """Wait until a call tells the end of a task; return all calls."""
        words = ("completed", "failed", "canceled", "rejected")
        return await self.until(
            lambda calls: (
                any(call.task_id == task_id or not task_id for call in calls)
                and any(state_of(call).lower() in words for call in calls)
            )
        )


def state_of(call: Call) -> str:
    """The state a call tells, in whatever version."""
    value = call.json
    value = value.get("statusUpdate") or value.get("task") or value
    state: str = value.get("status", {}).get("state", "")
    return state.removeprefix("TASK_STATE_").lower()


@asynccontextmanager
async def webhook() -> AsyncIterator[Webhook]:
    hook = Webhook()
    app = web.Application(client_max_size=64 << 20)
    app.router.add_route("*", "/{path:.*}", hook.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    hook.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
    try:
        yield hook
    finally:
        await runner.cleanup()
