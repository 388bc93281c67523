"""Runs in an environment that has only the wheel and one extra: does it work there?

python smoke.py EXTRA
"""

import asyncio
import importlib
import sys
import tempfile
from pathlib import Path

# What an extra is for, as a module of ours that needs it.
NEEDS = {
    "": "accord.app",
    "grpc": "accord.server.grpc",
    "postgres": "accord.store.postgres",
    "mcp": "accord.integrations.mcp",
}


async def main(extra: str) -> None:
    from accord import Agent, connect

    agent = Agent("Smoke", description="Is it there?")

    @agent.skill
    def echo(text: str) -> str:
        """Echo."""
        return text

    with tempfile.TemporaryDirectory() as folder:
        port = 0 if extra == "grpc" else None
        app = agent.app(store=f"sqlite:///{folder}/smoke.db", grpc_port=port)
        async with app.serving() as url:
            for binding in ["JSONRPC", "HTTP+JSON", *(["GRPC"] if extra == "grpc" else [])]:
                async with connect(url, binding=binding) as client:
                    assert (await client.send("hello")).text == "hello", binding
    root = Path(importlib.import_module("accord").__file__ or "").parent
    assert (root / "py.typed").exists()
    assert (root / "console/static/index.html").exists(), "the console is not in the wheel"
    module = importlib.import_module(NEEDS.get(extra, "accord.app"))
    for name in getattr(module, "__all__", ()):
        getattr(module, name)
    print("works")


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else ""))
