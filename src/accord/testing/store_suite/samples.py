"""What every store promises of samples: what was open at a time."""

from ...store import Sample
from .box import Box, check

MINUTE_MS = 60_000
KEPT_MS = 10 * MINUTE_MS


async def _add(box: Box, n: int, streams: int, waiting: int, *, agent: str = "a") -> None:
    sample = Sample(n * MINUTE_MS, streams, waiting)
    await box.store.samples.add(agent, box.store.replica, sample, KEPT_MS)


@check
async def samples_are_read_since_a_time_with_the_last_one_before(box: Box) -> None:
    for n in (1, 2, 4, 5):
        await _add(box, n, n, 10 * n)
    await _add(box, 4, 9, 9, agent="b")
    found = await box.store.samples.since("a", 3 * MINUTE_MS)
    assert found == [Sample(n * MINUTE_MS, n, 10 * n) for n in (2, 4, 5)]
    assert await box.store.samples.since("a", 0) == [
        Sample(n * MINUTE_MS, n, 10 * n) for n in (1, 2, 4, 5)
    ]
    assert await box.store.samples.since("c", 0) == []


@check
async def a_sample_of_the_same_time_replaces_the_first(box: Box) -> None:
    await _add(box, 1, 5, 5)
    await _add(box, 1, 2, 3)
    assert await box.store.samples.since("a", 0) == [Sample(MINUTE_MS, 2, 3)]


@check
async def old_samples_of_an_agent_are_deleted(box: Box) -> None:
    await _add(box, 1, 1, 1)
    await _add(box, 1, 1, 1, agent="b")
    await _add(box, 2, 2, 2)
    await _add(box, 12, 3, 3)
    assert [one.at_ms for one in await box.store.samples.since("a", 0)] == [
        2 * MINUTE_MS,
        12 * MINUTE_MS,
    ]
    assert len(await box.store.samples.since("b", 0)) == 1


@check
async def samples_are_there_for_the_next_process(box: Box) -> None:
    await _add(box, 1, 4, 2)
    await box.restart()
    assert await box.store.samples.since("a", 0) == [Sample(MINUTE_MS, 4, 2)]


@check
async def samples_of_several_processes_are_added_up(box: Box) -> None:
    if not box.is_shared:
        return
    other = await box.another()
    await _add(box, 1, 4, 2)
    await other.samples.add("a", other.replica, Sample(MINUTE_MS, 3, 1), KEPT_MS)
    for store in (box.store, other):
        assert await store.samples.since("a", 0) == [Sample(MINUTE_MS, 7, 2)]
