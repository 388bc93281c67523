"""Make `versions.md` from the operations table: `python docs/versions.py`."""

import sys
from pathlib import Path

from accord.operations.table import OPERATIONS, VERSIONS, Version

HEAD = """# Versions

An Accord agent answers every version of A2A on the same address: an old client simply works, and never learns that it is old.
Inside there is one model, that of 1.0. An old version is a codec in `accord/protocol` and its rows in `accord/operations/table.py`,
from which this page is made; taken away, the version is gone.

- **1.0**: JSON-RPC, HTTP+JSON (with and without a tenant in front), gRPC.
- **0.3 and 0.2** are one: a request does not tell which of the two its sender speaks. HTTP+JSON lives under `/v1`; its bodies are
  protobuf's JSON, and two other dialects that clients speak there are answered in kind.
- **0.1** has JSON-RPC only. Its clients name their tasks, and may send to one that has ended.

A task belongs to no version: it can be read, continued, streamed and cancelled in any of them. `tasks/get`, `tasks/cancel` and
`tasks/resubscribe` are in 0.1 and in 0.3; they answer in the version the `A2A-Version` header names, else in the one the task
was made in. What a version has no place for is kept in the task, and where it has metadata, marked there under `a2a_compat`.

`Agent.app(versions=["1.0"])` limits what is served; then the card is the pure 1.0 card. By default the card is the union of
what the readers of all versions look for, at `/.well-known/agent-card.json` and `/.well-known/agent.json`.

## How a version is chosen

| Request | Spoken |
|---|---|
| a JSON-RPC method only one version has | that version, whatever the header says |
| a method of 0.1 and 0.3 | the version in the header, else the one the task was made in |
| a path below `/v1/` | 0.3; with `A2A-Version: 1.0`, 1.0 with the tenant `v1` |
| other paths | 1.0; with `A2A-Version: 0.3`, 0.3 |
| a gRPC service | its package: `lf.a2a.v1` is 1.0, `a2a.v1` is 0.3 |
| `A2A-Version` with a number not served | VersionNotSupported |

## Where versions differ in meaning

| | 1.0 | 0.3 and 0.2 | 0.1 |
|---|---|---|---|
| a send waits for its turn | unless `returnImmediately` | JSON-RPC: unless `blocking` is false; else: if true | always |
| the task's id | the server's | the server's | the client's |
| a message to a finished task | UnsupportedOperation | UnsupportedOperation | begins it anew |
| a skill that replies without a task | a message | a message | a task, completed |
| history when nothing is said | all | all | none |
| cancelling a canceled task | returns it | TaskNotCancelable | TaskNotCancelable |
| subscribing to a finished task | UnsupportedOperation | the task, then the end | its artifacts and status, then the end |
| an error before a stream begins | a plain answer | JSON-RPC: an event; HTTP+JSON: a plain answer | an event |

## What is decided by the user agent

The protobuf definition of 0.3 has a bytes field for the content of a file. By its letter that is the content itself; over
HTTP+JSON it is written as base64, once. Two libraries put base64 *text* into that field, so that it is encoded twice, and
read nothing else from it. The same bytes can be both (`abcd` is a content, and base64 of another), so they are never looked
at. The user agent decides, and a client is answered in the form it sends:

| | gRPC | HTTP+JSON | form |
|---|---|---|---|
| a2a-sdk for Python | `grpc-python-asyncio/`, `grpc-python/` | `python-httpx/` | base64 text |
| a2a-go 0.3 | `grpc-go/` | speaks the prose's dialect: no such field | base64 text |
| @a2a-js/sdk, our client, everyone else | any other, or none | any other, or none | the content |

Names are looked for anywhere in the user agent, as libraries add theirs behind a program's own. A program of your own on one
of the first two rows' libraries is taken for the SDK; to be taken at the letter on grpcio, speak 1.0. Base64 text that is
none is refused. The table is in `accord/protocol/v03/file_bytes.py`; JSON-RPC, 1.0 and 0.1 have nothing to decide.

Our client goes by the letter, unless the `Server` header that came with the card, or with an answer over HTTP+JSON, names
one of Python's web servers (`uvicorn`, `gunicorn`, ...) and the agent is not an Accord one: then it is a2a-sdk's, and gets
base64 text. Where a proxy hides that header, or the card was handed over and gRPC is spoken, nothing tells.
"""


def page() -> str:
    return "\n".join(
        [
            HEAD,
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


if __name__ == "__main__":
    if "--print" in sys.argv:
        sys.stdout.write(page())
    else:
        (Path(__file__).parent / "versions.md").write_text(page())
