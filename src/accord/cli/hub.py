"""accord hub: serve a hub, and the verbs of its registry, which go over its REST interface."""

import json
import sys
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from ..server.process import set_up_log
from .console import say_if_not_built
from .hub_admin import COMMANDS
from .hub_client import HubClient, hub_options
from .hub_find import check, find, probe
from .server_options import server_options
from .terminal import echo, style

__all__ = ["hub"]


_GUESTS = {
    "off": "callers without a login may do nothing (--guests)",
    "see": "callers without a login see public agents (--guests)",
    "call": "callers without a login see and call public agents (--guests)",
}


@click.group(invoke_without_command=True)
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on.  [default: 8080]")
@click.option(
    "--store",
    help="Where the hub keeps everything: sqlite:///FILE, or postgresql://USER@HOST/DATABASE for "
    "several hubs.  [default: sqlite:///.accord/hub.db]",
)
@click.option("--url", help="The address clients reach it at, if not the one it listens on.")
@click.option("--oidc", metavar="ISSUER", help="Take tokens of this OpenID Connect provider.")
@click.option("--oidc-audience", help="For whom its tokens must be.  [default: --url]")
@click.option(
    "--guests",
    type=click.Choice(["off", "see", "call"]),
    help="What callers without a login may do with public agents.  [default: call, if --host and "
    "--url are this machine's own; else off]",
)
@click.option(
    "--trust",
    type=click.Choice(["off", "if-present", "require"]),
    help="Whether cards must be signed by a trusted key.  [default: if-present]",
)
@click.option(
    "--allow-host",
    "allow",
    multiple=True,
    metavar="HOST",
    help="A private host or network that agents may be in, like 10.0.0.0/8. May be repeated.",
)
@click.option(
    "--approve-origin",
    "approve",
    multiple=True,
    metavar="ORIGIN",
    help="Agents of this origin need no approval, like https://hr.corp.example. May be repeated.",
)
@click.option(
    "--meaning",
    metavar="FOLDER|URL",
    help="Vectors for search: a folder with a model2vec model, or an embeddings endpoint.",
)
@server_options
@click.pass_context
def hub(context: click.Context, /, **options: Any) -> None:
    """Serve a hub: one address for many agents. Or, with a verb, work with one that is running.

    \b
    accord hub                                   # serves http://127.0.0.1:8080
    accord hub add https://hr.corp.example       # fetches the card and lists the agent
    accord hub list

    Every option can be set as ACCORD_HUB_..., as in ACCORD_HUB_PORT=9000 and
    ACCORD_HUB_ALLOW_HOST=10.0.0.0/8,10.9.0.1.
    """
    if context.invoked_subcommand is not None:
        return
    from ..hub import Hub, HubSettings
    from ..server.process import serve

    try:
        settings = HubSettings.of(_given(context, options))
        set_up_log(settings.log_level, settings.log_format)
        made = Hub(settings)
        page = None
        if not settings.no_console:
            from ..console import Console, is_built

            if is_built():
                page = Console(made.app, is_hub=True)
                page.attach(made.app)

        def started(address: str) -> None:
            base = settings.url or address
            made.served_at(address)
            echo(style(settings.name, bold=True), f" is served at {base}   (Ctrl-C stops it)")
            echo(f"  agents   {base}/api/v1/agents")
            echo(f"  kept in  {made.db.place}")
            echo(f"  key      {made.local_admin.file} (an admin's: keep it to yourself)")
            if page is not None:
                echo(f"  console  {page.link(base)}   (opens once)")
            elif not settings.no_console:
                say_if_not_built()
            how = f"words, and meaning by {settings.meaning}" if settings.meaning else "words only"
            echo(f"  search   by {how}")
            echo(f"  guests   {_GUESTS[made.people.guests]}")
            here = ", and this machine" if made.is_local else ""
            echo(f"  egress   to public addresses{here}; others by --allow-host")
            echo("\nAdd an agent:  ", style("accord hub add URL", bold=True))

        serve(
            made.app,
            host=settings.host,
            port=settings.port,
            limits=made.app.limits,
            on_start=started,
            tls=made.app.server_tls,
            grace_s=20.0,
        )
    except (TypeError, ValueError, RuntimeError) as error:
        raise click.ClickException(str(error)) from error


def _given(context: click.Context, options: dict[str, Any]) -> dict[str, Any]:
    """The options that were typed: those of the environment count before defaults."""
    return {
        name: str(value) if isinstance(value, Path) else value
        for name, value in options.items()
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT
    }


@hub.command()
@click.argument("url", required=False)
@click.option(
    "--file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file with an address per line, with one agent card, or with an AI Catalog.",
)
@click.option("--name", default="", help="The name of the entry. By default made from the card's.")
@click.option(
    "--visibility",
    type=click.Choice(["public", "team", "private"]),
    default="public",
    show_default=True,
    help="Who finds it.",
)
@click.option("--team", default="", help="The team it is for, with --visibility team.")
@hub_options
def add(
    client: HubClient, url: str | None, file: Path | None, name: str, visibility: str, team: str
) -> None:
    """Add the agent at URL, or those in a file. An admin's entry is listed at once; others wait.

    \b
    accord hub add https://hr.corp.example
    accord hub add --file agents.txt
    accord hub add https://corp.example/.well-known/ai-catalog.json
    """
    if (url is None) == (file is None):
        raise click.UsageError("give the address of an agent, or --file")
    common = {"name": name, "visibility": visibility, "team": team}
    catalog = _catalog_in(url, file)
    if catalog is not None:
        body = catalog | {"visibility": visibility, "team": team}
        return client.show(client.call("POST", "/import/catalog", body), _taken)
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
    if failed:
        raise click.ClickException(f"{failed} of {len(new)} agents were not added")


