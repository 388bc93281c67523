"""accord hub, the verbs of its admins: credentials, keys, rules, trust, networks, and the logs."""

import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from ..amount import EXPIRES
from ..group import VerbGroup
from ..table import minute
from ..terminal import echo
from .client import HubClient, hub_options
from .files import read_file

__all__ = ["COMMANDS"]


@click.group(cls=VerbGroup)
def credential() -> None:
    """Manage the credentials that the hub sends to agents. They are stored encrypted."""


@credential.command(name="set")
@click.argument("name")
@click.argument("scheme")
@click.option(
    "--kind",
    type=click.Choice(["api_key", "basic", "bearer", "client_credentials"]),
    default="api_key",
    help="How to send the secret to the agent.",
    show_default=True,
)
@click.option(
    "--user",
    default="",
    metavar="NAME",
    help="The user name for a password, or the id of an OAuth client.",
)
@click.option(
    "--issuer",
    default="",
    metavar="URL",
    help="The authorization server where an OAuth client gets its tokens.",
)
@click.option("--mine", is_flag=True, help="Your own credential, for your own calls only.")
@hub_options
def set_credential(
    client: HubClient, name: str, scheme: str, kind: str, user: str, issuer: str, mine: bool
) -> None:
    """Give the credential for SCHEME of an agent's card. The secret is read from stdin, or asked.

    \b
    accord hub credential set hr apiKey < secret.txt
    """
    typed = sys.stdin
    secret: str = (
        click.prompt("Secret", hide_input=True, err=True)
        if typed.isatty()
        else typed.read().strip()
    )
    body = {"kind": kind, "secret": secret, "user": user, "issuer": issuer}
    client.call("PUT", f"/agents/{name}/{_whose(mine)}/{scheme}", body)
    said = f"{name}: {scheme} is set"
    client.show({"agent": name, "scheme": scheme, "kind": kind}, lambda _: said)


def _days(ms: int | None) -> float | None:
    return None if ms is None else ms / 86_400_000


def _whose(mine: bool) -> str:
    return "my-credentials" if mine else "credentials"


@credential.command(name="list")
@click.argument("name")
@click.option("--mine", is_flag=True, help="Your own credential, not the hub's.")
@hub_options
def list_credentials(client: HubClient, name: str, mine: bool) -> None:
    """List the credentials there are for an agent."""
    found = client.call("GET", f"/agents/{name}/{_whose(mine)}")
    client.show_table(found, found["credentials"], "scheme", "kind", "owner")


@credential.command(name="remove")
@click.argument("name")
@click.argument("scheme")
@click.option("--mine", is_flag=True, help="Your own credential, not the hub's.")
@hub_options
def remove_credential(client: HubClient, name: str, scheme: str, mine: bool) -> None:
    """Remove the credential for SCHEME."""
    client.call("DELETE", f"/agents/{name}/{_whose(mine)}/{scheme}")
    client.show({"removed": scheme}, lambda _: f"{name}: {scheme} is removed")


def _add_list(group: click.Group, path: str, said: str, *columns: str) -> None:
    """`list` of what a path has."""

    @group.command(name="list", help=said)
    @hub_options
    def command(client: HubClient) -> None:
        found = client.call("GET", path)
        rows = found[path[1:].replace("-", "_")]
        # A limit of 0 is none: "0" would say that no call is allowed.
        shown = [one | {"limit": one.get("limit") or None} for one in rows]
        client.show_table(found, shown, *columns)


def _add_remove(group: click.Group, path: str, said: str, then: str, verb: str = "remove") -> None:
    """`remove` of one thing below a path."""

    @group.command(name=verb, help=said)
    @click.argument("id")
    @hub_options
    def command(client: HubClient, id: str) -> None:
        client.call("DELETE", f"{path}/{quote(id, safe='')}")
        client.show({f"{verb.removesuffix('e')}ed": id}, lambda _: then.format(id))


_ROLES = click.Choice(["admin", "publisher", "user", "guest"])
_ROLE = click.option(
    "--role",
    type=_ROLES,
    required=True,
    help="The role: publisher adds agents, user finds and calls them, admin decides everything.",
)


@click.group(cls=VerbGroup)
def key() -> None:
    """Manage the keys of people and programs that use the hub."""


@key.command(name="new")
@click.argument("name")
@_ROLE
@click.option(
    "--team", "teams", multiple=True, metavar="NAME", help="A team it belongs to. May be repeated."
)
@click.option(
    "--expires",
    type=EXPIRES,
    metavar="DURATION",
    help="How long it is valid, like 90d. Without it, for ever.",
)
@hub_options
def new_key(
    client: HubClient, name: str, role: str, teams: tuple[str, ...], expires: int | None
) -> None:
    """Make a key for NAME and print it, once: only its hash is stored."""
    body = {"name": name, "role": role, "teams": list(teams), "expires_days": _days(expires)}
    made = client.call("POST", "/keys", body)
    echo(f"key {made['id']} of {name}; it is shown only now:", err=True)
    client.show(made, lambda _: str(made["key"]))


