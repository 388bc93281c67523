"""A busy hub to look at: 60 agents and 700 tasks over a week, with failures, questions and traces.

`python -m tests.console.world` serves it and prints its link.
"""

import asyncio
import contextlib
import datetime
import logging
import random
import sqlite3
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from aiohttp import web

from accord import Agent, Artifact, Context, File, Part, connect
from accord.client import Client
from accord.console import Console
from accord.hub import Hub, HubRole, HubSettings
from accord.hub.access import SYSTEM, PolicyRule
from tests.console.agents import Wishes

AREAS = ("payroll", "invoices", "travel", "hardware", "contracts", "inventory", "shipping", "tax")
WORK = ("intake", "review", "search", "export", "alerts", "archive", "forecast", "audit")
COUNT = 60
TASKS = 700
DAY_MS = 86_400_000

TEXTS = (
    "Check invoice {n} of Northwind against the order",
    "Which laptops are due for replacement in Rome?",
    "Summarise contract {n} for the board",
    "Book a desk for Ada Lovelace from Monday",
    "Where is parcel {n}?",
    "Export the ledger of October as CSV",
    "Compare both offers and say which is cheaper",
)
ERRORS = (
    (TimeoutError, "warehouse.example did not answer within 5 s"),
    (KeyError, "vat_id"),
    (ValueError, "amount 'n/a' is no number"),
)
PICTURE = (
    b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 90 40"><path fill="#46c" '
    b'd="M5 35V20h15v15zm20 0V10h15v25zm20 0V25h15v10zm20 0V5h15v30z"/></svg>'
)


def agent_of(area: str, work: str, chance: random.Random) -> Agent:
    agent = Agent(
        f"{area.title()} {work}",
        description=f"Handles {work} for {area}: reads what is sent and answers with a summary.",
        version="2.4.1",
    )

    @agent.skill(tags=[area], examples=[TEXTS[0].format(n=4711)])
    async def handle(text: str, ctx: Context):
        """Handle a request and write a summary."""
        if chance.random() < 0.09:
            kind, why = chance.choice(ERRORS)
            raise kind(why)
        ctx.status("reading")
        yield f"**{area.title()}**: checked {text[:60]!r}.\n\n- nothing is missing\n- due soon"

    @agent.skill(tags=[area], durable=True)
    async def steps(text: str, ctx: Context) -> Artifact:
        """Work in steps and give back a table."""
        for name in ("fetch", "match", "book"):
            await ctx.step(lambda: "done", name=name)
        rows = "item,amount,due\nlaptop,1200,2026-12-01\ndesk,340,2026-12-04\nbadge,12,2026-12-04\n"
        return Artifact(
            artifact_id="table",
            name="Bookings",
            parts=[Part(text=rows, media_type="text/csv", filename="bookings.csv")],
        )

    @agent.skill(tags=[area])
    async def approve(text: str, ctx: Context) -> str:
        """Ask for a yes or a no, within two days."""
        within = datetime.timedelta(days=2, hours=chance.randrange(1, 20))
        return "paid" if await ctx.ask(f"Pay {text}?", bool, within=within, default=False) else "no"

    @agent.skill(tags=[area])
    async def book(text: str, ctx: Context) -> str:
        """Ask for a whole form."""
        wishes = await ctx.ask("What would you like?", Wishes)
        return f"{wishes.city} for {wishes.days} days"

    @agent.skill(tags=[area])
    async def load(text: str, ctx: Context) -> str:
        """Report progress."""
        ctx.progress(640, 1000, "rows read")
        await asyncio.sleep(3600)
        return "read"

    @agent.skill(tags=[area], durable=True)
    async def remind(text: str, ctx: Context) -> str:
        """Sleep until it is due."""
        await ctx.sleep(datetime.timedelta(days=1, hours=3))
        return "reminded"

    return agent


def leading_agent(hub: str, others: list[str]) -> Agent:
    """An agent that hands work to others through the hub: what traces are made of."""
    agent = Agent("Month end", description="Closes the books with the help of other agents.")

    @agent.skill(examples=["Close October"])
    async def close(text: str, ctx: Context):
        """Close a month."""
        for name in others:
            reply = await ctx.delegate(f"{hub}/agents/{name}", f"{text}: {name}", skill="steps")
            yield f"{name}: {reply.task.status.state.word}\n\n"
        yield "\n| area | amount |\n|---|---|\n| payroll | 48,200 |\n| travel | 3,911 |\n"
        yield File(PICTURE, name="month.svg", media_type="image/svg+xml")

    return agent


async def fill(hub: Hub, url: str, names: list[str], chance: random.Random) -> None:
    """Make the tasks, by a few callers with names."""
    keys = [
        (await hub.principals.new_key(SYSTEM, name, role, teams))[1]
        for name, role, teams in (
            ("mia", HubRole.USER, ("finance",)),
            ("ci", HubRole.PUBLISHER, ("platform",)),
            ("jonas", HubRole.USER, ()),
        )
    ]
    async with contextlib.AsyncExitStack() as stack:
        clients: dict[tuple[str, int], Client] = {}
        for _ in range(TASKS):
            name, by = names[int(chance.random() ** 2 * len(names))], chance.randrange(3)
            client = clients.get((name, by))
            if client is None:
                client = await stack.enter_async_context(
                    connect(f"{url}/agents/{name}", headers={"X-API-Key": keys[by]})
                )
                clients[name, by] = client
            text = chance.choice(TEXTS).format(n=chance.randrange(1000, 9999))
            await client.send(text, skill="steps" if chance.random() < 0.15 else "handle")


