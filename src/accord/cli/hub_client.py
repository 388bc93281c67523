"""The client of a hub's REST interface, for the verbs of `accord hub`."""

import asyncio
import functools
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import click

from ..net import AgentFault, Network, host_of
from .advice import Failure

__all__ = ["HubClient", "hub_options"]

DEFAULT = "http://127.0.0.1:8080"
ADMIN_FILE = Path(".accord/hub.admin")
_LIMIT = 64 << 20
_CODES = {401: "A2ACLI_ERR_CREDENTIALS_MISSING", 403: "A2ACLI_ERR_AUTH_FAILED"}


class HubClient:
    """Calls a hub."""

    def __init__(self, url: str, key: str, output: str) -> None:
        self.url = url.rstrip("/")
        self._key = key
        self._output = output

    def call(
        self,
        verb: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str | None] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Return what the hub answers. Raises Failure."""
        return asyncio.run(self.acall(verb, path, body, query=query, headers=headers))

    async def acall(
        self,
        verb: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str | None] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        asked = {name: value for name, value in (query or {}).items() if value}
        url = f"{self.url}/api/v1{quote(path, safe='/:~')}" + (
            f"?{urlencode(asked)}" if asked else ""
        )
        lines = {"Accept": "application/json", **(headers or {})}
        data = None
        if verb != "GET":
            lines["Content-Type"] = "application/json"
            data = json.dumps(body or {}).encode()
        if self._key:
            lines["X-API-Key"] = self._key
        network = Network(connect_s=10.0, lost_s=60.0)
        try:
            answer = await network.fetch(verb, url, lines, data, limit=_LIMIT, timeout_s=60.0)
        except AgentFault as error:
            raise Failure(
                f"no hub at {self.url}: {error.fault}",
                code="A2ACLI_ERR_UNREACHABLE",
                hint="start one with:  accord hub   (or name yours with --hub URL)",
            ) from error
        finally:
            await network.close()
        if answer.status >= 400:
            raise _failure(answer.status, answer.body)
        return json.loads(answer.body) if answer.body else None

    def show(self, found: Any, words: Callable[[Any], str]) -> None:
        """Print what came: as JSON, or in words."""
        if self._output == "json":
            click.echo(json.dumps(found, ensure_ascii=False))
        else:
            click.echo(words(found))


def _failure(status: int, body: bytes) -> Failure:
    try:
        error = json.loads(body)["error"]
        said, fix = str(error["message"]), str(error.get("fix", ""))
    except (ValueError, KeyError, TypeError):
        said, fix = f"the hub answers with HTTP {status}", ""
    return Failure(said, code=_CODES.get(status, f"HUB_{status}"), hint=fix)


def find_key(url: str, given: str) -> str:
    """The key to show to a hub: the one given, else, on this machine, that of the local admin."""
    if given:
        return given
    if host_of(url) in ("127.0.0.1", "localhost", "::1") and ADMIN_FILE.is_file():
        return ADMIN_FILE.read_text().strip()
    return ""


def hub_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options all verbs share; the command gets a HubClient as `client`."""

    @click.option("--hub", "hub_url", help=f"The hub.  [default: ACCORD_HUB, else {DEFAULT}]")
    @click.option(
        "--key",
        help="Your key. By default ACCORD_HUB_KEY; at a hub that was started in this folder, the "
        "admin's in ./.accord/",
    )
    @click.option(
        "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True
    )
    @functools.wraps(command)
    def wrapped(hub_url: str | None, key: str | None, output: str, **given: Any) -> None:
        url = hub_url or os.environ.get("ACCORD_HUB") or DEFAULT
        shown = find_key(url, key or os.environ.get("ACCORD_HUB_KEY", ""))
        command(HubClient(url, shown, output), **given)

    return wrapped
