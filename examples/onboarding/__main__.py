"""The onboarding case, end to end: `python -m examples.onboarding`.

A hub, three departments behind it, and OnboardingPro, which knows the hub's address alone; a hiring
manager who onboards a colleague and answers what is asked.
"""

import asyncio
import contextlib
import sys
import tempfile

import click

from accord import connect
from accord.hub import Hub, HubSettings, RestClient
from accord.model import StatusUpdate

from . import facilities, hr, it
from .onboarding import onboarding_agent

ANSWERS = {"When does": "2026-12-01", "Which laptop": "16"}


async def main(name: str) -> None:
    async with contextlib.AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        hub = Hub(HubSettings(store=f"sqlite:///{folder}/hub.db", folder=folder))
        url = await stack.enter_async_context(hub.app.serving())
        office = hr.agent.app(beside=[it.agent, facilities.agent, onboarding_agent(hub=url)])
        place = await stack.enter_async_context(office.serving())
        for path in office.agents:
            await RestClient(url, hub.admin_key).call("POST", "/agents", {"url": f"{place}/{path}"})
        async with connect(f"{url}/agents/onboardingpro") as pro:
            click.secho(f"{pro.card.name} at {pro.url}", bold=True)
            await onboard(pro, {"name": name, "role": "Engineer"})


async def onboard(pro, order) -> None:
    message, task_id = order, ""
    while True:
        stream = pro.stream(message, task_id=task_id)
        async for event in stream:
            if isinstance(event, StatusUpdate) and event.status.message:
                click.echo(f"  {event.status.message.text}")
        reply = stream.reply
        if not reply.question:
            break
        task_id, message = (
            reply.task_id,
            next(a for q, a in ANSWERS.items() if reply.question.startswith(q)),
        )
        click.secho(f"> {message}", fg="cyan")
    click.secho("What came of it", bold=True)
    for artifact in reply.task.artifacts:
        files = [
            f"{p.filename}, {len(p.raw):,} bytes"
            for p in artifact.parts
            if isinstance(p.raw, bytes)
        ]
        data = [str(p.data) for p in artifact.parts if isinstance(p.data, dict)]
        name = click.style(artifact.name or "result", bold=True)
        click.echo(f"  {name}  {artifact.text.strip() or ' '.join(files + data)}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "Ada Lovelace"))
