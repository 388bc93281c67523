"""A checkpointer of LangGraph whose checkpoints are JSON, for `ctx.state`.

A conversation goes on from its newest checkpoint, so only that is kept, one for the graph and one
for each subgraph under way.
"""

import base64
import random
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from langgraph.checkpoint.base import WRITES_IDX_MAP, BaseCheckpointSaver, CheckpointTuple

__all__ = ["StateSaver"]


class StateSaver(BaseCheckpointSaver[str]):  # type: ignore[misc]  # it comes without types here
    """Checkpoints by the namespace of the graph; the thread is the conversation."""

    def __init__(self, checkpoints: dict[str, Any]) -> None:
        super().__init__()
        self.checkpoints = checkpoints

    # The graph runs on our loop; LangGraph calls the plain forms only from other threads.

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        place = config["configurable"]
        found = self.checkpoints.get(place.get("checkpoint_ns", ""))
        wanted = place.get("checkpoint_id")
        if found is None or (wanted is not None and wanted != found["id"]):
            return None
        config = {
            "configurable": {
                "thread_id": place["thread_id"],
                "checkpoint_ns": place.get("checkpoint_ns", ""),
                "checkpoint_id": found["id"],
            }
        }
        writes = [
            (task_id, channel, self._loads(value)) for task_id, _, channel, value in found["writes"]
        ]
        return CheckpointTuple(
            config,
            self._loads(found["checkpoint"]),
            self._loads(found["metadata"]),
            None,
            writes,
        )

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        place = config["configurable"]
        namespace = place.get("checkpoint_ns", "")
        self.checkpoints[namespace] = {
            "id": checkpoint["id"],
            "checkpoint": self._dumps(checkpoint),
            "metadata": self._dumps(metadata),
            "writes": [],
        }
        return {
            "configurable": {
                "thread_id": place["thread_id"],
                "checkpoint_ns": namespace,
                "checkpoint_id": checkpoint["id"],
            }
        }

    def put_writes(
        self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        place = config["configurable"]
        found = self.checkpoints.get(place.get("checkpoint_ns", ""))
        if found is None or found["id"] != place.get("checkpoint_id"):
            return
        for i, (channel, value) in enumerate(writes):
            index = WRITES_IDX_MAP.get(channel, i)
            kept = [one for one in found["writes"] if (one[0], one[1]) != (task_id, index)]
            if index >= 0 and len(kept) < len(found["writes"]):
                continue  # only those of errors and interrupts are made again
            found["writes"] = [*kept, [task_id, index, channel, self._dumps(value)]]

    def list(
        self, config: Any, *, filter: Any = None, before: Any = None, limit: int | None = None
    ) -> Iterator[CheckpointTuple]:
        if config is not None and (found := self.get_tuple(config)) is not None:
            yield found

    def delete_thread(self, thread_id: str) -> None:
        self.checkpoints.clear()

    async def aget_tuple(self, config: Any) -> CheckpointTuple | None:
        return self.get_tuple(config)

    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        return self.put(config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        self.put_writes(config, writes, task_id, task_path)

    async def alist(
        self, config: Any, *, filter: Any = None, before: Any = None, limit: int | None = None
    ) -> AsyncIterator[CheckpointTuple]:
        for found in self.list(config, filter=filter, before=before, limit=limit):
            yield found

    async def adelete_thread(self, thread_id: str) -> None:
        self.delete_thread(thread_id)

    def get_next_version(self, current: str | None, channel: None) -> str:
        """Versions are compared as text, and differ if two runs begin at the same checkpoint."""
        number = 0 if current is None else int(current.partition(".")[0])
        return f"{number + 1:032}.{random.random():016}"

    def _dumps(self, value: Any) -> Any:
        kind, data = self.serde.dumps_typed(value)
        return [kind, base64.b64encode(data).decode()]

    def _loads(self, value: Any) -> Any:
        kind, data = value
        return self.serde.loads_typed((kind, base64.b64decode(data)))
