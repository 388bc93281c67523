"""A database that is opened once, around all work of the agent: `@agent.lifespan`.

accord serve examples/ledger.py
accord send http://127.0.0.1:8000 --skill book '{"account": "travel", "cents": 1250}'
accord send http://127.0.0.1:8000 --skill balance travel
"""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass

from accord import Agent

agent = Agent("Ledger", description="Books amounts and adds them up.")


@dataclass
class Resources:
    """What the skills need."""

    database: sqlite3.Connection


@agent.lifespan
async def life() -> AsyncIterator[Resources]:
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE booked (account TEXT, cents INTEGER)")
        yield Resources(database)


@agent.skill
async def book(account: str, cents: int, database: sqlite3.Connection) -> str:
    """Book an amount on an account."""
    with database:
        database.execute("INSERT INTO booked VALUES (?, ?)", (account, cents))
    return f"Booked {cents / 100:.2f} on {account}."


@agent.skill
async def balance(account: str, database: sqlite3.Connection) -> str:
    """Add up an account."""
    rows = database.execute("SELECT sum(cents) FROM booked WHERE account = ?", (account,))
    return f"{(rows.fetchone()[0] or 0) / 100:.2f}"
