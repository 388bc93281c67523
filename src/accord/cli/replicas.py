"""accord replicas: the processes that share a store."""

import asyncio
import time

import click

from ..store import open_store
from .db import database_url
from .terminal import echo

__all__ = ["replicas"]


@click.group()
def replicas() -> None:
    """See which processes share a store."""


@replicas.command("list")
@click.option("--store", required=True, help="The store, as given to accord serve.")
def show(store: str) -> None:
    """List the processes that use a PostgreSQL store, and dead ones that are not forgotten yet."""
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
    if not found:
        echo("no process has used this store")
        return
    now_ms = time.time() * 1000
    echo(f"{'number':>8}  {'state':<6}  {'tasks':>7}  {'seen':>10}  name")
    for one in found:
        state = "dead" if one.is_dead else "alive"
        seen = f"{max(now_ms - one.seen_ms, 0) / 1000:,.0f} s ago"
        echo(f"{one.number:>8}  {state:<6}  {one.tasks:>7,}  {seen:>10}  {one.name}")
