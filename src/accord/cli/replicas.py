"""accord replicas: the processes that share a store."""

import asyncio
import time

import click

from ..store import open_store
from .db import database_url
from .group import VerbGroup
from .table import OUTPUT, is_json, print_json, print_table
from .terminal import echo

__all__ = ["replicas"]


@click.group(cls=VerbGroup)
def replicas() -> None:
    """See which processes share a store."""


@replicas.command("list")
@click.option("--store", required=True, metavar="URL", help="The store, as given to accord serve.")
@OUTPUT
def show(store: str, output: str) -> None:
    """List the processes that use a PostgreSQL store, and those that died lately."""
    if not database_url(store):
        raise click.ClickException(
            f"{store} is used by one process; only a postgresql:// store has replicas"
        )
    try:
        open_store(store)  # says what is missing
        from ..store import postgres

        found = asyncio.run(postgres.replicas(postgres.parse(store)))
    except (RuntimeError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    now_ms = time.time() * 1000
    rows = [
        {
            "number": one.number,
            "state": "dead" if one.is_dead else "alive",
            "tasks": one.tasks,
            "seen": f"{max(now_ms - one.seen_ms, 0) / 1000:,.0f} s ago",
            "name": one.name,
        }
        for one in found
    ]
    if is_json(output):
        print_json(rows)
    elif not rows:
        echo("no process has used this store", err=True)
    else:
        print_table(rows, "number", "state", "tasks", "seen", "name")
