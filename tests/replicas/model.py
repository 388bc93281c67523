"""Posts and ownership of one task, as the smallest thing that can go wrong: every order in which
processes, their messages and their deaths can follow each other.

A process that was declared dead goes on until the store refuses it, as one does that was paused. A
process that is really dead does nothing more, which is one of these orders.
"""

from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Action", "Stranded", "Task", "World", "begin", "explore", "next_worlds"]


class Action(NamedTuple):
    """What a process does with the store, or what is done to it."""

    kind: str  # claim, orphans, post, read, say, hear, rest, end, judge, again
    process: int
    message: int = -1
    n: int = 0  # of a post


class Task(NamedTuple):
    """The row of the task, and its unread posts."""

    owner: int = 0
    pos: int = 1
    posts: int = 0
    heard: int = 0
    mail: tuple[tuple[int, int], ...] = ()  # number of the post, message
    log: frozenset[int] = frozenset()  # messages that are in it
    is_ended: bool = False


class Draft(NamedTuple):
    """The task in the memory of its owner."""

    pos: int
    is_resting: bool = False  # its function has returned
    has_turn: bool = False  # a message was heard, and the function is about to return
    letter: tuple[int, int] | None = None  # a post that was read and is not yet in the log


class Process(NamedTuple):
    number: int
    is_dead: bool = False  # as all others see it
    draft: Draft | None = None


class World(NamedTuple):
    task: Task
    processes: tuple[Process, ...]
    # of each message: "new", "local" (to be appended here), "post" (to be sent to the owner),
    # "done", "lost" (its sender was told that nobody knows)
    senders: tuple[str, ...]
    deaths: int
    numbers: int


class Stranded(AssertionError):
    """A message nobody will ever read, or one that was read twice."""


def begin(processes: int, messages: int, deaths: int) -> World:
    return World(
        Task(),
        tuple(Process(n + 1) for n in range(processes)),
        ("new",) * messages,
        deaths,
        processes,
    )


def explore(world: World, *, checks_counter: bool = True) -> int:
    """Visit every world that can follow. Return how many there are.

    Without `checks_counter` an owner leaves whether or not posts are unread.
    """
    seen = {world}
    todo = [world]
    while todo:
        now = todo.pop()
        followers = list(next_worlds(now, checks_counter=checks_counter))
        check(now, can_go_on=any(action.kind != "judge" for action, _ in followers))
        for _, follower in followers:
            if follower not in seen:
                seen.add(follower)
                todo.append(follower)
    return len(seen)


def check(world: World, *, can_go_on: bool) -> None:
    task = world.task
    if not task.owner and task.mail:
        raise Stranded(f"unread posts and no owner: {world}")
    if not can_go_on and (task.mail or {"new", "local", "post"} & set(world.senders)):
        raise Stranded(f"nothing can happen any more: {world}")


def next_worlds(world: World, *, checks_counter: bool = True) -> Iterator[tuple[Action, World]]:
    """What may happen next."""
    for p, process in enumerate(world.processes):
        yield from _sends(world, p, process)
        yield from _owns(world, p, process, checks_counter)
        if not process.is_dead and world.deaths:
            judged = _with(world, p, process._replace(is_dead=True))
            yield Action("judge", p), judged._replace(deaths=world.deaths - 1)


