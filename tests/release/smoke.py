"""Runs in an environment that has only the wheel and one extra: does it work there?

python smoke.py EXTRA
"""

import asyncio
import importlib
import sys
import tempfile
from pathlib import Path

# Modules that an extra is for: ours, or where ours loads it later, its own.
NEEDS = {
    "": ["accord.app"],
    "find": ["numpy", "model2vec"],
    "grpc": ["accord.server.grpc"],
    "mcp": ["accord.integrations.mcp.server"],
    "metrics": ["accord.observe.metrics"],
    "otel": ["accord.observe.spans", "opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"],
    "postgres": ["accord.store.postgres.store"],
    "reload": ["watchfiles"],
}


async def main(extra: str) -> None:
    from accord import Agent, connect
    from accord.protocol import BindingName

    agent = Agent("Smoke", description="Is it there?")

    @agent.skill
    def echo(text: str) -> str:
        """Echo."""
        return text

    with tempfile.TemporaryDirectory() as folder:
        port = 0 if extra == "grpc" else None
        app = agent.app(store=f"sqlite:///{folder}/smoke.db", grpc_port=port)
        async with app.serving() as url:
            bindings: list[BindingName] = ["JSONRPC", "HTTP+JSON"]
            if extra == "grpc":
                bindings.append("GRPC")
            for binding in bindings:
                async with connect(url, binding=binding) as client:
                    assert (await client.send("hello")).text == "hello", binding
    root = Path(importlib.import_module("accord").__file__ or "").parent
    assert (root / "py.typed").exists()
    assert (root / "console/static/index.html").exists(), "the console is not in the wheel"
    for module in NEEDS[extra]:
        importlib.import_module(module)
    print("works")


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else ""))
