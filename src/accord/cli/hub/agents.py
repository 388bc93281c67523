"""accord hub, the verbs of its entries: add, list, show, approve, set and the like."""

import json
import sys
from pathlib import Path
from typing import Any

import click

from ..terminal import echo
from .client import HubClient, hub_options
from .files import read_file

__all__ = ["COMMANDS"]


@click.command()
@click.argument("url", required=False)
@click.option(
    "--from",
    "file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file with an address per line, with one agent card, or with an AI Catalog.",
)
@click.option(
    "--name",
    default="",
    metavar="NAME",
    help="The agent's name in the hub. By default made from the card's.",
)
@click.option(
    "--visibility",
    type=click.Choice(["public", "team", "private"]),
    default="public",
    show_default=True,
    help="Who can find the agent.",
)
@click.option(
    "--team", default="", metavar="NAME", help="The team it is for, with --visibility team."
)
@hub_options
def add(
    client: HubClient, url: str | None, file: Path | None, name: str, visibility: str, team: str
) -> None:
    """Add the agent at URL, or those in a file. An admin's entry is listed at once; others wait.

    \b
    accord hub add https://hr.corp.example
    accord hub add --from agents.txt
    accord hub add https://corp.example/.well-known/ai-catalog.json
    """
    if (url is None) == (file is None):
        raise click.UsageError("give the address of an agent, or --from FILE")
    common = {"name": name, "visibility": visibility, "team": team}
    catalog = _catalog_in(url, file)
    if catalog is not None:
        body = catalog | {"visibility": visibility, "team": team}
        found = client.call("POST", "/import/catalog", body)
        client.show(found, _taken)
        return _say_failed(len(found["failed"]), len(found["added"]) + len(found["failed"]))
    new = [{"url": url}] if url is not None else _agents_in(file or Path())
    failed = 0
    for one in new:
        try:
            entry = client.call("POST", "/agents", one | common)
        except click.ClickException as error:
            if len(new) == 1:
                raise
            failed += 1
            why = error.format_message().replace("\n", "; ")
            echo(f"{one.get('url', 'the card')}: not added: {why}", err=True)
            continue
        client.show(entry, _added)
    _say_failed(failed, len(new))


def _say_failed(failed: int, of: int) -> None:
    """Raise ClickException if agents were not added."""
    if failed:
        raise click.ClickException(f"{failed} of {of} agents were not added")


def _catalog_in(url: str | None, file: Path | None) -> dict[str, Any] | None:
    """The AI Catalog that was named; None if it is something else."""
    if url is not None:
        return {"url": url} if url.partition("?")[0].endswith("ai-catalog.json") else None
    value = read_file(file or Path())
    return {"catalog": value} if isinstance(value, dict) and "entries" in value else None


def _taken(found: dict[str, Any]) -> str:
    lines = [f"{name} is added" for name in found["added"]]
    lines += [f"{name}: not added: {why}" for name, why in found["failed"].items()]
    if found["passed_over"]:
        lines.append(f"{found['passed_over']} entries of other kinds are left out")
    return "\n".join(lines) or "the catalog is empty"


def _agents_in(file: Path) -> list[dict[str, Any]]:
    found = read_file(file)
    if isinstance(found, dict):
        return [{"card": found}]
    lines = (line.partition("#")[0].strip() for line in found.splitlines())
    return [{"url": line} for line in lines if line]


def _added(entry: dict[str, Any]) -> str:
    count = len(entry.get("skills", []))
    said = f"{entry['name']} is {entry['state']}: {count} skill{'s' if count != 1 else ''}"
    if entry["state"] == "pending":
        said += f"\nAn admin approves it with:  accord hub approve {entry['name']}"
    for note in entry.get("notes", []):
        said += f"\n  repaired: {note}"
    return said


@click.command(name="list")
@click.option(
    "--state",
    type=click.Choice(["pending", "approved", "suspended"]),
    help="Only agents in this state.",
)
@click.option("--team", metavar="NAME", help="Only agents of this team.")
@hub_options
def list_(client: HubClient, state: str | None, team: str | None) -> None:
    """List the agents you may see."""
    query = {"state": state, "team": team, "limit": "500"}
    found = page = client.call("GET", "/agents", query=query)
    while page.get("next"):
        page = client.call("GET", "/agents", query=query | {"cursor": page["next"]})
        found = found | {"agents": found["agents"] + page["agents"], "next": ""}
    rows = [_row(one) for one in found["agents"]]
    if not rows:
        return client.show(found, lambda _: "no agents yet; add one with:  accord hub add URL")
    columns = ("name", "state", "health", "skills", "visible_to", "description")
    client.show_table(found, rows, *columns)
    if any(_is_changed(one) for one in found["agents"]):
        echo("* the latest card is not in use; see:  accord hub diff NAME", err=True)


def _is_changed(one: dict[str, Any]) -> bool:
    """Return whether a newer card than the one in use is there: it waits, or was rejected."""
    return bool(one.get("waiting") and one.get("approved"))


def _row(one: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": one["name"],
        "state": one["state"] + (" *" if _is_changed(one) else ""),
        "health": one["health"].get("state", "new"),
        "skills": len(one.get("skills", [])),
        "visible_to": one["team"] if one["visibility"] == "team" else one["visibility"],
        "description": one["description"],
    }


@click.command()
@click.argument("name")
@hub_options
def show(client: HubClient, name: str) -> None:
    """Show one agent."""
    client.show(client.call("GET", f"/agents/{name}"), _details)


