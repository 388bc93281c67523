"""docs/notifications.md: its programs do what the page says."""

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

from accord import connect
from accord.model import TaskPushNotificationConfig
from accord.push import PushSettings
from tests.drive import serving_asgi
from tests.processes import free_port, start, until_listening

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "notifications.md").read_text()


def program(name: str, folder: Path, url: str, port: int = 9000) -> Path:
    """Write a program of the page to a file, for an agent at another address, and for a webhook
    at another port.
    """
    text = re.search(rf"```python\n# {name}\n(.*?)```", PAGE, re.DOTALL)
    assert text is not None
    path = folder / name
    path.write_text(text[1].replace("http://localhost:8000", url).replace(":9000", f":{port}"))
    return path


def loaded(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem + "_of_the_page", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def _nothing() -> None:
    """Nothing is to be closed."""


async def test_a_receiver_of_ours(tmp_path: Path, capsys):
    hello = loaded(program("hello.py", tmp_path, "")).agent
    async with hello.app(allow_hosts=["127.0.0.1"]).serving() as url:
        receiver = loaded(program("receive.py", tmp_path, url)).app
        assert receiver.url == "http://127.0.0.1:9000/"
        async with serving_asgi(receiver, _nothing) as hook, connect(url) as client:
            receiver.url = hook
            config = TaskPushNotificationConfig(url=hook, token="k7-ops")
            task = (await client.send("Ada", push=config)).task
    assert capsys.readouterr().out.splitlines() == [
        f"{task.id} {word}" for word in ("submitted", "working", "completed")
    ]


async def test_a_receiver_with_plain_pyjwt(tmp_path: Path):
    """Ten lines, none of them ours, in a process of its own."""
    hello = loaded(program("hello.py", tmp_path, "")).agent
    async with hello.app(allow_hosts=["127.0.0.1"]).serving() as url:
        port = free_port()
        program("plain.py", tmp_path, url, port)
        command = (sys.executable, "-m", "uvicorn", "plain:app", "--port", str(port))
        with start(*command, "--log-level", "warning", cwd=tmp_path) as process:
            async with connect(url) as client:
                await until_listening(port)
                reply = await client.send("Ada", push=f"http://127.0.0.1:{port}/hooks")
                lines = [await process.line() for _ in range(3)]
    assert [line.split(" ", 1)[0] for line in lines] == [reply.task.id] * 3
    assert "TASK_STATE_COMPLETED" in lines[-1]


def test_the_settings_are_those_of_the_code():
    table = PAGE.partition("## Settings")[2]
    assert re.findall(r"^\| `(\w+)`", table, re.MULTILINE) == list(PushSettings.__struct_fields__)


def test_every_command_of_the_page_is_one():
    from accord.cli import main

    for group, verb in re.findall(r"^accord (push) (\w+)", PAGE, re.MULTILINE):
        command = main.get_command(None, group)  # type: ignore[arg-type]
        assert verb in command.commands  # type: ignore[attr-defined,union-attr]
