"""An agent that counts slowly, to be killed: `python -m tests.client.counting PORT DATABASE`."""

import asyncio
import sys

from accord import Agent

agent = Agent("Counter")


@agent.skill
async def count(text: str):
    """Count up to a number, a chunk each."""
    for i in range(int(text)):
        yield f"{i} "
        if i % 4 == 3:
            await asyncio.sleep(0.01)


if __name__ == "__main__":
    agent.run(port=int(sys.argv[1]), store=f"sqlite:///{sys.argv[2]}")
