"""Make `versions.md` from the operations table, and from what a served agent answers: `python
docs/versions.py`.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from accord import Agent, connect
from accord.auth import ApiKeys
from accord.client import ApiKey
from accord.model import A2AError, MethodNotFound, UnsupportedOperation, VersionNotSupported
from accord.operations.table import OPERATIONS, PREVIEWS, VERSIONS, Version
from accord.protocol import SPOKEN

HEAD = """# Versions

An Accord agent answers every version of A2A at the same address. A client of an old version works without changes. Inside there
is one model, that of 1.0. Another version is a folder in `accord/protocol`, a row in `accord/operations/table.py` for the server and one in
`accord/protocol/spoken.py` for the client. This page is generated from these tables. If you delete all three, the version is gone.

- **1.1** is not released. It is a preview: 1.0, and generations. `--preview 1.1` and `previews=["1.1"]` turn it on
  ([generations](guides/generations.md)). It shares all its names with 1.0: the `A2A-Version` header, or the metadata of gRPC, decides.
- **1.0**: JSON-RPC, HTTP+JSON (with or without a tenant in the path), gRPC.
- **0.3 and 0.2** are served as one, because a request does not show which of the two it is. HTTP+JSON is below `/v1`. Its bodies
  are protobuf's JSON. Some clients send two other variants, and each client gets answers in its own variant.
- **0.1** has JSON-RPC only. Its clients choose the ids of their tasks, and may send messages to a task that has ended.

A task belongs to no version: you can read, continue, stream and cancel it in any of them. `tasks/get`, `tasks/cancel` and
`tasks/resubscribe` exist in 0.1 and in 0.3. They answer in the version that the `A2A-Version` header names, or else in the version
the task was created with. If a version can't express a value, the task keeps it. Where the version has metadata, the value is there,
under `a2a_compat`.

`Agent.app(versions=["1.0"])` limits the versions; the card is then a pure 1.0 card. By default the card contains what clients of
all versions need, at `/.well-known/agent-card.json` and `/.well-known/agent.json`. A client that sends `A2A-Version: 1.0` gets the pure 1.0 card.

## How a version is chosen

| Request | Version |
|---|---|
| a JSON-RPC method only one version has | that version, whatever the header says |
| a method of 0.1 and 0.3 | the version in the header, else the one the task was created with |
| a path below `/v1/` | 0.3; with `A2A-Version: 1.0`, 1.0 with the tenant `v1` |
| other paths | 1.0; with `A2A-Version: 0.3`, 0.3 |
| a gRPC service | its package: `lf.a2a.v1` is 1.0, `a2a.v1` is 0.3 |
| `A2A-Version: 1.1`, with the preview | 1.1, under every name of 1.0 |
| `A2A-Version` with a number not served | VersionNotSupported |

## Where versions differ in meaning

| | 1.0 | 0.3 and 0.2 | 0.1 |
|---|---|---|---|
| a send waits for its turn | unless `returnImmediately` | JSON-RPC: unless `blocking` is false; else: if true | always |
| the task's id | the server's | the server's | the client's |
| a message to a finished task | UnsupportedOperation | UnsupportedOperation | reopens it |
| a skill that replies without a task | a message | a message | a task, completed |
| history without `historyLength` | all | all | none |
| the history in the answer to a cancel | all | all | none |
| cancelling a canceled task | returns it | TaskNotCancelable | TaskNotCancelable |
| subscribing to a finished task | UnsupportedOperation | the task, then the end | its artifacts and status, then the end |
| tasks updated after a time in the future | none | InvalidParams | - |
| a request without `jsonrpc` | InvalidRequest | InvalidRequest | is taken |
| an error before a stream begins | a plain answer | JSON-RPC: an event; HTTP+JSON: a plain answer | an event |

## What is decided by the user agent

The protobuf definition of 0.3 has a bytes field for the content of a file. It holds the content itself; HTTP+JSON writes it as
base64, once. Two libraries put base64 *text* into that field, so that it is encoded twice, and expect the same in answers. The
bytes don't show which form they are (`abcd` is a content, and also the base64 of another). So the user agent decides, and a client
gets answers in the form it sends:

| | gRPC | HTTP+JSON | form |
|---|---|---|---|
| a2a-sdk for Python | `grpc-python-asyncio/`, `grpc-python/` | `python-httpx/` | base64 text |
| a2a-go 0.3 | `grpc-go/` | sends the variant of the prose, which has no such field | base64 text |
| @a2a-js/sdk, our client, everyone else | any other, or none | any other, or none | the content |

A name counts anywhere in the user agent, because libraries add theirs after the program's own. A program of your own that uses a
library of the first two rows is treated like the SDK. To send the content itself with grpcio, use 1.0. Text that is not base64 is refused. The table
is in `accord/protocol/v03/file_bytes.py`. JSON-RPC, 1.0 and 0.1 don't have this problem.

