"""An agent with everything the console shows: questions, streams, files, steps, forms."""

import asyncio
import datetime
import sys
from dataclasses import dataclass
from typing import Literal

from msgspec import UNSET

from accord import Agent, Artifact, Context, File, Message, Part, Reply


@dataclass
class Wishes:
    """What somebody wants."""

    city: str
    days: int = 2
    pace: Literal["calm", "busy"] = "calm"
    breakfast: bool | None = None


@dataclass
class Picture:
    """What somebody takes for a picture."""

    file: Literal["photo\u202egpj.exe", "none"]


agent = Agent("Planner", description="Plans trips, and whatever else the console has to show.")


@agent.skill(examples=["A weekend in Rome"])
async def plan(text: str, ctx: Context):
    """Plan a trip, day by day."""
    days = await ctx.ask("How many days?", int)
    for day in range(1, days + 1):
        ctx.status(f"day {day} of {days}")
        yield f"Day {day}: **walk**\n"
        await asyncio.sleep(0.05)


@agent.skill
async def approve(text: str, ctx: Context) -> str:
    """Ask for a yes or a no."""
    return "paid" if await ctx.ask(f"Pay {text}?", bool) else "not paid"


@agent.skill
async def greet(text: str) -> Reply:
    """Answer without a task."""
    return Reply(f"hello {text}")


@agent.skill
async def late(text: str, ctx: Context) -> str:
    """Ask for a yes or a no, a little later."""
    await asyncio.sleep(0.5)
    return "paid" if await ctx.ask(f"Pay {text}?", bool) else "not paid"


@agent.skill
async def soon(text: str, ctx: Context) -> str:
    """Ask for a yes or a no, within a few minutes."""
    within = datetime.timedelta(minutes=5)
    return "paid" if await ctx.ask(f"Pay {text}?", bool, within=within, default=False) else "no"


@agent.skill(durable=True)
async def remind(text: str, ctx: Context) -> str:
    """Sleep for a day."""
    await ctx.sleep(datetime.timedelta(days=1))
    return "reminded"


@agent.skill
async def load(text: str, ctx: Context) -> str:
    """Report progress, and go on for an hour."""
    ctx.progress(4, 10, text)
    await asyncio.sleep(3600)
    return "loaded"


@agent.skill
async def book(text: str, ctx: Context) -> str:
    """Ask for a whole form."""
    wishes = await ctx.ask("What would you like?", Wishes)
    return f"{wishes.city} for {wishes.days} days, {wishes.pace}"


@agent.skill
async def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@agent.skill
async def measure(file: File) -> Artifact:
    """Say how large a file is, and give it back."""
    size = len(file.data or b"")
    parts = [Part(text=f"{file.name} has {size} bytes"), file.part()]
    return Artifact(artifact_id="measured", name="Measured", parts=parts)


@agent.skill
async def keep(file: File) -> File:
    """Give a file back, however large it is."""
    return File(await file.read(), name=file.name, media_type=file.media_type)


@agent.skill
async def show(message: Message) -> Artifact:
    """Give back what was sent, as the media type that its metadata names."""
    kind = (message.metadata or {}).get("as", "")
    parts = [Part(text=part.text, media_type=kind) for part in message.parts]
    return Artifact(artifact_id="shown", name=message.text[:40], parts=parts)


@agent.skill
async def fail(text: str) -> str:
    """Fail."""
    raise ValueError(f"{text} is no number")


@agent.skill
async def count(message: Message) -> str:
    """Say which parts a message has."""
    kinds = ("text", "raw", "url", "data")
    return " ".join(k for part in message.parts for k in kinds if getattr(part, k) is not UNSET)


@agent.skill
async def lines(text: str, ctx: Context):
    """Write many lines, one after the other."""
    for line in range(int(text)):
        await ctx.write(f"line {line}\n\n")
        await asyncio.sleep(0.01)


@agent.skill(durable=True)
async def steps(text: str, ctx: Context) -> str:
    """Work in steps."""
    first = await ctx.step(lambda: "one", name="first")
    second = await ctx.step(lambda: "two", name="second")
    return f"{first} {second}"


@agent.skill(durable=True)
async def pays(text: str, ctx: Context) -> str:
    """Ask, and pay in a step."""
    if await ctx.ask(f"Pay {text}?") != "yes":
        return "not paid"
    return await ctx.step(lambda: "paid", name="pay")


@agent.skill(durable=True)
async def words(text: str, ctx: Context):
    """Write a word every tenth of a second, and go on after a crash."""
    for word in range(int(text)):

        async def one(word: int) -> str:
            await asyncio.sleep(0.1)
            return f"w{word} "

        await ctx.write(await ctx.step(one, word))


@agent.skill
async def many(text: str, ctx: Context):
    """Write many words at once."""
    for word in range(int(text)):
        await ctx.write(f"w{word} ")


@agent.skill
async def slow(text: str, ctx: Context):
    """Write a word every tenth of a second."""
    for word in range(int(text)):
        await ctx.write(f"w{word} ")
        await asyncio.sleep(0.1)


@agent.skill
async def pick(text: str, ctx: Context) -> str:
    """Ask for one of two names, one with an override of direction."""
    return (await ctx.ask("Which?", Picture)).file


@agent.skill
async def twins(text: str):
    """Make two things of one name."""
    for n in (1, 2):
        yield Artifact(artifact_id=f"twin-{n}", name="twin", parts=[Part(text=f"{text} {n}")])


if __name__ == "__main__":
    agent.run(
        port=int(sys.argv[1]),
        store=sys.argv[2],
        workers=int(sys.argv[3]),
        log_level="error",
        allow_hosts=["127.0.0.1"],  # webhooks of tests are on this machine
    )