def _sends(world: World, p: int, process: Process) -> Iterator[tuple[Action, World]]:
    task = world.task
    for m, phase in enumerate(world.senders):
        if m % len(world.processes) != p:
            continue
        if phase == "new":
            draft = process.draft
            if draft is not None and not draft.is_resting:
                yield Action("", p), _say(world, m, "local")
            elif task.is_ended:
                yield Action("claim", p, m), _say(world, m, "done")
            elif task.owner == process.number or not _is_living(world, task.owner):
                claimed = world._replace(task=task._replace(owner=process.number))
                held = _with(claimed, p, process._replace(draft=Draft(task.pos)))
                yield Action("claim", p, m), _say(held, m, "local")
            else:
                yield Action("claim", p, m), _say(world, m, "post")
        elif phase == "local":
            after = _append(world, p, process, log=task.log | {m})
            if after is None:
                yield Action("say", p, m), _refused(_say(world, m, "new"), p)
            elif m in task.log:
                raise Stranded(f"message {m} twice: {world}")
            else:
                yield Action("say", p, m), _say(after, m, "done")
        elif phase == "post":
            if process.is_dead:
                yield Action("post", p, m), _refused(world, p)
            elif task.is_ended or not _is_living(world, task.owner):
                yield Action("post", p, m), _say(world, m, "new")
            else:
                n = task.posts + 1
                posted = task._replace(posts=n, mail=(*task.mail, (n, m)))
                yield Action("post", p, m), _say(world._replace(task=posted), m, "done")


def _owns(
    world: World, p: int, process: Process, checks_counter: bool
) -> Iterator[tuple[Action, World]]:
    task, draft = world.task, process.draft
    if process.is_dead:
        yield Action("again", p), _refused(world, p)  # its next heartbeat tells it
    if task.owner and not task.is_ended and not _is_living(world, task.owner):
        taken = world._replace(task=task._replace(owner=process.number))
        yield Action("orphans", p), _with(taken, p, process._replace(draft=Draft(task.pos)))
    if draft is None:
        return
    if draft.letter is None and task.owner == process.number and task.mail:
        read = process._replace(draft=draft._replace(letter=task.mail[0]))
        yield Action("read", p), _with(world, p, read)
    if draft.letter is not None:
        n, m = draft.letter
        after = _append(world, p, process, log=task.log | {m}, heard=n)
        if after is not None and m in task.log:
            raise Stranded(f"message {m} twice: {world}")
        yield Action("hear", p, m, n), after if after is not None else _refused(world, p)
    if draft.has_turn:  # the function returns: with a question, or with the end of the task
        after = _append(world, p, process)
        if after is None:
            yield Action("rest", p), _refused(world, p)
            return
        rested = after.processes[p]._replace(draft=Draft(after.task.pos, is_resting=True))
        stays = checks_counter and after.task.posts != after.task.heard
        task = after.task if stays else after.task._replace(owner=0)
        yield Action("rest", p), _with(after._replace(task=task), p, rested)
        ended = after.task._replace(owner=0, mail=(), heard=after.task.posts, is_ended=True)
        yield Action("end", p), _with(after._replace(task=ended), p, process._replace(draft=None))


def _append(
    world: World, p: int, process: Process, *, log: frozenset[int] | None = None, heard: int = 0
) -> World | None:
    """The owner's commit; None if it is refused."""
    task, draft = world.task, process.draft
    if draft is None or process.is_dead or task.owner != process.number or task.pos != draft.pos:
        return None
    heard = max(heard, task.heard)
    mail = tuple(letter for letter in task.mail if letter[0] > heard)
    task = task._replace(pos=task.pos + 1, heard=heard, mail=mail)
    if log is not None:
        task = task._replace(log=log)
    draft = Draft(task.pos, has_turn=log is not None)
    return _with(world._replace(task=task), p, process._replace(draft=draft))


def _refused(world: World, p: int) -> World:
    """A commit was refused: the draft is dropped. Who was declared dead begins anew."""
    process = world.processes[p]._replace(draft=None)
    if not process.is_dead:
        return _with(world, p, process)
    senders = tuple(
        "lost" if m % len(world.processes) == p and phase in ("local", "post") else phase
        for m, phase in enumerate(world.senders)
    )
    number = world.numbers + 1
    return _with(world._replace(senders=senders, numbers=number), p, Process(number))


def _is_living(world: World, number: int) -> bool:
    return any(one.number == number and not one.is_dead for one in world.processes)


def _with(world: World, p: int, process: Process) -> World:
    processes = (*world.processes[:p], process, *world.processes[p + 1 :])
    return world._replace(processes=processes)


def _say(world: World, m: int, phase: str) -> World:
    return world._replace(senders=(*world.senders[:m], phase, *world.senders[m + 1 :]))
