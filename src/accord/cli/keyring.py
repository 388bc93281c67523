"""accord keyring: the keys a server seals and signs with."""

import os
from pathlib import Path

import click

from .. import auth
from .group import VerbGroup
from .table import OUTPUT, is_json, print_json, print_table
from .terminal import echo, secho

__all__ = ["KEY_FILE", "STORE", "found_keyring", "keyring"]

KEY_FILE = click.option(
    "--key-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file with the keys. By default the one beside the store, or the only one in "
    "./.accord/.",
)
STORE = click.option("--store", metavar="URL", help="The store whose keys to use: sqlite:///FILE.")


@click.group(cls=VerbGroup)
def keyring() -> None:
    """Make, list and rotate the keys that a server encrypts and signs with."""


@keyring.command("new")
@OUTPUT
def new(output: str) -> None:
    """Print a new key, for ACCORD_KEY or a key file.

    Replicas that share a store need the same one. To rotate it, put the new one in front:
    ACCORD_KEY=NEW,OLD
    """
    text = auth.new_key()
    if is_json(output):
        return print_json({"key": text})
    echo(text)


@keyring.command("list")
@OUTPUT
@KEY_FILE
@STORE
def show(output: str, key_file: Path | None, store: str | None) -> None:
    """List the keys, the current one first. Secrets are not shown."""
    try:
        ring = found_keyring(key_file, store)
    except auth.KeyringError as error:
        raise click.ClickException(str(error)) from error
    roles = ["current", "previous, still published"]
    rows = [
        {"id": key_id, "made": made, "role": roles[place] if place < len(roles) else "old"}
        for place, (key_id, made) in enumerate(ring.ids)
    ]
    if is_json(output):
        return print_json({"file": str(ring.file or "ACCORD_KEY"), "keys": rows})
    secho(str(ring.file or "ACCORD_KEY"), dim=True)
    print_table(rows, "id", "made", "role")


@keyring.command("rotate")
@OUTPUT
@KEY_FILE
@STORE
def rotate(output: str, key_file: Path | None, store: str | None) -> None:
    """Make a new key the current one. The others stay, to decrypt what they encrypted.

    Running servers use it at once.
    """
    try:
        ring = found_keyring(key_file, store)
        key_id = ring.rotate()
    except auth.KeyringError as error:
        raise click.ClickException(str(error)) from error
    if is_json(output):
        return print_json({"id": key_id, "file": str(ring.file)})
    echo(f"{key_id} is the current key in {ring.file}")


def found_keyring(key_file: Path | None, store: str | None) -> "auth.Keyring":
    """The keyring that is meant. Raises KeyringError."""
    if key_file is None and store is not None:
        scheme, _, rest = store.partition(":///")
        if scheme != "sqlite" or not rest:
            raise auth.KeyringError(
                f"{store.partition('://')[0]}:// has no key file beside it: give --key-file"
            )
        key_file = auth.key_file_of(Path(rest))
    if key_file is not None:
        return auth.Keyring.open(key_file, make=False)
    if os.environ.get("ACCORD_KEY"):
        return auth.Keyring.parse(os.environ["ACCORD_KEY"])
    found = sorted(Path(".accord").glob("*.keys"))
    if len(found) != 1:
        there = f"; there are {', '.join(map(str, found))}" if found else ""
        raise auth.KeyringError(
            f"say which keys: --key-file FILE, or --store sqlite:///FILE{there}"
        )
    return auth.Keyring.open(found[0], make=False)
