"""F1: hostile input of every kind, in processes of their own: none may end, hang, grow, or show a
  fault of ours.

What is sent is made from the protocol's own words and bent somewhere: values of other types, twins,
missing and strange members, broken text, odd paths, queries, cursors, tokens, headers and frames.
See `tests/hostile/fuzz`.
"""

import asyncio
import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.processes import run
from tests.reliability.harness import report, seed, size

ROOT = Path(__file__).parent.parent.parent
# Of a hundred inputs. Page tokens and push configs are in those to the doors.
SHARES = {"http": 30, "http1": 15, "grpc": 20, "sse": 10, "card": 8, "answer": 17}
AT_ONCE = 2
GROWTH = 50 << 20
SLOW_S = 1.0


async def attack(number: int, parts: Sequence[str], *flags: str) -> list[dict[str, Any]]:
    """Play so many tapes to each target, in a process of its own; return how it went."""
    command = [sys.executable, "-m", "tests.hostile.fuzz", str(number), *parts, *flags]
    done = await run(*command, cwd=ROOT, seconds=size(600, 12 * 3600))
    assert done.code == 0, f"it ended with {done.code}:\n{done.err[-6000:]}"
    return [json.loads(line) for line in done.out.splitlines() if line.startswith("{")]


async def attack_for_long(number: int, parts: Sequence[str]) -> list[dict[str, Any]]:
    """The same, led by what is reached in our code where Atheris is installed, and some of it at
    once.
    """
    flags = ["--guided"] if importlib.util.find_spec("atheris") else []
    at_once = asyncio.Semaphore(AT_ONCE)

    async def one(part: str) -> list[dict[str, Any]]:
        async with at_once:
            return await attack(number, [part], *flags)

    async with asyncio.TaskGroup() as group:
        attacks = [group.create_task(one(part)) for part in parts]
    return [result for task in attacks for result in task.result()]


async def test_nothing_hostile_gets_more_than_a_refusal() -> None:
    """F1: no exit, no hang, no internal error, no growth, whatever comes in: over HTTP and gRPC,
    and to the client.
    """
    wanted, is_soak = size(8_000, 2_000_000), bool(size(0, 1))
    parts = [f"{name}={wanted * share // 100}" for name, share in SHARES.items()]
    number = seed()
    results = await (attack_for_long if is_soak else attack)(number, parts)
    for result in results:
        grown, slowest_s = result["grown"], result["slowest_s"]
        report(
            f"F1 {result['target']}",
            inputs=result["inputs"],
            slowest_s=slowest_s,
            grown_by_MB=round(grown / 1e6, 1),
            outcomes=result["outcomes"],
        )
        assert grown < GROWTH
        assert slowest_s < SLOW_S or not is_soak, "a hang"
    inputs = sum(result["inputs"] for result in results)
    report("F1", inputs=inputs, seed=number, exits=0, internal_errors=0)
    assert inputs == wanted
