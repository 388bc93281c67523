"""The client of a hub's REST interface, for the verbs of `accord hub`."""

import asyncio
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from ...hub import HubRefused, RestClient, find_key, known_origins
from ...net import AgentFault
from ..advice import Failure
from ..table import OUTPUT, Row, print_json, print_table
from ..terminal import echo

__all__ = ["HubClient", "hub_options"]

DEFAULT = "http://127.0.0.1:8080"
_CODES = {401: "A2ACLI_ERR_CREDENTIALS_MISSING", 403: "A2ACLI_ERR_AUTH_FAILED"}

_NEEDS_KEY = (
    "give your key with --hub-key or in ACCORD_HUB_KEY; an admin makes one with:  "
    "accord hub key new NAME --role user"
)


class HubClient:
    """Calls a hub."""

    def __init__(self, url: str, key: str, output: str) -> None:
        self._rest = RestClient(url, key)
        self._key = key
        self._output = output

    def call(
        self,
        verb: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str | None] | None = None,
    ) -> Any:
        """Return what the hub answers. Raises Failure."""
        try:
            return asyncio.run(self._rest.call(verb, path, body, query=query))
        except HubRefused as error:
            code = _CODES.get(error.status, f"HUB_{error.status}")
            hint = error.fix
            if error.status == 401:
                hint = _NEEDS_KEY
            if error.status == 401 and not self._key and (known := known_origins()):
                hint = f"the admin's key in this folder is for {known[0]}: write --hub {known[0]}"
            said = str(error).removeprefix("the body does not fit: ")  # what was typed is no body
            raise Failure(said, code=code, hint=hint) from error
        except AgentFault as error:
            raise Failure(
                f"no hub at {self._rest.url}: {error.fault}",
                code="A2ACLI_ERR_UNREACHABLE",
                hint="start one with:  accord hub   (or name yours with --hub URL)",
            ) from error

    def show(self, found: Any, words: Callable[[Any], str]) -> None:
        """Print what came: as JSON, or in words."""
        if self._output == "json":
            print_json(found)
        else:
            echo(words(found))

    def show_table(self, found: Any, rows: Sequence[Row], *columns: str) -> None:
        """Print what came: as JSON, or the named columns of `rows` as a table."""
        if self._output == "json":
            print_json(found)
        elif rows:
            print_table(rows, *columns)
        else:
            echo("none")


def hub_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options all verbs share; the command gets a HubClient as `client`."""

    @click.option(
        "--hub",
        "hub_url",
        metavar="URL",
        help="The hub.  [default: ACCORD_HUB, else the one that runs in this folder, else "
        f"{DEFAULT}]",
    )
    @click.option(
        "--hub-key",
        metavar="KEY",
        help="Your key for the hub. By default the one in ACCORD_HUB_KEY, or the admin key in "
        "./.accord/ if the hub was started in this folder.",
    )
    @OUTPUT
    @functools.wraps(command)
    def wrapped(hub_url: str | None, hub_key: str | None, output: str, **given: Any) -> None:
        url = hub_url or os.environ.get("ACCORD_HUB") or next(iter(known_origins()), DEFAULT)
        shown = find_key(url, hub_key or os.environ.get("ACCORD_HUB_KEY", ""))
        command(HubClient(url, shown, output), **given)

    return wrapped
