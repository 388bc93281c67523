"""Rounds: every server in turn, again and again, so that a busy machine is busy for all of them."""

import asyncio
import itertools
from collections.abc import Callable, Sequence

from .load import Failure
from .results import Measured, today
from .rows import Effort, Row
from .server import Server

__all__ = ["measure_all"]

Told = Callable[[str], None]


async def measure_all(
    rows: Sequence[Row], effort: Effort, tell: Told, done: Callable[[str, Measured], None]
) -> None:
    """Measure `rows`, telling what is under way; `done` gets each row as it is finished."""
    for _, stage in itertools.groupby(rows, key=lambda row: row.stage):
        together = list(stage)
        servers = [together[0].server(column) for column in together[0].columns]
        try:
            if together[0].needs_server:
                tell(f"{together[0].title}: starting servers")
                await asyncio.gather(*(server.start() for server in servers))
            for row in together:
                done(row.id, await _measure(row, servers, effort, tell))
        except Failure as failure:
            for row in together:
                done(row.id, Measured(row.title, row.unit, today(), {}, error=str(failure)))
        finally:
            await asyncio.gather(*(server.stop() for server in servers))


async def _measure(row: Row, servers: Sequence[Server], effort: Effort, tell: Told) -> Measured:
    rounds: dict[str, list[float]] = {server.column: [] for server in servers}
    measured = Measured(row.title, row.unit, today(), rounds)
    try:
        for server in servers:
            tell(f"{row.title}: preparing {server.column}")
            await row.prepare(server, effort)
        for n in range(row.rounds or effort.rounds):
            for server in servers:
                tell(f"{row.title}: round {n + 1}, {server.column}")
                rounds[server.column].append(await row.measure(server, effort))
    except (Failure, TimeoutError) as failure:
        measured.error = str(failure) or "timed out"
    return measured
