"""accord hub find, probe and check: what there is, and how it is."""

from typing import Any

import click

from ..terminal import clean
from .client import HubClient, hub_options

__all__ = ["COMMANDS"]


@click.command()
@click.argument("text", required=False, default="")
@click.option("--skill", metavar="ID", help="Only this skill, by its id.")
@click.option("--tag", help="Only skills with this tag.")
@click.option("--capability", help="streaming, pushNotifications, or an extension's URI.")
@click.option("--takes", metavar="TYPE", help="Only skills that accept this media type.")
@click.option("--gives", metavar="TYPE", help="Only skills that return this media type.")
@click.option(
    "--speaks", "version", metavar="VERSION", help="Only agents that speak this version of A2A."
)
@click.option("--binding", help="Only agents with this binding.")
@click.option(
    "--health", "state", help="Only agents whose health is one of these, like up,degraded."
)
@click.option(
    "--min-score",
    type=click.IntRange(0, 100),
    help="Only agents with at least this conformance score.",
)
@click.option("--team", metavar="NAME", help="Only agents of this team.")
@click.option(
    "--language", type=click.Choice(["en", "zh"]), help="Only skills described in this language."
)
@click.option(
    "--limit",
    type=click.IntRange(1, 100),
    default=10,
    show_default=True,
    help="The highest number of results.",
)
@hub_options
def find(client: HubClient, text: str, limit: int, **filters: Any) -> None:
    """Find agents by what they should do.

    \b
    accord hub find "order a laptop for a colleague"
    accord hub find --tag payroll --health up
    """
    query = {name: str(value) for name, value in filters.items() if value is not None}
    found = client.call("GET", "/search", query={"text": text, "limit": str(limit), **query})
    client.show(found, _found)


def _found(found: dict[str, Any]) -> str:
    agents = found["untrusted"]
    if not agents:
        return "no agent fits"
    lines = []
    for one in agents:
        beside = "" if one["callable"] else ", may not be called"
        lines.append(f"{one['agent']:<24} {one['score']:>3}  {one['health']}{beside}")
        for skill in one["skills"]:
            said = " ".join(clean(skill["description"]).split())[:80]
            lines.append(f"    {clean(skill['id']):<20} {skill['score']:>3}  {said}")
    return "\n".join(lines)


@click.command()
@click.argument("name")
@click.option("--send-message", is_flag=True, help="Send the agent a real message too.")
@hub_options
def probe(client: HubClient, name: str, send_message: bool) -> None:
    """Check now whether an agent can be reached. It does no work, unless you add --send-message."""
    query = {"message": "1"} if send_message else {}
    entry = client.call("POST", f"/agents/{name}:probe", query=query)
    client.show(entry, _health)


def _health(entry: dict[str, Any]) -> str:
    health = entry["health"]
    said = f"{entry['name']} is {health['state']}"
    if health.get("sentence"):
        said += f"\n{clean(health['sentence'])}"
    for one in health.get("detail", {}).get("interfaces", []):
        said += f"\n  {one['category']:<13} {clean(one['interface'])}   {one['ms']} ms"
    return said


@click.command()
@click.argument("name")
@hub_options
def check(client: HubClient, name: str) -> None:
    """Check now how well an agent keeps to the protocol. It is sent a message per interface."""
    client.show(client.call("POST", f"/agents/{name}:check"), _checked)


def _checked(report: dict[str, Any]) -> str:
    lines = []
    for result in report["results"]:
        if result["status"] == "fail":
            lines.append(f"FAIL {result['id']} {clean(result['interface'])}")
            lines.append(f"     {clean(result['reason'])}\n     {clean(result['fix'])}")
    counts = report["counts"]
    said = f"{counts['pass']} ok, {counts['fail']} failed, {counts['skip']} not applicable"
    return "\n".join([*lines, f"Score: {report['score']} of 100   ({said})"])


COMMANDS: tuple[click.Command, ...] = (find, probe, check)
