"""Follow a task by the notifications of its agent."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ..model import FINAL, A2AError, Task, new_id
from ..net import AgentFault

if TYPE_CHECKING:
    from ..push import Notified
    from .client import Client

__all__ = ["notifications"]

POLL_S, LONGEST_POLL_S = 0.5, 30.0
NOTIFIED_POLL_S = 15.0  # beside notifications: one may not reach us

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


async def notifications(
    client: "Client", task_id: str, *, url: str = "", host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator["Notified"]:
    """Yield how a task stands, and then every change of it, to its end."""
    from ..push import Notified

    arrived: asyncio.Queue[Notified] = asyncio.Queue()
    async with contextlib.AsyncExitStack() as undo:
        is_pushed = await _register(client, task_id, arrived, undo, url=url, host=host, port=port)
        pause_s = NOTIFIED_POLL_S if is_pushed else POLL_S
        task = await client.get(task_id)
        yield Notified(task_id, task, task)
        while task.status.state not in FINAL:
            try:
                async with asyncio.timeout(pause_s):
                    notified = await arrived.get()
            except TimeoutError:
                found = await client.get(task_id)
                pause_s = min(pause_s * 1.5, LONGEST_POLL_S)
                if _is_known(task, found):
                    continue
                notified = Notified(task_id, found, found)
            if notified.number is not None and _is_known(task, notified.task):
                continue  # it was told before we asked how the task stands
            task = notified.task
            yield notified


def _is_known(task: Task, other: Task) -> bool:
    return task.status == other.status and len(task.artifacts) >= len(other.artifacts)


async def _register(
    client: "Client",
    task_id: str,
    arrived: "asyncio.Queue[Notified]",
    undo: contextlib.AsyncExitStack,
    *,
    url: str,
    host: str,
    port: int,
) -> bool:
    """Have the agent notify us, if it can and can reach us. Return whether it will."""
    from ..push import Receiver, listening

    agent_host = urlsplit(client.url).hostname or ""
    if not client.card.capabilities.push_notifications or not (url or agent_host in _LOOPBACK):
        return False
    token, config_id = secrets.token_urlsafe(32), new_id()
    receiver = Receiver(arrived.put_nowait, token=token, tasks={task_id})
    try:
        bound = await undo.enter_async_context(listening(receiver, host, port))
        await client.create_push_config(task_id, url or bound + "/", id=config_id, token=token)
    except (A2AError, OSError):  # it does not want to, or the port is taken
        return False

    async def unregister() -> None:
        with contextlib.suppress(A2AError, AgentFault):
            await client.delete_push_config(task_id, config_id)

    undo.push_async_callback(unregister)
    return True
