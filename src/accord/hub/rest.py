"""A client of a hub's REST interface: for the command line, and for agents that register."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import quote, urlencode

from ..after_fork import close_in_children
from ..net import Network, Request, origin_of

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]  # the one platform difference, checked where it is used

__all__ = [
    "ADDRESS_FILE",
    "KEY_FILE",
    "HubRefused",
    "RestClient",
    "find_key",
    "hold_address",
    "known_origins",
]

# In the folder of a hub: the key of the local admin, and the addresses it may be shown at.
FOLDER = ".accord"
KEY_FILE, ADDRESS_FILE = "hub.admin", "hub.address"
_LIMIT = 64 << 20


class HubRefused(Exception):
    """The hub answered with an error; `fix` is what helps."""

    def __init__(self, status: int, message: str, fix: str) -> None:
        super().__init__(message)
        self.status = status
        self.fix = fix


class RestClient:
    """Call a hub's REST interface. `key` may be a function that finds the key for each call: that
    of the local admin is replaced from time to time.
    """

    def __init__(self, url: str, key: str | Callable[[], str]) -> None:
        self.url = url.rstrip("/")
        self._key = key

    async def call(
        self,
        verb: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str | None] | None = None,
        timeout_s: float = 60.0,
    ) -> Any:
        """Return what the hub answers.

        Raises:
            HubRefused: It answers with an error, or is no hub.
            AgentFault: It can't be reached.
        """
        asked = {name: value for name, value in (query or {}).items() if value}
        url = f"{self.url}/api/v1{quote(path, safe='/:~%')}" + (
            f"?{urlencode(asked)}" if asked else ""
        )
        headers = {"Accept": "application/json"}
        data = None
        if verb != "GET":
            headers["Content-Type"] = "application/json"
            data = json.dumps({} if body is None else body).encode()
        if key := self._key if isinstance(self._key, str) else self._key():
            headers["X-API-Key"] = key
        network = Network(connect_s=10.0, lost_s=60.0)
        try:
            request = Request(verb, url, timeout_s, headers, data)
            answer = await network.fetch(request, limit=_LIMIT)
        finally:
            await network.close()
        if answer.status >= 400:
            raise self._refusal(answer.status, answer.body)
        try:
            return json.loads(answer.body) if answer.body else None
        except ValueError:
            raise self._no_hub(answer.status) from None

    def _refusal(self, status: int, body: bytes) -> HubRefused:
        try:
            error = json.loads(body)["error"]
            return HubRefused(status, str(error["message"]), str(error["fix"]))
        except (ValueError, KeyError, TypeError):
            # An agent has errors of another form, and a proxy has a page.
            if status == 404:
                return self._no_hub(status)
            return HubRefused(status, f"{self.url} answers with HTTP {status}", "")

    def _no_hub(self, status: int) -> HubRefused:
        what = f"the server at {self.url} is not a hub"
        return HubRefused(status, what, "name the hub with --hub URL")


def hold_address(file: TextIO) -> None:
    """Lock the file that says where a hub is served. The lock ends with the process."""
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        close_in_children(file, lambda file: [file.fileno()])


def known_origins() -> list[str]:
    """Return the origins of the hub in this folder; none if there is none. A hub that was killed
    leaves its file behind: whatever listens there now is not the hub.
    """
    try:
        with (Path(FOLDER) / ADDRESS_FILE).open() as file:
            return file.read().split() if _is_held(file) else []
    except OSError:
        return []


def _is_held(file: TextIO) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    return False


def find_key(url: str, given: str) -> str:
    """Return the key to show to a hub: the one given, or the local admin's key if it is the hub of
    this folder; empty if there is none.
    """
    if given:
        return given
    try:
        is_ours = origin_of(url) in known_origins()
        return (Path(FOLDER) / KEY_FILE).read_text().strip() if is_ours else ""
    except (OSError, ValueError):
        return ""