@key.command(name="list")
@hub_options
def list_keys(client: HubClient) -> None:
    """List keys: whose they are and what they allow."""
    found = client.call("GET", "/keys")
    living = [one for one in found["keys"] if not one["revoked_ms"]]
    client.show_table(found, living, "id", "name", "role", "teams")


_add_remove(key, "/keys", "Revoke a key.", "key {} is revoked", "revoke")


@click.group(cls=VerbGroup)
def user() -> None:
    """Set roles and teams of people who log in or have tokens, where the claims do not."""


@user.command(name="set")
@click.argument("name")
@_ROLE
@click.option(
    "--team",
    "teams",
    multiple=True,
    metavar="NAME",
    help="A team they belong to. May be repeated.",
)
@hub_options
def set_user(client: HubClient, name: str, role: str, teams: tuple[str, ...]) -> None:
    """Set the role and teams of NAME: the `sub` of their tokens, or their identity in the audit."""
    body = {"role": role, "teams": list(teams)}
    made = client.call("PUT", f"/users/{quote(name, safe='')}", body)
    client.show(made, lambda _: f"{name} is {role}")


_add_list(user, "/users", "List people whose role was set.", "name", "role", "teams")
_add_remove(
    user,
    "/users",
    "Remove the role that was given to NAME by hand. Claims decide from then on.",
    "what was set of {} is removed",
)


@click.group(cls=VerbGroup)
def team() -> None:
    """Manage teams. Their members find the agents that are for the team."""


@team.command(name="add")
@click.argument("name")
@click.option("--description", default="", help="What the team is for.")
@hub_options
def add_team(client: HubClient, name: str, description: str) -> None:
    """Make a team."""
    body = {"name": name, "description": description}
    client.show(client.call("POST", "/teams", body), lambda _: f"team {name} is added")


_add_list(team, "/teams", "List the teams.", "name", "description")
_add_remove(team, "/teams", "Remove a team.", "team {} is removed")


@click.group(cls=VerbGroup)
def policy() -> None:
    """Manage rules: who may see and call which agents and skills."""


@policy.command(name="add")
@click.argument("effect", type=click.Choice(["allow", "deny"]))
@click.argument("who")
@click.argument("may", type=click.Choice(["see", "call"]))
@click.argument("what")
@click.option(
    "--calls-per-minute",
    "limit",
    type=int,
    default=0,
    metavar="N",
    help="How many calls each caller may make per minute. Default: no limit.",
)
@hub_options
def add_rule(client: HubClient, effect: str, who: str, may: str, what: str, limit: int) -> None:
    """Add a rule. `deny` wins over `allow`.

    \b
    WHO   anyone, signed-in, user:NAME, team:NAME, role:NAME, key:NAME, claim:NAME=VALUE;
          with ! in front everyone else
    WHAT  *, agent:NAME, skill:AGENT/SKILL, tag:TAG; with * and ? in them

    \b
    accord hub policy add deny '!team:hr' call 'skill:hr/*'
    """
    body = {"effect": effect, "who": who, "may": may, "what": what, "limit": limit}
    made = client.call("POST", "/policies", body)
    note = f"\n{made['note']}" if made.get("note") else ""
    client.show(made, lambda _: f"rule {made['id']} is added{note}")


_add_list(policy, "/policies", "List the rules.", "id", "effect", "who", "may", "what", "limit")
_add_remove(policy, "/policies", "Remove a rule.", "rule {} is removed")


@policy.command(name="try")
@click.argument("agent")
@click.option(
    "--skill",
    default="",
    metavar="ID",
    help="The skill to ask about, by its id. Without it, the agent as a whole.",
)
@click.option(
    "--may",
    type=click.Choice(["see", "call"]),
    default="call",
    show_default=True,
    help="The action to ask about.",
)
@click.option(
    "--caller",
    "name",
    default="",
    metavar="NAME",
    help="The caller to ask about. Without it, a guest.",
)
@click.option(
    "--role",
    type=_ROLES,
    default="user",
    help="The role of that caller.",
)
@click.option(
    "--team", "teams", multiple=True, metavar="NAME", help="A team of that caller. May be repeated."
)
@hub_options
def try_rules(
    client: HubClient,
    agent: str,
    skill: str,
    may: str,
    name: str,
    role: str,
    teams: tuple[str, ...],
) -> None:
    """Show what a caller may do, and which rule decides."""
    asked = {"agent": agent, "skill": skill, "may": may, "name": name, "role": role}
    found = client.call("POST", "/policies:try", asked | {"teams": list(teams)})
    note = f" ({found['note']})" if found.get("note") else ""
    client.show(found, lambda _: f"{found['effect']}: {found['reason']}{note}")


