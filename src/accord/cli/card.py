"""accord card: what an agent says of itself."""

import asyncio

import click
import msgspec
from rich.console import Console
from rich.table import Table

from ..client import connect
from ..client.errors import AgentFault
from ..codec import v1
from ..model import A2AError, AgentCard

__all__ = ["card"]


@click.group()
def card() -> None:
    """Look at agent cards."""


@card.command("get")
@click.argument("url")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def get(url: str, output: str) -> None:
    """Fetch the card of the agent at URL.

    \b
    accord card get http://localhost:8000
    accord card get http://localhost:8000 -o json
    """
    try:
        found = asyncio.run(_fetch(url))
    except (A2AError, AgentFault) as error:
        raise click.ClickException(str(error)) from error
    if output == "json":
        click.echo(msgspec.json.format(v1.encode(found), indent=2))
    else:
        _show(found)


async def _fetch(url: str) -> AgentCard:
    async with connect(url) as agent:
        return agent.card


def _show(found: AgentCard) -> None:
    out = Console(highlight=False)
    out.print(f"[bold]{found.name}[/bold] {found.version}\n{found.description}\n")
    skills = Table("skill", "what it does", "tags", box=None, pad_edge=False)
    for skill in found.skills:
        skills.add_row(skill.id, skill.description, ", ".join(skill.tags))
    out.print(skills)
    out.print()
    for interface in found.supported_interfaces:
        out.print(f"{interface.protocol_binding:<10} {interface.protocol_version:<4} {interface.url}")
    capabilities = found.capabilities
    on = [name for name in ("streaming", "push_notifications", "extended_agent_card") if getattr(capabilities, name)]
    out.print(f"\ncan: {', '.join(on).replace('_', ' ') or 'answer only'}")
