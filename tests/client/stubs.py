"""Makes the types of `connect_sync` from the client's source: `python -m tests.client.stubs`.

The client that waits has every name of the client, found at run time. For type checkers each of
its classes is written out here: what is awaited there is returned, what is an async iterator there
is an iterator.
"""

import ast
import builtins
import sys
import tempfile
from pathlib import Path

import accord.client
from tests.processes import run_sync

CLIENT = Path(accord.client.__file__).parent
STUB = CLIENT / "sync_types.pyi"
RUFF = Path(sys.executable).parent / "ruff"
SETTINGS = Path(__file__).parents[2] / "pyproject.toml"
HEAD = '"""The types of `connect_sync`. Made by tests/client/stubs.py; do not edit."""\n\n'
# Where a class is, and its name here.
SOURCES = {
    "Client": (CLIENT / "client.py", "SyncClient"),
    "ClientReply": (CLIENT / "reply.py", "SyncReply"),
    "Stream": (CLIENT / "streams/resume.py", "SyncStream"),
    "Conversation": (CLIENT / "conversation.py", "SyncConversation"),
    "File": (CLIENT.parent / "model/file.py", "SyncFile"),
}
NAMES = {name: new for name, (_, new) in SOURCES.items()} | {
    "AsyncIterator": "Iterator",
    "Configs": "builtins.list[TaskPushNotificationConfig]",
    "Notes": "builtins.list[str]",
}
RENAMED = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
}
# What `__init__` sets.
FIELDS = {
    "ClientReply": ["task: Task | None", "message: Message | None"],
    "Stream": ["task: Task | None", "message: Message | None"],
    "File": ["data: bytes | None", "url: str", "name: str", "media_type: str"],
}
LEFT_OUT = {"__init__", "__await__", "connection", "send_request", "opened_by", "poll"}
# Names of types, and where they come from.
IMPORTS = {
    "..model": "AgentCard ArtifactUpdate Message Metadata Part Progress Question "
    "StatusUpdate Task TaskState TaskPushNotificationConfig ListTasksResponse MAX_FETCHED "
    "OpeningFile",
    "..protocol": "BindingName PreviewNumber VersionNumber",
    "..auth": "Trust",
    "..net": "Guard Http",
    "..push": "Notified",
    ".auth": "Auth",
    ".budget": "Budget",
    ".discovery": "Cards",
    ".connect": "Verify",
    ".finder": "AgentLike",
    ".reply": "Content",
    ".retry": "Retry",
    ".streams": "StreamEvent Gap",
    "collections.abc": "Callable Iterator Mapping Sequence",
    "pathlib": "Path",
    "ssl": "SSLContext",
    "types": "TracebackType",
    "typing": "IO Any Literal Self overload",
}


class _Sync(ast.NodeTransformer):
    """Rewrites a type: `Stream` is `SyncStream`, `AsyncIterator[str]` is `Iterator[str]`."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str):  # a name in quotes
            return self.visit(ast.parse(node.value, mode="eval").body)
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id == "list":  # a method of the client has this name
            return ast.parse("builtins.list", mode="eval").body
        return ast.parse(NAMES.get(node.id, node.id), mode="eval").body


def stub() -> str:
    """Return the text of the stub."""
    classes = [_class(path, name, new) for name, (path, new) in SOURCES.items()]
    body = "\n\n".join([_connect(), *classes])
    tree = ast.parse(body)
    used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    imports = "".join(
        f"from {module} import {', '.join(found)}\n"
        for module, names in IMPORTS.items()
        if (found := [name for name in names.split() if name in used])
    )
    ours = {*NAMES.values(), "T", "builtins"} | set(" ".join(IMPORTS.values()).split())
    unknown = used - ours - set(dir(builtins))
    assert not unknown, f"add them to IMPORTS: {sorted(unknown)}"
    top = f"{HEAD}import builtins\n{imports}from typing import TypeVar\n"
    text = f'{top}\nT = TypeVar("T")\n\n{body}\n'
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / STUB.name
        made.write_text(text)
        for verb in (["check", "--fix-only", "--select", "I"], ["format"]):
            done = run_sync(RUFF, *verb, "--quiet", "--config", SETTINGS, made)
            assert done.code == 0, done
        return made.read_text()


def _connect() -> str:
    """`connect`, without a session: that belongs to another loop."""
    tree = ast.parse((CLIENT / "connect.py").read_text())
    node = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "connect")
    node.name = "connect_sync"
    both = list(zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True))
    kept = [(one, default) for one, default in both if one.arg != "session"]
    node.args.kwonlyargs = [one for one, _ in kept]
    node.args.kw_defaults = [default for _, default in kept]
    return "\n".join(line.removeprefix("    ") for line in _method(node, has_overloads=False))


def _class(path: Path, name: str, new: str) -> str:
    tree = ast.parse(path.read_text())
    found = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == name)
    lines = [f"class {new}:"]
    for node in found.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines += _method(node, has_overloads=_is_overloaded(found, node.name))
    lines[1:1] = [f"    {one}" for one in FIELDS.get(name, [])]
    return "\n".join(lines)


def _is_overloaded(found: ast.ClassDef, name: str) -> bool:
    return any(
        isinstance(n, ast.AsyncFunctionDef | ast.FunctionDef) and n.name == name and _is_overload(n)
        for n in found.body
    )


def _is_overload(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(ast.unparse(one) == "overload" for one in node.decorator_list)


def _method(node: ast.FunctionDef | ast.AsyncFunctionDef, *, has_overloads: bool) -> list[str]:
    name = RENAMED.get(node.name, node.name)
    is_dunder = node.name in RENAMED
    if node.name in LEFT_OUT or (node.name.startswith("_") and not is_dunder):
        return []
    if has_overloads and not _is_overload(node):
        return []  # the implementation
    for argument in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]:
        if argument.annotation is not None:
            argument.annotation = _rewritten(argument.annotation)
    arguments = ast.unparse(node.args)
    assert node.returns is not None, node.name  # everything is typed
    returns = "Self" if name == "__enter__" else ast.unparse(_rewritten(node.returns))
    marks = [f"    @{ast.unparse(one)}" for one in node.decorator_list]
    return [*marks, f"    def {name}({arguments}) -> {returns}: ..."]


def _rewritten(node: ast.expr) -> ast.expr:
    found = _Sync().visit(node)
    assert isinstance(found, ast.expr)
    return found


if __name__ == "__main__":
    STUB.write_text(stub())
    sys.exit(0)