def spread(store: Path, chance: random.Random) -> None:
    """Spread what was done at once over a week, busy by day; more of it of late."""
    now = int(time.time() * 1000)
    with contextlib.closing(sqlite3.connect(store)) as db:
        for key, task in db.execute("SELECT key, id FROM tasks ORDER BY key").fetchall():
            ago = int(min(6.9, chance.expovariate(0.9)) * DAY_MS)
            if chance.random() < 0.25:
                ago = chance.randrange(3_600_000)
            took = int(min(chance.lognormvariate(7.3, 1.1), 600_000))
            db.execute(
                "UPDATE tasks SET at_ms = ?, created_ms = ? WHERE key = ?",
                (now - ago, now - ago - took, key),
            )
            db.execute("UPDATE relays SET at_ms = ? WHERE task = ?", (now - ago - took, task))
            rows = db.execute("SELECT rowid FROM events WHERE task = ? ORDER BY pos", (key,))
            ids = [row for (row,) in rows]
            for i, row in enumerate(ids):
                at = now - ago - took + took * i // max(1, len(ids) - 1)
                db.execute("UPDATE events SET at_ms = ? WHERE rowid = ?", (at, row))
        db.commit()


async def wait_now(hub: Hub, url: str, names: list[str], hooks: str) -> Any:
    """Make what is open now: questions, progress, a sleeper, webhooks and traces."""
    _, mine = await hub.principals.new_key(SYSTEM, "ada", HubRole.ADMIN)
    found = SimpleNamespace()
    async with connect(f"{url}/agents/{names[0]}") as guest:
        found.guest = (await guest.send("invoice 4711, 4,000 euros", skill="approve")).task_id
        await guest.send("A trip to Rome in December", skill="book")
    async with connect(f"{url}/agents/{names[1]}", headers={"X-API-Key": mine}) as ada:
        await ada.send("invoice 812, 95 euros", skill="approve")
        found.loading = (
            await ada.send("Load the ledger of 2026", skill="load", wait=False)
        ).task_id
        found.sleeping = (
            await ada.send("Remind me of the audit", skill="remind", wait=False)
        ).task_id
        for name in ("orders", "alerts"):
            await ada.send(f"Watch the {name}", skill="steps", push=f"{hooks}/{name}")
    async with connect(f"{url}/agents/month-end", headers={"X-API-Key": mine}) as ada:
        for month in ("September", "October", "November"):
            found.led = (await ada.send(f"Close {month}", skill="close")).task_id
    await hub.traces.flush()
    return found


async def furnish(hub: Hub) -> None:
    for name, text in (("finance", "Payroll, invoices, tax"), ("platform", "Runs the hub")):
        await hub.principals.add_team(SYSTEM, name, text)
    await hub.principals.set_user(SYSTEM, "mia@corp.example", HubRole.USER, ["finance"])
    await hub.principals.set_user(SYSTEM, "jonas@corp.example", HubRole.ADMIN, ["platform"])
    for rule in (
        PolicyRule(who="team:finance", what="agent:payroll-*", effect="allow", limit=60),
        PolicyRule(who="anyone", what="tag:tax"),
        PolicyRule(who="role:publisher", what="*", effect="allow", limit=600),
    ):
        await hub.policy.add(SYSTEM, rule)
    await hub.networks.add(SYSTEM, "10.20.0.0/16", "the office in Rome")
    await hub.networks.add(SYSTEM, "*.corp.example", "our own hosts")


def new_hub(folder: Path) -> Hub:
    return Hub(
        HubSettings(
            store=f"sqlite:///{folder}/hub.db",
            folder=str(folder),
            tick_s=0.0,
            name="Corp hub",
            guests="call",
            allow=("127.0.0.1",),  # webhooks are on this machine
        )
    )


@contextlib.asynccontextmanager
async def serving_hooks() -> AsyncIterator[str]:
    """A place for push notifications: `/orders` takes them, `/alerts` is out of order."""

    async def answer(request: web.Request) -> web.Response:
        is_well = request.path == "/orders"
        return web.Response(status=200 if is_well else 503, text="" if is_well else "out of order")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield site.name
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def busy_hub() -> AsyncIterator[Any]:
    """Serve a hub that has been busy for a week. Gives its address, a link, and what is open."""
    chance = random.Random(7)
    made = [
        agent_of(area, work, chance)
        for area, work in [(a, w) for w in WORK for a in AREAS][: COUNT - 1]
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        app = made[0].app(beside=made[1:], store=f"sqlite:///{folder}/agents.db")
        async with app.serving() as there:
            hub = new_hub(folder)
            async with hub.app.serving() as url:
                names: list[str] = []
                for path in app.agents:
                    entry = await hub.admission.add(SYSTEM, url=f"{there}/{path}")
                    names.append(entry.name)
                    await hub.prober.reach_now(entry)
                await fill(hub, url, names, chance)
                await furnish(hub)
            spread(folder / "hub.db", chance)
            hub = new_hub(folder)
            console = Console(hub.app, is_hub=True)
            console.attach(hub.app)
            async with hub.app.serving() as url:
                leading = leading_agent(url, [names[2], names[5], names[9], names[12]])
                async with leading.app().serving() as lead, serving_hooks() as hooks:
                    await hub.admission.add(SYSTEM, url=lead)
                    found = await wait_now(hub, url, names, hooks)
                    yield SimpleNamespace(
                        hub=hub, url=url, link=console.link(url), names=names, **vars(found)
                    )


async def main() -> None:
    logging.disable()  # what fails here fails on purpose
    async with busy_hub() as world:
        print(world.link, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