def _details(entry: dict[str, Any]) -> str:
    said = " ".join(entry["description"].split())
    lines = [f"{entry['name']}   {entry['state']}, {entry['visibility']}", f"  {said}"]
    rows = {
        "health": " ".join(
            [entry["health"].get("state", "new"), entry["health"].get("sentence", "")]
        ).strip(),
        "address": entry.get("url", ""),
        "card": entry.get("card_url", ""),
        "signature": entry.get("signature", ""),
        "version": f"{entry.get('approved', 0)} in use, {entry.get('latest', 0)} is the latest",
        "owner": entry.get("owner", ""),
        "team": entry.get("team", ""),
    }
    lines += [f"  {name:<10} {value}" for name, value in rows.items() if value]
    if entry.get("settings"):
        lines.append(f"  {'settings':<10} {_settings(entry['settings'])}")
    for skill in entry.get("skills", []):
        lines.append(f"  skill      {skill['id']}: {' '.join(skill['description'].split())[:80]}")
    for note in entry.get("notes", []):
        lines.append(f"  repaired   {note}")
    return "\n".join(lines)


def _settings(settings: dict[str, Any]) -> str:
    """As `accord hub set` takes them; those that are empty are left out."""
    return " ".join(
        f"{name}={value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in settings.items()
        if value not in ("", [], {})
    )


@click.command()
@click.argument("name")
@hub_options
def remove(client: HubClient, name: str) -> None:
    """Retire an agent, for good. Its credentials are deleted, its name is free."""
    client.call("DELETE", f"/agents/{name}")
    client.show({"name": name, "state": "retired"}, lambda _: f"{name} is retired")


def _interfaces(card: dict[str, Any]) -> str:
    return "".join(
        f"interface {one['protocolBinding']} {one.get('protocolVersion', '')} {one['url']}\n"
        for one in card["supportedInterfaces"]
    )


def _state(entry: dict[str, Any]) -> str:
    version = entry.get("approved", 0)
    said = f"{entry['name']} is {entry['state']}, version {version} of its card in use"
    if _is_changed(entry):
        said += f"\nversion {entry['latest']} is not; see:  accord hub diff {entry['name']}"
    return said


@click.command()
@click.argument("name")
@click.argument("version", default="latest")
@hub_options
def approve(client: HubClient, name: str, version: str) -> None:
    """Approve an agent, or a changed card of it: this VERSION is called from now on.

    Without a VERSION it is the latest; what is in it is shown, and a terminal asks first.
    """
    if version == "latest":
        # The number is sent: what was shown is approved, though a newer card comes meanwhile.
        found = client.call("GET", f"/agents/{name}/cards/latest")
        version = str(found["n"])
        echo(_interfaces(found["card"]) + _differences(found), err=True)
        if sys.stdin.isatty() and sys.stderr.isatty():
            click.confirm(f"Approve version {version} of {name}?", abort=True, err=True)
    client.show(client.call("POST", f"/agents/{name}/cards/{version}:approve"), _state)


@click.command()
@click.argument("name")
@click.argument("version", default="latest")
@hub_options
def reject(client: HubClient, name: str, version: str) -> None:
    """Refuse a version of a card. An agent that was never approved is retired."""
    client.show(client.call("POST", f"/agents/{name}/cards/{version}:reject"), _state)


def _verb(verb: str, said: str) -> click.Command:
    """Return a verb that has nothing but the name of an agent."""

    @click.command(name=verb, help=said)
    @click.argument("name")
    @hub_options
    def command(client: HubClient, name: str) -> None:
        client.show(client.call("POST", f"/agents/{name}:{verb}"), _state)

    return command


suspend = _verb("suspend", "Stop calls to an agent until it is resumed.")
resume = _verb("resume", "Allow calls to a suspended agent again.")
refresh = _verb("refresh", "Fetch an agent's card now, and take or hold what has changed.")


@click.command(name="set")
@click.argument("name")
@click.argument("settings", nargs=-1, metavar="FIELD=VALUE...")
@click.option(
    "--visibility",
    type=click.Choice(["public", "team", "private"]),
    help="Who can find the agent.",
)
@click.option("--team", metavar="NAME", help="The team it is for.")
@hub_options
def set_(
    client: HubClient,
    name: str,
    settings: tuple[str, ...],
    visibility: str | None,
    team: str | None,
) -> None:
    """Change who finds an agent, or its settings.

    \b
    accord hub set hr --visibility team --team hr
    accord hub set hr changes=pin probe=off
    """
    body: dict[str, Any] = {}
    if visibility is not None:
        body["visibility"] = visibility
    if team is not None:
        body["team"] = team
    if settings:
        body["settings"] = dict(_setting(one) for one in settings)
    client.show(client.call("PATCH", f"/agents/{name}", body), _details)


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"{text} is not a setting; write FIELD=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


@click.command()
@click.argument("name")
@click.argument("version", default="latest")
@hub_options
def diff(client: HubClient, name: str, version: str) -> None:
    """Show what differs between a version of a card and the one that was in use."""
    client.show(client.call("GET", f"/agents/{name}/cards/{version}"), _differences)


def _differences(found: dict[str, Any]) -> str:
    lines = [f"version {found['n']}: {found['decision']}, {found['signature']}"]
    for one in found["differences"]:
        lines.append(f"  {one['weight']:<9} {one['sentence']}")
        for sign, side in (("-", one.get("before")), ("+", one.get("after"))):
            if side is not None:
                lines.append(f"      {sign} {json.dumps(side, ensure_ascii=False)[:200]}")
    if not found["differences"]:
        is_first = found["n"] == 1
        lines.append("  its first card" if is_first else "  no differences")
    return "\n".join(lines)


COMMANDS: tuple[click.Command, ...] = (
    *(add, list_, show, remove, approve, reject),
    *(suspend, resume, refresh, set_, diff),
)
