"""Logs, and the task after each of their entries: what the page's fold is compared with.

`python -m tests.console.golden` writes them anew.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec

from accord import connect
from accord.model import Fold, Limits, Message, Task
from accord.model.extensions import FILES
from accord.protocol.v1 import codec as v1

FILE = Path(__file__).parents[2] / "console" / "tests" / "golden.json"


def folded(entries: list[dict[str, Any]]) -> list[Any]:
    """The task after each entry, by the server's own fold."""
    fold: Fold | None = None
    tasks = []
    for entry in entries:
        if "event" in entry:
            event = v1.decode_event(json.dumps(entry["event"]).encode())
            if isinstance(event, Task):
                fold = Fold(event)
            else:
                assert fold is not None
                assert not isinstance(event, Message)
                fold.apply(event, Limits())
        elif "message" in entry:
            assert fold is not None
            fold.draft.add(msgspec.convert(entry["message"], Message), Limits())
        assert fold is not None
        tasks.append(json.loads(v1.encode(fold.joined())))
    return tasks


async def logs() -> list[list[dict[str, Any]]]:
    """What the console gives of some tasks."""
    from tests.console.test_server import opened, read

    found = []
    async with opened() as (client, _, url):
        async with connect(url) as planner:
            reply = await planner.send("A weekend in Rome", skill="plan")
            ids = [(await reply.answer("3")).task_id]
            more = [("go", "steps"), ("# Title", "show"), ("7", "approve"), ("5", "slow")]
            for text, skill in more:
                ids.append((await planner.send(text, skill=skill)).task_id)
        for task_id in ids:
            _, log = await read(client, f"tasks/{task_id}/events")
            found.append(log["events"])
    return [*found, growing_file()]


def growing_file() -> list[dict[str, Any]]:
    """A file that comes in pieces: bytes, then an address, then bytes again."""
    task = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
    pieces: list[dict[str, Any]] = [
        {"raw": "YWI=", "filename": "report.csv", "mediaType": "text/csv"},
        {"raw": "Y2Q=", "metadata": {FILES: {"offset": 2}}},
        {"url": "http://127.0.0.1/files/x?sig=1&range=4-8", "metadata": {FILES: {"offset": 4}}},
        {"raw": "ZWY=", "metadata": {FILES: {"offset": 9}}},
    ]
    events = [{"task": task}] + [
        {
            "artifactUpdate": {
                "taskId": "t",
                "contextId": "c",
                "artifact": {"artifactId": "a", "parts": [piece]},
                "append": n > 0,
            }
        }
        for n, piece in enumerate(pieces)
    ]
    return [
        {"pos": n, "seq": n, "at": 1794897732013, "event": event}
        for n, event in enumerate(events, 1)
    ]


def main() -> None:
    cases = [{"entries": log, "tasks": folded(log)} for log in asyncio.run(logs())]
    FILE.write_text(json.dumps(cases, indent=1) + "\n")


if __name__ == "__main__":
    main()
