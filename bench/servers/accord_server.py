"""The agent on Accord, as `agent.run` serves it: `accord_server.py PORT STORE_URL [GRPC_PORT]`.

`BENCH_AUTH` says how callers authenticate: not at all, with an API key, or with a JWT whose
keys are in the file it names. `BENCH_METRICS` is a port for metrics. With `BENCH_CONSOLE` the
console is served, if its page is built; without, figures do not depend on that. With
`BENCH_EXECUTOR` the agent is an executor of a2a-sdk. With `BENCH_NO_TELEMETRY` what asks whether
a request is traced is replaced by constants, before anything imports it.
"""

import asyncio
import os
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator

if os.environ.get("BENCH_NO_TELEMETRY"):
    from accord import observe

    observe.tracing = lambda: None
    observe.is_unsampled = lambda: False
    observe.recorded_trace = observe.current_trace = observe.outgoing = lambda: observe.NO_TRACE

from accord import Agent, Ask, Context, File, Limits
from accord.auth import ApiKeys, Auth, Bearer


def declared() -> Auth | None:
    kind, _, value = os.environ.get("BENCH_AUTH", "").partition(":")
    if kind == "key":
        return ApiKeys(keys={value: "bench"})
    if kind == "stored":
        return ApiKeys()
    if kind == "jwt":
        return Bearer(value, issuer="https://id.example", audience="bench")
    return None


agent = Agent("Echo", description="Says what it hears.", auth=declared())
gates: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)


@agent.skill
async def echo(text: str) -> str:
    """Repeat the text."""
    return text


@agent.skill
async def count(text: str) -> AsyncIterator[str]:
    """Stream as many chunks as the text says, giving way after each, as an agent that waits for a
    model does.
    """
    for i in range(int(text)):
        yield f"chunk {i} "
        await asyncio.sleep(0)


@agent.skill
async def tokens(text: str) -> AsyncIterator[str]:
    """Stream as many chunks as the text says, one in 20 ms, as a model does. Each says when."""
    for _ in range(int(text)):
        await asyncio.sleep(0.02)
        yield f"at {time.time_ns()} "


@agent.skill
async def tell(text: str) -> AsyncIterator[str]:
    """Wait for the gate the text names, then stream 50 chunks to whoever listens."""
    await gates[text].wait()
    for i in range(50):
        yield f"chunk {i} "
        await asyncio.sleep(0)


@agent.skill
async def go(text: str) -> str:
    """Open the gate the text names."""
    gates.pop(text).set()
    return text


@agent.skill
async def talk(text: str) -> Ask:
    """Ask back, for ever."""
    return Ask(f"{text}?")


async def lower(text: str) -> str:
    return text.lower()


@agent.skill(durable=True)
async def steps(text: str, ctx: Context) -> str:
    """Two steps that survive a crash."""
    return await ctx.step(lower, await ctx.step(lower, text))


@agent.skill
async def twice(text: str, ctx: Context) -> str:
    """The same without steps: a crash in the middle of it would be its end."""
    return await lower(await lower(text))


@agent.skill
async def weigh(file: File) -> str:
    """Say how large the file is."""
    return f"{len(file.data or b'')} bytes"


if os.environ.get("BENCH_EXECUTOR"):  # the same agent, as it is written for a2a-sdk
    from sdk_server import Echo

    agent = Agent.wrap(Echo())


if __name__ == "__main__":
    agent.run(
        port=int(sys.argv[1]),
        store=sys.argv[2],
        grpc_port=int(sys.argv[3]) if len(sys.argv) > 3 else None,
        console=bool(os.environ.get("BENCH_CONSOLE")),
        allow_hosts=["127.0.0.1"],  # the webhooks of the bench
        metrics=os.environ.get("BENCH_METRICS"),
        limits=Limits(calls_per_s=1e9, calls_burst=10**9),
    )
