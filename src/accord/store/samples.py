"""What was open at a time: what a store promises about such samples, and the store that forgets
them.
"""

from typing import NamedTuple, Protocol

__all__ = ["MemorySamples", "Sample", "SampleStore"]


class Sample(NamedTuple):
    """What was open at a time."""

    at_ms: int
    streams: int  # of one process or, when read, of all
    waiting: int  # tasks that wait for somebody, of all processes


class SampleStore(Protocol):
    """Where samples are stored. Each process adds rows of its own, so none waits for another."""

    async def add(self, agent: str, replica: int, sample: Sample, kept_ms: int) -> None:
        """Store a sample of a process, in place of one of the same time, and delete the agent's
        samples that are older than this one by more than `kept_ms`.

        Raises:
            CommitFailed: It was not stored.
        """
        ...

    async def since(self, agent: str, at_ms: int) -> list[Sample]:
        """Return an agent's samples since a time, with the last one before it, oldest first. Those
        of one time are one: their streams are added up, the most that waited counts.

        Raises:
            Unavailable: The store can't be read now.
        """
        ...


class MemorySamples:
    """Samples that end with the process."""

    def __init__(self) -> None:
        self._agents: dict[str, dict[int, dict[int, Sample]]] = {}  # by agent, time and process

    async def add(self, agent: str, replica: int, sample: Sample, kept_ms: int) -> None:
        times = self._agents.setdefault(agent, {})
        times.setdefault(sample.at_ms, {})[replica] = sample
        for at_ms in [one for one in times if one < sample.at_ms - kept_ms]:
            del times[at_ms]

    async def since(self, agent: str, at_ms: int) -> list[Sample]:
        times = self._agents.get(agent, {})
        first = max((one for one in times if one < at_ms), default=at_ms)
        return [
            Sample(
                one,
                sum(sample.streams for sample in times[one].values()),
                max(sample.waiting for sample in times[one].values()),
            )
            for one in sorted(times)
            if one >= first
        ]