Accord's client sends the content itself. It sends base64 text if the agent is not an Accord agent and the `Server` header of its
card, or of an answer over HTTP+JSON, names one of Python's web servers (`uvicorn`, `gunicorn`, ...): then the agent is a2a-sdk's. If a
proxy hides that header, or you passed a card and use gRPC, the client can't know.
"""


def page() -> str:
    return "\n".join(
        [
            HEAD,
            *asyncio.run(_matrix()),
            "",
            "## The names of the operations",
            *(line for v in VERSIONS for line in _version(v)),
            "",
        ]
    )


def _version(version: Version) -> list[str]:
    number = " and ".join([version.number, *version.aliases])
    head = [
        "",
        f"### {number}",
        "",
        "| Operation | JSON-RPC | HTTP+JSON | gRPC |",
        "|---|---|---|---|",
    ]
    every = set(
        VERSIONS[0].rpc.values()
    )  # the eleven of the protocol; others are shown where they exist
    return head + [
        _row(version, name) for name in OPERATIONS if name in every or name in version.grpc.values()
    ]


def _row(version: Version, operation: str) -> str:
    rpc = [f"`{method}`" for method, name in version.rpc.items() if name == operation]
    rest = [
        f"`{route.verb} {route.path}`" for route in version.rest if route.operation == operation
    ]
    grpc = [f"`{name}`" for name, known in version.grpc.items() if known == operation]
    return (
        f"| {operation} | {', '.join(rpc) or '-'} | {', '.join(rest) or '-'} | "
        f"{', '.join(grpc) or '-'} |"
    )


# What is served where: asked of an agent that is served, version by version

_BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")
_KEY = "a-key-of-the-documentation-32"
_ABSENT = (MethodNotFound, UnsupportedOperation, VersionNotSupported)


def _agent() -> Agent:
    agent = Agent(
        "Served", description="Answers every version.", auth=ApiKeys(keys={_KEY: "reader"})
    )

    @agent.skill
    async def echo(text: str) -> str:
        return text

    @agent.extended_card
    def extended(card: Any, caller: Any) -> Any:
        return card

    return agent


async def _matrix() -> list[str]:
    """Return a table: which operation an agent answers, in which version, over which binding."""
    app = _agent().app(previews=[version.number for version in PREVIEWS], grpc_port=0)
    places = [
        (binding, number)
        for number, row in SPOKEN.items()
        for binding, has in zip(_BINDINGS, (row.rpc, row.rest, row.grpc), strict=True)
        if has is not None
    ]
    async with app.serving() as url:
        columns = [await _answered(url, binding, number) for binding, number in places]
    head = [f"{number} {binding}" for binding, number in places]
    rows = [
        f"| {operation} | {' | '.join('yes' if one[operation] else '-' for one in columns)} |"
        for operation in columns[0]
    ]
    return [
        "## What is served where",
        "",
        "The table was made by asking a served agent with Accord's own client. 1.1 is served only as a preview (`--preview 1.1`).",
        "",
        f"| | {' | '.join(head)} |",
        "|---|" + "---|" * len(places),
        *rows,
    ]


async def _answered(url: str, binding: str, number: str) -> dict[str, bool]:
    """Return which operations an agent answers over one interface."""
    previews = [number] if SPOKEN[number].is_preview else []
    async with connect(
        url, binding=binding, version=number, previews=previews, auth=ApiKey(_KEY)
    ) as client:
        task_id = (await client.send("hi")).task_id
        asked: dict[str, Callable[[], Awaitable[Any]]] = {
            "SendMessage": lambda: client.send("hi"),
            "SendMessage, for one generation of a task": lambda: client.send(
                "hi", task_id="unknown", if_generation_match=1
            ),
            "SendStreamingMessage": lambda: anext(client.stream("hi")),
            "GetTask": lambda: client.get(task_id),
            "GetTask, held until the task has changed": lambda: client.get(
                task_id, current_generation=0
            ),
            "ListTasks": client.page,
            "CancelTask": lambda: client.cancel("unknown"),
            "SubscribeToTask": lambda: anext(client.subscribe("unknown")),
            "CreateTaskPushNotificationConfig": lambda: client.create_push_config(
                "unknown", "https://example.com/"
            ),
            "GetTaskPushNotificationConfig": lambda: client.get_push_config("unknown", "x"),
            "ListTaskPushNotificationConfigs": lambda: client.list_push_configs(task_id),
            "DeleteTaskPushNotificationConfig": lambda: client.delete_push_config("unknown", "x"),
            "GetExtendedAgentCard": client.extended_card,
        }
        return {operation: await _is_answered(call) for operation, call in asked.items()}


async def _is_answered(call: Callable[[], Awaitable[Any]]) -> bool:
    """Whether an operation is known: an error about the task shows it too."""
    try:
        await call()
    except _ABSENT:
        return False
    except A2AError:  # of the task; a fault of the agent would be one of this page
        pass
    return True


if __name__ == "__main__":
    if "--print" in sys.argv:
        sys.stdout.write(page())
    else:
        (Path(__file__).parent / "versions.md").write_text(page())
