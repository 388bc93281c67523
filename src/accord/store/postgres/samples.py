"""What was open at a time, in the database of an agent's tasks: all its processes add to it."""

from ..samples import Sample
from .beside import DatabaseTable

__all__ = ["PostgresSamples"]


class PostgresSamples(DatabaseTable):
    """The samples in one database."""

    async def add(self, agent: str, replica: int, sample: Sample, kept_ms: int) -> None:
        await self._query(
            "WITH old AS (DELETE FROM {s}.samples WHERE agent = $1 AND at_ms < $6) "
            "INSERT INTO {s}.samples (agent, at_ms, replica, streams, waiting) "
            "VALUES ($1,$2,$3,$4,$5) ON CONFLICT (agent, at_ms, replica) "
            "DO UPDATE SET streams = excluded.streams, waiting = excluded.waiting",
            *(agent, sample.at_ms, replica, sample.streams, sample.waiting),
            sample.at_ms - kept_ms,
        )

    async def since(self, agent: str, at_ms: int) -> list[Sample]:
        rows = await self._read(
            "SELECT at_ms, sum(streams)::bigint, max(waiting) FROM {s}.samples WHERE agent = $1 "
            "AND at_ms >= coalesce((SELECT max(at_ms) FROM {s}.samples "
            "WHERE agent = $1 AND at_ms < $2), $2) GROUP BY at_ms ORDER BY at_ms",
            *(agent, at_ms),
        )
        return [Sample(*row) for row in rows]
