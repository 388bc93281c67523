"""accord task push-config: the webhooks of a task, at its agent."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import click

from ..client import AgentFault, Client
from ..model import (
    A2AError,
    ListPushConfigsResponse,
    PushNotificationNotSupported,
    TaskPushNotificationConfig,
)
from .advice import advised
from .group import VerbGroup
from .show import show_json
from .target import AgentTarget, agent_options, agent_words
from .terminal import echo

__all__ = ["push_config"]


@click.group("push-config", cls=VerbGroup)
def push_config() -> None:
    """Manage the webhooks to which an agent sends what happens to a task.

    \b
    accord task push-config create http://localhost:8000 0192... --webhook https://me.example/hook
    """


@push_config.command()
@click.argument("words", nargs=-1, metavar="URL TASK_ID")
@click.option(
    "--webhook",
    required=True,
    metavar="URL",
    help="The webhook that gets push notifications about the task.",
)
@click.option(
    "--id",
    "config_id",
    default="",
    metavar="ID",
    help="The id of the config. By default a new one.",
)
@click.option(
    "--hook-token",
    default="",
    metavar="TOKEN",
    help="A token that is sent along, for the webhook to check.",
)
@click.option(
    "--auth-scheme",
    default="",
    metavar="SCHEME",
    help="The scheme with which the agent authenticates at the webhook, like Bearer.",
)
@click.option(
    "--auth-credentials", default="", metavar="TEXT", help="The credentials for that scheme."
)
@agent_options
def create(
    target: AgentTarget,
    words: tuple[str, ...],
    webhook: str,
    config_id: str,
    hook_token: str,
    auth_scheme: str,
    auth_credentials: str,
) -> None:
    """Add a webhook to task TASK_ID."""
    task_id = _words(target, words, 1)[0]

    async def work(agent: Client) -> None:
        _show(
            await agent.create_push_config(
                task_id,
                webhook,
                id=config_id,
                token=hook_token,
                scheme=auth_scheme,
                credentials=auth_credentials,
            ),
            target,
        )

    _ask(target, work)


@push_config.command()
@click.argument("words", nargs=-1, metavar="URL TASK_ID CONFIG_ID")
@agent_options
def get(target: AgentTarget, words: tuple[str, ...]) -> None:
    """Show a webhook of task TASK_ID."""
    task_id, config_id = _words(target, words, 2)

    async def work(agent: Client) -> None:
        _show(await agent.get_push_config(task_id, config_id), target)

    _ask(target, work)


@push_config.command("list")
@click.argument("words", nargs=-1, metavar="URL TASK_ID")
@agent_options
def list_(target: AgentTarget, words: tuple[str, ...]) -> None:
    """List the webhooks of task TASK_ID."""
    task_id = _words(target, words, 1)[0]

    async def work(agent: Client) -> None:
        found = list(await agent.list_push_configs(task_id))
        if target.output == "json":
            return show_json(ListPushConfigsResponse(configs=found))
        for one in found:
            _show(one, target)

    _ask(target, work)


@push_config.command()
@click.argument("words", nargs=-1, metavar="URL TASK_ID CONFIG_ID")
@agent_options
def delete(target: AgentTarget, words: tuple[str, ...]) -> None:
    """Remove a webhook of task TASK_ID."""
    task_id, config_id = _words(target, words, 2)

    async def work(agent: Client) -> None:
        await agent.delete_push_config(task_id, config_id)
        if target.output == "json":
            echo("{}")

    _ask(target, work)


def _words(target: AgentTarget, words: tuple[str, ...], count: int) -> list[str]:
    wanted = "URL TASK_ID" if count == 1 else "URL TASK_ID CONFIG_ID"
    rest = agent_words(target, words, count, f"give {wanted}")
    if len(rest) < count:
        raise click.UsageError(f"give {wanted}")
    return rest


def _show(config: TaskPushNotificationConfig, target: AgentTarget) -> None:
    if target.output == "json":
        show_json(config)
    else:  # without its token and credentials
        echo(f"Config: {config.id}\nTask: {config.task_id}\nURL: {config.url}")


def _ask(target: AgentTarget, work: Callable[[Client], Awaitable[Any]]) -> None:
    async def run() -> None:
        async with target.connected() as agent:
            if not agent.card.capabilities.push_notifications:
                raise PushNotificationNotSupported(
                    f"{agent.card.name}: the card says it sends no push notifications"
                )
            await work(agent)

    try:
        asyncio.run(run())
    except (A2AError, AgentFault) as error:
        raise advised(
            error, target.url, binding=target.binding, has_credential=target.has_credential
        ) from error