@click.group(cls=VerbGroup)
def trust() -> None:
    """Manage the keys whose signatures on cards are trusted."""


@trust.command(name="add")
@click.argument("name")
@click.argument("source", metavar="URL|FILE")
@click.option(
    "--expires",
    type=EXPIRES,
    metavar="DURATION",
    help="How long it is valid, like 90d. Without it, for ever.",
)
@hub_options
def add_trust(client: HubClient, name: str, source: str, expires: int | None) -> None:
    """Trust the keys at a URL (a JWK set), or in a FILE: a JWK, a JWK set, or a public PEM key."""
    body: dict[str, Any] = {"name": name, "expires_days": _days(expires)}
    if source.startswith(("http://", "https://")):
        body["url"] = source
    else:
        found = read_file(Path(source))
        body["jwk" if isinstance(found, dict) else "pem"] = found
    made = client.call("POST", "/trusted-keys", body)
    client.show(made, lambda _: f"{name} is trusted (id {made['id']})")


_add_list(trust, "/trusted-keys", "List the keys that are trusted.", "id", "name", "url")
_add_remove(trust, "/trusted-keys", "Trust a key no more.", "key {} is not trusted any more")


@click.group(cls=VerbGroup)
def network() -> None:
    """Manage the private networks and hosts where agents may be."""


@network.command(name="add")
@click.argument("what")
@click.option("--why", default="", help="A note for whoever reads the list later.")
@hub_options
def add_network(client: HubClient, what: str, why: str) -> None:
    """Allow a private network or host, like 10.20.0.0/16 or *.corp.example."""
    client.show(
        client.call("POST", "/networks", {"what": what, "why": why}), lambda _: f"{what} is allowed"
    )


_add_list(network, "/networks", "List what is allowed.", "what", "why")


@network.command(name="remove")
@click.argument("what")
@hub_options
def remove_network(client: HubClient, what: str) -> None:
    """Stop allowing a private network or host."""
    client.call("DELETE", "/networks", query={"what": what})
    client.show({"removed": what}, lambda _: f"{what} is not allowed any more")


@click.command()
@click.option("--dismiss", metavar="ID", default="", help="Close this alert.")
@hub_options
def inbox(client: HubClient, dismiss: str) -> None:
    """List what waits for a person, and what has happened."""
    if dismiss:
        client.call("POST", f"/inbox/{quote(dismiss, safe='')}:dismiss")
        return client.show({"dismissed": dismiss}, lambda _: f"alert {dismiss} is closed")
    found = client.call("GET", "/inbox")
    client.show_table(found, found["alerts"], "id", "kind", "agent", "said")


@click.command()
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    help="The highest number of results.",
)
@click.option("--verify", is_flag=True, help="Check that no entry was changed or removed.")
@hub_options
def audit(client: HubClient, limit: int, verify: bool) -> None:
    """List who did what, the newest first."""
    if verify:
        found: dict[str, Any] = {"done": False, "upto": 0}
        while not found["done"]:  # piece by piece, however long the log is
            query = {"after": str(found["upto"])}
            found = client.call("GET", "/audit:verify", query=query)
        client.show(found, lambda _: "the log is whole" if found["whole"] else found["trouble"])
        if not found["whole"]:
            raise SystemExit(1)
        return
    rows: list[dict[str, Any]] = []
    before = 0
    while len(rows) < limit:  # the hub gives a page at a time
        query = {"limit": str(limit - len(rows)), "before": str(before or "")}
        page = client.call("GET", "/audit", query=query)
        rows += page["rows"]
        before = page.get("next", 0)
        if not before or not page["rows"]:
            break
    shown = [one | {"when": minute(one.get("at_ms", 0))} for one in rows]
    columns = ("n", "when", "who", "did", "what", "detail")
    client.show_table({"rows": rows, "next": before}, shown, *columns)


@click.command()
@hub_options
def rekey(client: HubClient) -> None:
    """Encrypt all credentials with the newest key, after `accord keyring rotate`."""
    found = client.call("POST", "/credentials:rekey")
    client.show(found, lambda _: f"sealed anew: {found['sealed']}")


COMMANDS: tuple[click.Command, ...] = (
    *(credential, key, user, team, policy, trust, network),
    *(inbox, audit, rekey),
)
