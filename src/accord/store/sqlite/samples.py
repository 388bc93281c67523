"""What was open at a time, in the file of an agent's tasks."""

from ..samples import Sample
from .beside import FileTable

__all__ = ["SqliteSamples"]


class SqliteSamples(FileTable):
    """The samples in one file."""

    async def add(self, agent: str, replica: int, sample: Sample, kept_ms: int) -> None:
        await self._write(
            "INSERT OR REPLACE INTO samples (agent, at_ms, replica, streams, waiting) "
            "VALUES (?,?,?,?,?)",
            (agent, sample.at_ms, replica, sample.streams, sample.waiting),
        )
        await self._write(
            "DELETE FROM samples WHERE agent=? AND at_ms<?", (agent, sample.at_ms - kept_ms)
        )

    async def since(self, agent: str, at_ms: int) -> list[Sample]:
        with self._reading() as db:
            rows = db.execute(
                "SELECT at_ms, sum(streams), max(waiting) FROM samples WHERE agent=?1 AND at_ms>="
                "coalesce((SELECT max(at_ms) FROM samples WHERE agent=?1 AND at_ms<?2), ?2) "
                "GROUP BY at_ms ORDER BY at_ms",
                (agent, at_ms),
            ).fetchall()
        return [Sample(*row) for row in rows]
