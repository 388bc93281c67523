"""accord card: what an agent says of itself."""

import asyncio

import click
import msgspec

from ..client import NO_RETRY, AgentFault, connect
from ..model import A2AError, AgentCard
from ..protocol.v1 import codec as v1
from .advice import advised

__all__ = ["card"]


@click.group()
def card() -> None:
    """Look at agent cards."""


@card.command("get")
@click.argument("url")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="For people, or for programs.",
)
def get(url: str, output: str) -> None:
    """Fetch the card of the agent at URL.

    \b
    accord card get http://localhost:8000
    accord card get http://localhost:8000 -o json
    """
    try:
        found = asyncio.run(_fetch(url))
    except (A2AError, AgentFault) as error:
        raise advised(error) from error
    if output == "json":
        click.echo(msgspec.json.format(v1.encode(found), indent=2))
    else:
        _show(found)


async def _fetch(url: str) -> AgentCard:
    async with connect(url, retry=NO_RETRY) as agent:
        return agent.card


def _show(found: AgentCard) -> None:
    click.echo(f"{click.style(found.name, bold=True)} {found.version}\n{found.description}\n")
    width = max(len(skill.id) for skill in found.skills) if found.skills else 0
    for skill in found.skills:
        click.echo(
            f"  {skill.id:<{width}}   {skill.description}   {click.style(', '.join(skill.tags), dim=True)}"  # noqa: E501
        )
    click.echo()
    for interface in found.supported_interfaces:
        click.echo(
            f"  {interface.protocol_binding:<10} {interface.protocol_version:<4} {interface.url}"
        )
    capabilities = found.capabilities
    on = [
        name
        for name in ("streaming", "push_notifications", "extended_agent_card")
        if getattr(capabilities, name)
    ]
    click.echo(f"\ncan: {', '.join(on).replace('_', ' ') or 'answer only'}")
