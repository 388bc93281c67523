"""accord push and accord listen, typed."""

import asyncio
import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from accord import Agent, connect
from accord.cli import main
from accord.model import AuthenticationInfo, TaskPushNotificationConfig
from accord.push import PushSettings
from tests.processes import start, until
from tests.push.webhook import webhook


def helper() -> Agent:
    agent = Agent("Helper")

    @agent.skill
    async def echo(request: str):
        return request

    return agent


def typed(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, list(words))
    return done.exit_code, done.output


async def _refused(store: str, status: int) -> str:
    """Have a webhook refuse the second event of a task; return the id of the task."""
    settings = PushSettings(schedule_s=(0.0, 0.01), breaker_s=0.0)
    app = helper().app(store=store, allow_hosts=["127.0.0.1"], push=settings)
    async with webhook() as hook, app.serving() as url, connect(url) as client:
        hook.answers += [200, status]
        reply = await client.send("hi", push=hook.url)
        await hook.until(lambda calls: len(calls) >= (3 if status != 410 else 2))
        return str(reply.task.id)


def test_dead_letters_are_listed_shown_and_replayed(tmp_path: Path):
    store = f"sqlite:///{tmp_path / 'a.db'}"
    task_id = asyncio.run(_refused(store, 422))
    code, listed = typed("push", "list", "--store", store)
    assert code == 0
    assert task_id in listed
    assert "1 webhook, 1 dead letter" in listed
    code, shown = typed("push", "show", task_id, "--store", store)
    assert "event 2" in shown
    assert "422" in shown
    letter = shown.partition("dead letter ")[2].partition(":")[0]
    code, replayed = typed("push", "replay", letter, "--store", store, "-o", "json")
    assert (code, json.loads(replayed)) == (0, {"replayed": 1})
    assert "to be sent" in typed("push", "list", "--store", store)[1]
    assert typed("push", "replay", letter, "--store", store)[0] == 1
    assert typed("push", "replay", "--store", store)[0] == 2

    async def again() -> list[str]:
        app = helper().app(store=store, allow_hosts=["127.0.0.1"])
        async with webhook() as hook, app.serving() as url, connect(url) as client:
            await client.create_push_config(task_id, hook.url, id=_config(listed, task_id))
            return [call.kind for call in await hook.ended()]

    assert asyncio.run(again()) == ["working", "completed"]


def _config(listed: str, task_id: str) -> str:
    [line] = [line for line in listed.splitlines() if line.startswith(task_id)]
    return line.split()[1]


def test_a_disabled_webhook_is_troubled(tmp_path: Path):
    store = f"sqlite:///{tmp_path / 'a.db'}"
    task_id = asyncio.run(_refused(store, 410))
    assert "disabled: 410 Gone" in typed("push", "list", "--troubled", "--store", store)[1]
    assert "dead letter 1: event" in typed("push", "show", task_id, "--store", store)[1]
    assert typed("push", "show", "nobody", "--store", store)[0] == 1
    assert typed("push", "replay", "--task-id", task_id, "--store", store)[0] == 0
    assert "disabled" not in typed("push", "list", "--store", store)[1]


def test_there_is_nothing_without_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert typed("push", "list")[0] == 2
    assert typed("push", "list", "--store", "memory://")[0] == 1


async def test_a_webhook_is_tested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    async with webhook() as hook:
        options = (
            "--allow-host",
            "127.0.0.1",
            "--hook-token",
            "k",
            "--auth-scheme",
            "Basic",
            "--auth-credentials",
            "abc",
        )
        code, said = await asyncio.to_thread(typed, "push", "test", hook.url, *options)
        assert (code, "taken" in said) == (0, True)
        [call] = hook.calls
        assert call.headers["x-a2a-notification-token"] == "k"
        assert call.headers["authorization"] == "Basic abc"
        assert call.headers["x-a2a-signature"]
        hook.answers.append(500)
        code, said = await asyncio.to_thread(typed, "push", "test", hook.url, *options)
        assert (code, "500" in said) == (1, True)
    code, said = await asyncio.to_thread(typed, "push", "test", "https://localhost/")
    assert (code, "allow it with --allow-host localhost" in said) == (1, True)


async def test_listen_prints_what_comes():
    """PUSH_002: a process of its own; it takes only what the agent has signed for the address it
    listens at, and stops on Ctrl-C.
    """
    import signal

    app = helper().app(allow_hosts=["127.0.0.1"])
    async with app.serving() as url, connect(url) as client:
        command = (sys.executable, "-m", "accord", "listen", "--port", "0", "--signed-by", url)
        with start(*command, "-o", "json", "--auth-credentials", "c3cret") as listener:
            ready = await until(listener.err.take_line, "the address it listens at")
            hook = ready.decode().split()[2] + "/"
            shown = AuthenticationInfo(scheme="Bearer", credentials="c3cret")
            for config, why in (
                (TaskPushNotificationConfig(url=hook), b"the credentials are not those"),
                (
                    TaskPushNotificationConfig(url=hook + "elsewhere", authentication=shown),
                    b"another webhook",
                ),
            ):
                await client.send("no", push=config)
                while why not in await until(listener.err.take_line, "the refusal"):
                    pass  # of another event of the same task
            config = TaskPushNotificationConfig(url=hook, authentication=shown)
            reply = await client.send("hi", push=config)
            lines = [json.loads(await listener.line()) for _ in range(3)]
            assert await listener.stop(signal.SIGINT) == 0
    assert {line["taskId"] for line in lines} == {reply.task.id}
    assert [next(iter(line["event"])) for line in lines]


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [("--secret", "whsec_!", "base64"), ("--signed-by", "nonsense", "can't read the keys")],
)
def test_what_listen_cant_use_is_said_in_a_line(option: str, value: str, words: str):
    done = CliRunner().invoke(main, ["listen", option, value])
    assert done.exit_code == 1
    assert done.output.startswith("Error: ")
    assert words in done.output
