"""`python -m bench.now`: what a send costs while the console's page **Now** is open.

One server, one store. Turns with and without the page follow each other; in a turn with it the
page's requests are made as often as the page makes them. The ratio is formed of each pair of turns.
"""

import argparse
import asyncio
import contextlib
import statistics
from collections.abc import AsyncIterator

import aiohttp
import uvloop

from accord.console import BrowserSessions
from accord.store import open_store

from . import wire
from .load import drive
from .rows import SETTLE_S
from .server import Server, pin_load

__all__ = ["main"]

NOW_S, COUNTS_S = 10.0, 15.0  # how often the page asks
CONNECTIONS = 32


async def log_in(session: aiohttp.ClientSession, server: Server) -> None:
    """Log in as a browser does, with a link."""
    key = await BrowserSessions(open_store(server.store).logins).new_link()
    headers = {"X-Accord-Session": "none", "Sec-Fetch-Site": "same-origin"}
    async with session.post("/console/api/login", json={"key": key}, headers=headers) as answer:
        session.headers["X-Accord-Session"] = (await answer.json())["secret"]


@contextlib.asynccontextmanager
async def page(session: aiohttp.ClientSession, *, is_live: bool) -> AsyncIterator[None]:
    """Ask what the page asks, until the block ends."""

    async def ask(path: str, every_s: float) -> None:
        while True:
            async with session.get(f"/console/api/{path}") as answer:
                answer.raise_for_status()
                await answer.read()
            await asyncio.sleep(every_s)

    async def listen() -> None:
        async with session.get("/console/api/live") as answer:
            async for _ in answer.content:
                pass

    asked = [
        ask("now?window=hour", NOW_S),
        ask("counts", COUNTS_S),
        *([listen()] if is_live else []),
    ]
    tasks = [asyncio.create_task(one) for one in asked]
    try:
        yield
        for task in tasks:
            if task.done():
                await task  # it failed
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def measure(pairs: int, seconds: float, *, is_live: bool) -> list[tuple[float, float]]:
    """Return the CPU microseconds of a send without and with the page, of each pair of turns.
    Prints them with the rate of messages.
    """
    server = Server("sqlite", variables={"BENCH_CONSOLE": "1"})
    found: list[tuple[float, float]] = []
    try:
        await server.start()
        url = f"http://127.0.0.1:{server.port}"
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(url, cookie_jar=jar) as session:
            await log_in(session, server)
            lines = await server.connections(CONNECTIONS)
            request, check = wire.send(server), wire.check(wire.COMPLETED)

            async def turn(length_s: float) -> tuple[float, float]:
                begin = server.cpu_s()
                tally = await drive(lines, lambda _: request, check, seconds=length_s)
                await asyncio.sleep(SETTLE_S)
                return (server.cpu_s() - begin) / tally.units * 1e6, tally.units / length_s

            await turn(2.0)
            for n in range(pairs):
                costs, rates = {}, {}
                for has_page in (False, True) if n % 2 else (True, False):
                    async with (
                        page(session, is_live=is_live) if has_page else contextlib.nullcontext()
                    ):
                        costs[has_page], rates[has_page] = await turn(seconds)
                found.append((costs[False], costs[True]))
                print(
                    f"{costs[False]:7.1f} µs  {costs[True]:7.1f} µs  "
                    f"{costs[True] / costs[False]:.3f}  "
                    f"{rates[False]:,.0f} and {rates[True]:,.0f} messages a second",
                    flush=True,
                )
    finally:
        await server.stop()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.now", description=__doc__)
    parser.add_argument("--pairs", type=int, default=10, help="pairs of turns (default 10)")
    parser.add_argument("--seconds", type=float, default=30.0, help="of a turn (default 30)")
    parser.add_argument("--live", action="store_true", help="with the page's stream of changes too")
    options = parser.parse_args()
    pin_load()
    found = uvloop.run(measure(options.pairs, options.seconds, is_live=options.live))
    ratios = sorted(with_page / without for without, with_page in found)
    print(
        f"a send with the page costs {statistics.median(ratios):.3f} times one without "
        f"({ratios[0]:.3f} to {ratios[-1]:.3f}, {len(ratios)} pairs of {options.seconds:.0f} s)"
    )


if __name__ == "__main__":
    main()
