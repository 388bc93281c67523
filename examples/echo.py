"""Says what it hears: a task, working, one artifact with the text, completed."""

from accord import Agent

agent = Agent("Echo", description="Says what it hears.")


@agent.skill(tags=["echo"], examples=["Hello"])
async def echo(text: str) -> str:
    """Repeat the text."""
    return text


if __name__ == "__main__":
    agent.run()
