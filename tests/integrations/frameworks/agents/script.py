"""What the fake models say."""

import asyncio
from collections.abc import AsyncIterator

booked: list[str] = []  # cities the tool was called with
stopped: list[str] = []  # that the model's stream was closed before it had ended


def answer(said: list[str]) -> list[str]:
    """The words of an answer to a user who has said this."""
    return [f"{len(said)}: ", *(f"{text}; " for text in said)]


async def hang() -> AsyncIterator[str]:
    """A model that says a word and stops there."""
    try:
        yield "Well, "
        await asyncio.Event().wait()
    finally:
        stopped.append("stopped")


def book(city: str) -> str:
    """Book a hotel."""
    booked.append(city)
    return f"booked {city}"
