"""The cluster store of a2a-sdk on the same PostgreSQL, for `bench.replicas`.

One process saves, another reads the events, both straight at the store. No HTTP is in between, as
it is in Accord's figures. `python -m bench.sdk_cluster URL SCHEMA` is the process that saves.
"""

import asyncio
import importlib.util
import json
import sys
import time
from typing import Any

__all__ = ["AT_ONCE", "measure", "missing"]

EVENTS, PAUSE_S = 200, 0.02  # as skill `ticks` of our replicas has them
RATE_S = 4.0
AT_ONCE = 32
TICKS = "ticks"  # id of the task that is read


def missing() -> str:
    """Return why this cannot be measured here, or nothing."""
    if all(importlib.util.find_spec(name) for name in ("a2a", "sqlalchemy", "asyncpg")):
        return ""
    return "skipped: it needs pip install 'a2a-sdk[postgresql]'"


async def measure(url: str, schema: str) -> tuple[list[float], dict[str, float]]:
    """Return how late each event came, in seconds, and `saves_s` and `cpu_us` of the other process.
    The schema exists and is empty.
    """
    from a2a.server.cluster import (
        DatabaseTaskEventStream,
        TaskVersion,
        VersionedDatabaseTaskStore,
    )

    engine = _engine(url, schema)
    try:
        await VersionedDatabaseTaskStore(engine).initialize()
        events = DatabaseTaskEventStream(engine)
        words = ("-m", "bench.sdk_cluster", url, schema)
        saving = await asyncio.create_subprocess_exec(
            sys.executable, *words, stdout=asyncio.subprocess.PIPE
        )
        try:
            late: list[float] = []
            async with asyncio.timeout(60):
                async for found in events.subscribe(TICKS, after=TaskVersion.MISSING):
                    now = time.time_ns()
                    late.append((now - int(found.event.artifact.parts[0].text)) / 1e9)
                    if len(late) == EVENTS:
                        break
                out, _ = await saving.communicate()
        finally:
            if saving.returncode is None:
                saving.kill()
                await saving.wait()
        if saving.returncode:
            raise RuntimeError("the process that saves has failed; its reason is above")
        figures: dict[str, float] = json.loads(out)
        return late, figures
    finally:
        await engine.dispose()


def _engine(url: str, schema: str) -> Any:
    """Its tables have no schema of their own, so the connection chooses it."""
    import asyncpg
    from sqlalchemy.ext.asyncio import create_async_engine

    async def connect() -> Any:
        return await asyncpg.connect(url, server_settings={"search_path": schema})

    return create_async_engine("postgresql+asyncpg://", async_creator=connect)


async def save(url: str, schema: str) -> None:
    from a2a.server.cluster import VersionedDatabaseTaskStore

    engine = _engine(url, schema)
    try:
        store = VersionedDatabaseTaskStore(engine)
        await store.initialize()
        await _ticks(store)
        began, used = time.perf_counter(), time.process_time()
        until = began + RATE_S
        saves = sum(await asyncio.gather(*(_tasks(store, n, until) for n in range(AT_ONCE))))
        took, used = time.perf_counter() - began, time.process_time() - used
        print(json.dumps({"saves_s": saves / took, "cpu_us": used / saves * 1e6}))
    finally:
        await engine.dispose()


async def _ticks(store: Any) -> None:
    """Save a task that says what time it is, event by event."""
    from a2a.server.cluster import TaskVersion
    from a2a.server.context import ServerCallContext
    from a2a.types import a2a_pb2 as pb

    context = ServerCallContext()
    task = pb.Task(id=TICKS, context_id="c", status=_status("WORKING"))
    version = await store.save(task, prev_version=TaskVersion.MISSING, context=context)
    artifact = task.artifacts.add(artifact_id="a")
    for _ in range(EVENTS):
        part = pb.Part(text=str(time.time_ns()))
        artifact.parts.append(part)
        event = pb.TaskArtifactUpdateEvent(
            task_id=TICKS,
            context_id="c",
            artifact=pb.Artifact(artifact_id="a", parts=[part]),
            append=True,
        )
        version = await store.save(task, event=event, prev_version=version, context=context)
        await asyncio.sleep(PAUSE_S)


async def _tasks(store: Any, n: int, until: float) -> int:
    """Save tasks until then, each as submitted, working and completed; return how many saves."""
    from a2a.server.cluster import TaskVersion
    from a2a.server.context import ServerCallContext
    from a2a.types import a2a_pb2 as pb

    context, saves = ServerCallContext(), 0
    while time.perf_counter() < until:
        id_, version = f"{n}-{saves}", TaskVersion.MISSING
        for state in ("SUBMITTED", "WORKING", "COMPLETED"):
            status = _status(state)
            task = pb.Task(id=id_, context_id="c", status=status)
            event = pb.TaskStatusUpdateEvent(task_id=id_, context_id="c", status=status)
            version = await store.save(task, event=event, prev_version=version, context=context)
            saves += 1
    return saves


def _status(state: str) -> Any:
    from a2a.types import a2a_pb2 as pb

    return pb.TaskStatus(state=pb.TaskState.Value(f"TASK_STATE_{state}"))


if __name__ == "__main__":
    asyncio.run(save(*sys.argv[1:]))
