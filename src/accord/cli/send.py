"""accord send: one message to an agent, and its answer."""

import asyncio

import click
import msgspec

from ..client import AgentFault, Client, connect
from ..client.streams import Stream
from ..model import A2AError, new_id
from .advice import RETRY_MAX_TIME, advised, retry_for, typed
from .amount import SOME_SECONDS
from .login import login_at
from .show import show_reply, show_stream

__all__ = ["send"]


@click.command()
@click.argument("url")
@click.argument("text")
@click.option("--stream", "is_stream", is_flag=True, help="Show the answer while it is produced.")
@click.option("--task-id", default="", help="Continue this task: answer its question.")
@click.option("--context-id", default="", help="Start a new task in this conversation.")
@click.option(
    "--key",
    default="",
    help="Idempotency key: a message sent again with the same key is not processed twice.",
)
@click.option(
    "--timeout", type=SOME_SECONDS, help="Seconds to wait for the answer.  [default: 600]"
)
@click.option("--push", default="", metavar="URL", help="Have what happens sent to this webhook.")
@RETRY_MAX_TIME
def send(
    url: str,
    text: str,
    is_stream: bool,
    task_id: str,
    context_id: str,
    key: str,
    timeout: float | None,
    push: str,
    retry_max_time: float | None,
) -> None:
    """Send TEXT to the agent at URL and print what it answers.

    \b
    accord send http://localhost:8000 "A weekend in Rome"
    accord send http://localhost:8000 3 --task-id 0192... --stream
    """
    sending = _Sending(url, text, is_stream, task_id, context_id, key, timeout, push)
    try:
        asyncio.run(sending.send(retry_max_time))
    except (A2AError, AgentFault) as error:
        raise advised(error, url, sending.again) from error
    except KeyboardInterrupt:
        click.secho(
            f"\nno longer waiting; the agent goes on with its task\n{sending.later}".rstrip(),
            err=True,
        )
        raise click.exceptions.Exit(130) from None


class _Sending(msgspec.Struct):
    """What was typed, and what is known of it by now."""

    url: str
    text: str
    is_stream: bool
    task_id: str
    context_id: str
    key: str
    timeout_s: float | None
    push: str = ""
    stream: Stream | None = None

    async def send(self, max_time_s: float | None) -> None:
        async with connect(self.url, auth=login_at(self.url), retry=retry_for(max_time_s)) as agent:
            if not self.key and agent.deduplicates:
                self.key = new_id()  # so that what is typed again is the same message
            if self.is_stream:
                await self._read(agent)
            else:
                reply = await agent.send(
                    self.text,
                    task_id=self.task_id,
                    context_id=self.context_id,
                    key=self.key,
                    timeout_s=self.timeout_s,
                    push=self.push or None,
                )
                show_reply(reply, self.url)

    async def _read(self, agent: Client) -> None:
        self.stream = agent.stream(
            self.text,
            task_id=self.task_id,
            context_id=self.context_id,
            key=self.key,
            timeout_s=self.timeout_s,
            push=self.push or None,
        )
        has_written = await show_stream(self.stream)
        show_reply(self.stream.reply, self.url, is_shown=has_written)

    @property
    def again(self) -> str:
        """What to type to be told the answer, without having the work done twice; empty if the
        agent can't tell.
        """
        if not self.key:
            return ""
        named = {"--task-id": self.task_id, "--context-id": self.context_id, "--key": self.key}
        options = [word for name, value in named.items() if value for word in (name, value)]
        return typed(
            "send", self.url, self.text, *options, *(["--stream"] if self.is_stream else [])
        )

    @property
    def later(self) -> str:
        """What to type to see how it went."""
        task_id = self.stream.task_id if self.stream is not None else self.task_id
        look = typed("task", "get", self.url, task_id, "--wait") if task_id else self.again
        return f"ask for it with:  {look}" if look else ""
