"""What a reader knows of a task that another process writes, if some of the log was purged
meanwhile.
"""

import pytest

from accord import Agent
from accord.engine.log import Ids
from accord.engine.ownership import TaskSlot
from accord.engine.reading.tail import Tail
from accord.model import TaskState
from accord.store import Row
from accord.store.memory import MemoryStore
from tests.engine.processes import Process, message


async def rows_of_a_task() -> tuple[Ids, list[Row]]:
    """The log of a task that has ended, each entry a row of its own."""
    agent, store = Agent("Works"), MemoryStore()

    @agent.skill
    async def work(text: str) -> str:
        return text

    app = agent.app(store=store)
    await app.open()
    try:
        task = await Process(app).send(message("x"))
    finally:
        await app.close(0)
    (stored,) = store._state.tasks.values()
    lines = b"\n".join(row.data for row in stored.log).split(b"\n")
    seq, rows = 0, list[Row]()
    for pos, line in enumerate(lines, 1):
        seq += line[:1] in (b"c", b"w", b"a")
        rows.append(Row(stored.record.key, pos, seq, pos, line))
    return Ids(task["id"], task["contextId"]), rows


@pytest.mark.parametrize("before", [TaskState.WORKING, TaskState.COMPLETED])
async def test_the_state_behind_a_gap_is_what_was_written_there(before: TaskState) -> None:
    """A sender waits until the task has ended, and a stream ends with it: with an old state the
    first would wait for ever, and the second end too early.
    """
    ids, rows = await rows_of_a_task()
    working = next(row for row in rows[1:] if row.data[:1] == b"w")
    artifact = next(row for row in rows if row.data[:1] == b"a")
    expected = {
        working: TaskState.WORKING,
        artifact: TaskState.WORKING,
        rows[-1]: TaskState.COMPLETED,
    }
    for row, state in expected.items():
        place = ("", ids.task_id)
        slot = TaskSlot(place, row.task, None)  # type: ignore[arg-type]  # nothing happens to it
        tail = Tail(slot, ids, None, pos=1, seq=1, state=before)  # type: ignore[arg-type]
        tail.extend_rows([row])
        assert (tail.state, tail.seq, tail.pos) == (state, row.seq, row.pos)
        assert [event.seq for event in tail.after(row.seq - 1) or []] == [row.seq]