def _catalog_in(url: str | None, file: Path | None) -> dict[str, Any] | None:
    """The AI Catalog that was named; None if it is something else."""
    if url is not None:
        return {"url": url} if url.partition("?")[0].endswith("ai-catalog.json") else None
    text = (file or Path()).read_text()
    try:
        value = json.loads(text) if text.lstrip().startswith("{") else None
    except ValueError:
        return None
    return {"catalog": value} if isinstance(value, dict) and "entries" in value else None


def _taken(found: dict[str, Any]) -> str:
    lines = [f"{name} is added" for name in found["added"]]
    lines += [f"{name}: not added: {why}" for name, why in found["failed"].items()]
    if found["passed_over"]:
        lines.append(f"{found['passed_over']} entries of other kinds are left out")
    return "\n".join(lines) or "the catalog is empty"


def _agents_in(file: Path) -> list[dict[str, Any]]:
    text = file.read_text()
    if text.lstrip().startswith("{"):
        return [{"card": json.loads(text)}]
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return [{"url": line} for line in lines if line]


def _added(entry: dict[str, Any]) -> str:
    count = len(entry.get("skills", []))
    said = f"{entry['name']} is {entry['state']}: {count} skill{'s' if count != 1 else ''}"
    if entry["state"] == "pending":
        said += f"\nAn admin approves it with:  accord hub approve {entry['name']}"
    for note in entry.get("notes", []):
        said += f"\n  repaired: {note}"
    return said


@hub.command(name="list")
@click.option(
    "--state",
    type=click.Choice(["pending", "approved", "suspended"]),
    help="Only those in this state.",
)
@click.option("--team", help="Only those of this team.")
@hub_options
def list_(client: HubClient, state: str | None, team: str | None) -> None:
    """List the agents you may see."""
    query = {"state": state, "team": team, "limit": "500"}
    found = page = client.call("GET", "/agents", query=query)
    while page["next"]:
        page = client.call("GET", "/agents", query=query | {"cursor": page["next"]})
        found = found | {"agents": found["agents"] + page["agents"], "next": ""}
    rows = [_row(one) for one in found["agents"]]
    if not rows:
        return client.show(found, lambda _: "no agents yet; add one with:  accord hub add URL")
    columns = ("name", "state", "health", "skills", "visible_to", "description")
    client.show_table(found, rows, *columns)
    if any(one.get("waiting") for one in found["agents"]):
        echo("* a changed card waits; see:  accord hub diff NAME", err=True)


def _row(one: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": one["name"],
        "state": one["state"] + (" *" if one.get("waiting") else ""),
        "health": one["health"].get("state", "new"),
        "skills": len(one.get("skills", [])),
        "visible_to": one["team"] if one["visibility"] == "team" else one["visibility"],
        "description": one["description"],
    }


@hub.command()
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


@hub.command()
@click.argument("name")
@hub_options
def remove(client: HubClient, name: str) -> None:
    """Retire an agent, for good. Its credentials are deleted, its name is free."""
    client.call("DELETE", f"/agents/{name}")
    client.show({"name": name, "state": "retired"}, lambda _: f"{name} is retired")


def _interfaces(card: dict[str, Any]) -> str:
    places = (f"{one['protocolBinding']} {one['url']}" for one in card["supportedInterfaces"])
    return "".join(f"interface {place}\n" for place in places)


def _state(entry: dict[str, Any]) -> str:
    version = entry.get("approved", 0)
    return f"{entry['name']} is {entry['state']}, version {version} of its card in use"


@hub.command()
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


@hub.command()
@click.argument("name")
@click.argument("version", default="latest")
@hub_options
def reject(client: HubClient, name: str, version: str) -> None:
    """Refuse a version of a card. An agent that was never approved is retired."""
    client.show(client.call("POST", f"/agents/{name}/cards/{version}:reject"), _state)


def _add_verb(verb: str, said: str) -> None:
    """A verb that has nothing but the name of an agent."""

    @hub.command(name=verb, help=said)
    @click.argument("name")
    @hub_options
    def command(client: HubClient, name: str) -> None:
        client.show(client.call("POST", f"/agents/{name}:{verb}"), _state)


_add_verb("suspend", "Stop calls to an agent until it is resumed.")
_add_verb("resume", "Allow calls to a suspended agent again.")
_add_verb("refresh", "Fetch an agent's card now, and take or hold what has changed.")


@hub.command(name="set")
@click.argument("name")
@click.argument("settings", nargs=-1, metavar="FIELD=VALUE...")
@click.option(
    "--visibility", type=click.Choice(["public", "team", "private"]), help="Who may see it."
)
@click.option("--team", help="The team it is for.")
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
        raise click.UsageError(f"{text}: write a setting as FIELD=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


@hub.command()
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
        lines.append("  no differences")
    return "\n".join(lines)


for one in (*COMMANDS, find, probe, check):
    hub.add_command(one)
