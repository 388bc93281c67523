"""Posts and ownership: no order of messages and deaths strands a message, or has it read twice."""

import asyncio
import os

import pytest

from accord.model import now_ms
from accord.store import Append, Can, Create, Fenced, Leaves, Namespace, Post, PostKind
from accord.store.memory import MemoryStore
from tests.replicas.model import Action, Stranded, Task, World, begin, explore, next_worlds

IS_SOAK = bool(os.environ.get("ACCORD_SOAK"))
SPACE, KEY, ID = Namespace("agent"), 1 << 40, "t1"
WORKING, COMPLETED = 2, 3


@pytest.mark.parametrize(
    ("processes", "messages", "deaths"), [(2, 3, 2), (3, 3, 1), *([(2, 4, 2)] if IS_SOAK else [])]
)
def test_every_order(processes: int, messages: int, deaths: int) -> None:
    states = explore(begin(processes, messages, deaths))
    print(
        f"\nmodel: {states} states of {processes} processes, {messages} messages, {deaths} deaths"
    )
    assert states > 10_000


def test_an_owner_that_left_with_unread_posts_would_strand_them() -> None:
    """The model can fail: without the counter of posts it does."""
    with pytest.raises(Stranded, match="unread posts and no owner"):
        explore(begin(2, 2, 0), checks_counter=False)


class Real:
    """The same task in a memory store, one handle for each process."""

    def __init__(self) -> None:
        self._root = MemoryStore()
        self.handles = [self._root.another(), self._root.another()]

    async def open(self) -> None:
        for handle in self.handles:
            await handle.open(lambda tasks: None)
        maker = self._root.another()
        await maker.open(lambda tasks: None)
        made = Create(KEY, SPACE, ID, "c", "echo", b"", WORKING, now_ms(), 1, 1, 1, b"made")
        assert await maker.commit([made]) == [True]
        await maker.commit([self._entries(1, leaves=Leaves.IDLE)])
        await maker.close()

    async def do(self, action: Action, world: World) -> None:
        """Have the store do what the model did next."""
        handle = self.handles[action.process]
        draft = world.processes[action.process].draft
        before = draft.pos + 1 if draft is not None else 0  # one entry more than in the model
        try:
            if action.kind == "claim":
                await handle.claim(SPACE, ID)
            elif action.kind == "orphans":
                await handle.orphans(9, Can({"agent": ["echo"]}, 9))
            elif action.kind == "post":
                await handle.commit([Post(KEY, action.message, PostKind.MESSAGE, b"")])
            elif action.kind in ("say", "hear", "rest", "end"):
                leaves = {"rest": Leaves.IDLE, "end": Leaves.END}.get(action.kind, Leaves.STAY)
                await handle.commit([self._entries(before, action.n, leaves)])
            elif action.kind == "read":
                assert await handle.unread_posts([KEY])
            elif action.kind == "judge":
                handle.kill()
            elif action.kind == "again":
                await handle.open(lambda tasks: None)
        except Fenced:
            await handle.open(lambda tasks: None)

    def _entries(self, before: int, heard: int = 0, leaves: Leaves = Leaves.STAY) -> Append:
        state = COMPLETED if leaves is Leaves.END else WORKING
        return Append(
            *(KEY, SPACE, before, before + 1, 1, WORKING, state, now_ms(), 1, b"entry"),
            posts_read=heard,
            leaves=leaves,
        )

    async def task(self, world: World) -> Task:
        """The task as the store has it, in the model's words."""
        record = await self._root.load(SPACE, ID)
        assert record is not None
        numbers = {h.replica: p.number for h, p in zip(self.handles, world.processes, strict=True)}
        unread = self._root._state.tasks[KEY].unread_posts
        mail = tuple((letter.n, letter.id) for letter in unread)
        return Task(
            numbers.get(record.owner, -1) if record.owner else 0,
            record.pos - 1,
            record.posts,
            record.posts_read,
            mail,
            world.task.log,
            record.state == COMPLETED,
        )


def test_the_memory_store_does_what_the_model_does() -> None:
    """Along every path of a small world, step by step."""

    async def follow() -> int:
        start = begin(2, 2, 1)
        paths: dict[World, tuple[tuple[Action, World], ...]] = {start: ()}
        todo, steps = [start], 0
        while todo:
            world = todo.pop()
            for action, follower in next_worlds(world):
                real = Real()
                await real.open()
                path = (*paths[world], (action, world))
                for done, at in path:
                    await real.do(done, at)
                steps += 1
                found = await real.task(follower)
                # An owner whose number was declared dead and has begun anew is nobody's here.
                known = {process.number for process in follower.processes}
                owner = follower.task.owner if follower.task.owner in {0, *known} else -1
                assert found == follower.task._replace(owner=owner), path
                if follower not in paths:
                    paths[follower] = path
                    todo.append(follower)
        return steps

    steps = asyncio.run(follow())
    print(f"\nmodel: {steps} steps of the memory store are the model's")
    assert steps > 1000
