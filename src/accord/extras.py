"""The command that installs Accord and its extras again, from where it was installed."""

import json
import shlex
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["install_command", "installed_from"]


def installed_from() -> Path | None:
    """Return the wheel or the clone that Accord was installed from; None if it came from an index.

    pip records this (PEP 610). The name `accord` on an index may be somebody else's package, so
    we name an index only if this installation came from it.
    """
    from importlib.metadata import PackageNotFoundError, distribution  # slow; for errors only

    try:
        recorded = distribution("accord").read_text("direct_url.json")
    except PackageNotFoundError:  # the source is imported from a folder in PYTHONPATH
        return Path(__file__).parents[2]
    if recorded is None:
        return None
    url = urlsplit(json.loads(recorded)["url"])
    return Path(unquote(url.path)) if url.scheme == "file" else None


def install_command(extra: str) -> str:
    """Return the command that installs an extra: `pip install '/home/ada/accord[grpc]'`."""
    what = f"{installed_from() or 'accord'}[{extra}]"
    return f"pip install {shlex.quote(what)}"
