"""accord key: make, list and revoke the API keys of an agent's callers."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import click

from ..agent import Agent
from ..auth import ApiKeys, digest_of, new_api_key
from ..model import Unavailable, now_ms
from ..store import CommitFailed, KeyStore, StoredApiKey, open_store
from .amount import EXPIRES
from .db import only_store
from .group import VerbGroup
from .load import load_agent
from .table import OUTPUT, is_json, minute, print_json, print_table
from .terminal import echo

__all__ = ["key", "store_of", "store_options"]

T = TypeVar("T")


def store_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that name an agent's store: `store_of` reads them."""
    command = click.option(
        "--agent", "file", metavar="FILE[:NAME]", help="The agent, as given to accord serve."
    )(command)
    return click.option(
        "--store",
        metavar="URL",
        help="Its store, if accord serve was given one. By default the only one in ./.accord/.",
    )(command)


@click.group(cls=VerbGroup)
def key() -> None:
    """Make, list and revoke API keys, also while the agent's server runs. The agent has to have
    auth=ApiKeys().

    \b
    accord key new mia --scope hr.write
    """


@key.command()
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="SCOPE",
    help="A scope that the key allows, like hr.read. May be repeated.",
)
@click.option("--tenant", default="", help="The organisation that the key belongs to.")
@click.option(
    "--expires",
    type=EXPIRES,
    metavar="DURATION",
    help="How long it is valid, like 90d. Without it, for ever.",
)
@OUTPUT
@store_options
def new(
    name: str,
    scopes: tuple[str, ...],
    tenant: str,
    expires: int | None,
    output: str,
    store: str | None,
    file: str | None,
) -> None:
    """Make a key for caller NAME and print it, once: only its hash is stored.

    \b
    accord key new mia --scope hr.write
    accord key new ci --expires 90d --agent hr.py
    """
    if not name.isprintable() or not name.strip():
        raise click.ClickException("the name of a caller must be printable text")
    id_, text = new_api_key()
    named = tuple(sorted(set(re.split(r"[\s,]+", " ".join(scopes))) - {""}))

    async def add(keys: KeyStore) -> StoredApiKey:
        await _refuse_hub(keys, "new NAME --role ROLE")
        now = keys.now_ms()
        until_ms = now + expires if expires is not None else 0
        made = StoredApiKey(id_, name, digest_of(text), now, tenant, named, until_ms)
        await keys.add(made)
        return made

    made = _with(store, file, add)
    if file is not None and not _takes_keys(load_agent(file)):
        echo(f"Warning: the agent in {file} has no auth=ApiKeys(), so it asks for no key", err=True)
    if is_json(output):
        return print_json({**_row(made), "key": text})
    until = f", until {minute(made.expires_ms)}" if made.expires_ms else ""
    where = f", in {store_of(store, file)}" if store is None else ""
    echo(f"key {id_} of {name}{until}{where}; it is shown only now:", err=True)
    echo(text)


@key.command(name="list")
@OUTPUT
@store_options
def list_(output: str, store: str | None, file: str | None) -> None:
    """Print all keys: whose they are, what they allow, when they were last used."""
    rows = [_row(one) for one in _with(store, file, lambda keys: keys.list())]
    if is_json(output):
        print_json(rows)
    elif not rows:
        echo("no keys yet; make one with:  accord key new NAME", err=True)
    else:
        hubs = ("role", "teams") if any(row["role"] for row in rows) else ()
        columns = ("id", "name", "tenant", "scopes", *hubs, "expires", "last_used", "state")
        print_table(rows, *columns)


def _row(one: StoredApiKey) -> dict[str, Any]:
    state = "valid"
    if one.revoked_ms:
        state = f"revoked {minute(one.revoked_ms)}"
    elif one.expires_ms and one.expires_ms <= now_ms():
        state = "expired"
    return {
        "id": one.id,
        "name": one.name,
        "tenant": one.tenant,
        "scopes": list(one.scopes),
        "role": one.role,
        "teams": list(one.teams),
        "expires": minute(one.expires_ms) if one.expires_ms else "never",
        "last_used": minute(one.used_ms) if one.used_ms else "never",
        "state": state,
    }


@key.command()
@click.argument("id")
@OUTPUT
@store_options
def revoke(id: str, output: str, store: str | None, file: str | None) -> None:
    """Revoke the key with this ID (see accord key list). It is refused from now on."""
    key_id = id.split("_")[1] if id.startswith("accord_") else id  # the key itself will do

    async def end(keys: KeyStore) -> bool:
        await _refuse_hub(keys, f"revoke {key_id}")
        return await keys.revoke(key_id, keys.now_ms())

    if not _with(store, file, end):
        same = [one.id for one in _with(store, file, lambda keys: keys.list()) if one.name == id]
        way = f"the keys of {id} are: {', '.join(same)}" if same else "see accord key list"
        raise click.ClickException(f"there is no valid key with the ID {key_id}; {way}")
    if is_json(output):
        return print_json({"id": key_id, "state": "revoked"})
    echo(f"key {key_id} is revoked", err=True)


async def _refuse_hub(keys: KeyStore, verb: str) -> None:
    """Raise ClickException for the keys of a hub: they have roles, and its audit log has a row for
    each that is made or revoked.
    """
    if any(one.role for one in await keys.list()):
        raise click.ClickException(f"these are the keys of a hub; use:  accord hub key {verb}")


def _with(url: str | None, file: str | None, work: Callable[[KeyStore], Awaitable[T]]) -> T:
    """Do something with the keys of an agent."""
    url = store_of(url, file)

    async def run() -> T:
        store = open_store(url)
        if store.is_volatile:
            raise click.ClickException(
                f"{url} loses its keys when the server stops; give ApiKeys(keys=...) or another "
                "--store"
            )
        await store.keys.prepare()
        return await work(store.keys)

    try:
        return asyncio.run(run())
    except (RuntimeError, ValueError, CommitFailed, Unavailable) as error:
        raise click.ClickException(str(error)) from error


def _takes_keys(agent: Agent) -> bool:
    return agent.auth is not None and any(
        isinstance(one, ApiKeys) for one in agent.auth.schemes.values()
    )


def store_of(url: str | None, file: str | None) -> str:
    """Return the URL of the store that the options name."""
    if url is not None:
        return url
    if file is not None:
        return load_agent(file).default_store
    try:
        return only_store()
    except click.ClickException as error:
        raise click.UsageError(f"{error.message}, or the agent with --agent FILE") from error
