"""An agent that takes and gives files: `serve.py PORT STORE FILES RELAYED_URL`, where the last two
may be empty.
"""

import hashlib
import sys

from accord import Agent, File
from accord.model import Limits

agent = Agent("Files", description="Takes and gives files.")


@agent.skill
async def digest(file: File) -> str:
    """Say what came."""
    found, count = hashlib.sha256(), 0
    async for chunk in file:
        found.update(chunk)
        count += len(chunk)
    return f"{count} {found.hexdigest()}"


@agent.skill
async def back(file: File) -> File:
    """Give the file back."""
    return file


@agent.skill
async def echo(text: str) -> str:
    """Repeat the text."""
    return text


if __name__ == "__main__":
    port, store, files, behind = sys.argv[1:]
    served = Agent.proxy(behind, name="Relay") if behind else agent
    served.run(
        port=int(port),
        store=store,
        files=files,
        limits=Limits(file_size=2 << 30),
        console=False,
        on_start=lambda url: print(url, flush=True),
    )
