"""Make the pages of `reference/` from the code: `python docs/reference.py`.

Signatures are copied from the source, members that a class inherits from our own classes included.
"""

import ast
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from accord.cli import main as accord_command
from accord.hub import Hub, HubSettings
from accord.hub.access import PolicyRule
from accord.hub.registry import EntrySettings
from accord.hub.registry.entries import LIMITS
from accord.hub.settings import variable_of

FOLDER = Path(__file__).parent / "reference"
HEAD = "<!-- Made by docs/reference.py from the code. Do not edit. -->\n\n"
ERRORS_HEAD = (
    "The errors of A2A, the same for a server that raises them and a client that gets them.\n\n"
)

_ERRORS = (
    "A2AError AgentNotFound BodyTooLarge ContentTypeNotSupported ExtendedAgentCardNotConfigured "
    "ExtensionSupportRequired InvalidAgentResponse InvalidParams InvalidRequest MethodNotAllowed "
    "MethodNotFound ParseError PermissionDenied PushNotificationNotSupported "
    "TaskGenerationMismatch TaskNotCancelable "
    "TaskNotFound TooManyRequests Unauthenticated Unavailable UnsupportedMediaType "
    "UnsupportedOperation VersionNotSupported"
)
# Page: its title, a first paragraph, and where its names come from; "*" is every public name.
PAGES: dict[str, tuple[str, str, list[tuple[str, str]]]] = {
    "agent": (
        "Writing agents",
        "",
        [
            (
                "accord",
                "Agent Context Ask Reply SkillCall StatusMessage File Caller current Retention Tls "
                "Fail StepFailed Backoff Expired",
            )
        ],
    ),
    "client": (
        "Calling agents",
        "",
        [
            ("accord", "connect connect_sync"),
            (
                "accord.client",
                "Client ClientReply Conversation Stream Retry Budget Gap CallFailed",
            ),
        ],
    ),
    "data": ("Messages, tasks and limits", "", [("accord", "Message Part Artifact Task Limits")]),
    "errors": ("Errors", ERRORS_HEAD, [("accord", _ERRORS)]),
    "auth": (
        "Authentication",
        "",
        [
            (
                "accord.auth",
                "ApiKeys Basic Bearer OAuth2 OIDC MutualTLS Introspection Anyone scheme Scheme "
                "Credentials InvalidCredentials hash_password Trust sign_card",
            )
        ],
    ),
    "tools": ("Tools", "", [("accord.tools", "from_agent from_skills from_mcp")]),
    "testing": ("Testing", "", [("accord.testing", "*")]),
}
_SECTIONS = re.compile(r"^(Args|Raises|Returns|Yields|Attributes):$")


def pages() -> Iterator[tuple[Path, str]]:
    """Yield each page of the reference and its text."""
    for page, (title, first, sources) in PAGES.items():
        parts = [f"# {title}\n\n{HEAD}{first}"]
        for module, names in sources:
            found = importlib.import_module(module)
            for name in dir(found) if names == "*" else names.split():
                parts.append(_entry(module, name, getattr(found, name)))
        yield FOLDER / f"{page}.md", "\n".join(parts).rstrip() + "\n"
    yield FOLDER / "cli.md", _cli()
    yield FOLDER / "hub.md", _hub()


def _entry(module: str, name: str, value: Any) -> str:
    lines = [f"## {module}.{name}", ""]
    if inspect.isclass(value):
        init = _own(value, "__init__")
        if init is not None and "__dataclass_fields__" not in vars(value):
            lines += _code(_signature(init, name))
        elif init is not None:
            lines += _code(f"{name}{inspect.signature(value)}".replace(" -> None", ""))
        lines += [_prose(value.__doc__ if value.__doc__ else "")]
        lines += _fields(value)
        for member, function in _members(value):
            lines += ["", f"### {name}.{member}", ""]
            is_plain = isinstance(function, property)
            target = function.fget if isinstance(function, property) else function
            lines += _code(_property(target, member) if is_plain else _signature(target, member))
            lines += [_prose(inspect.getdoc(target) or "")]
    elif callable(value):
        lines += [*_code(_signature(value, name)), _prose(inspect.getdoc(value) or "")]
    else:
        lines += _code(f"{name} = {value!r}")
    return "\n".join(lines) + "\n"


def _own(class_: type, name: str) -> Any:
    """Return a method if one of our own classes has it."""
    for one in class_.__mro__:
        if one.__module__.startswith("accord") and name in vars(one):
            return vars(one)[name]
    return None


def _members(class_: type) -> Iterator[tuple[str, Any]]:
    seen = set()
    for one in class_.__mro__:
        if not one.__module__.startswith("accord"):
            continue
        for name, value in vars(one).items():
            if name.startswith("_") or name in seen:
                continue
            seen.add(name)
            if isinstance(value, (staticmethod, classmethod)):
                value = value.__func__
            if isinstance(value, property) or inspect.isfunction(value):
                yield name, value


def _fields(class_: type) -> list[str]:
    if not issubclass(class_, msgspec.Struct):
        return []
    rows = ["", "| field | type | default |", "|---|---|---|"]
    hints = {k: v for one in reversed(class_.__mro__) for k, v in _annotations(one).items()}
    for field in msgspec.structs.fields(class_):
        default = "required" if field.required else _default(field)
        hint = hints.get(field.name, "").replace("|", "\\|")
        rows.append(f"| `{field.name}` | `{hint}` | {default} |")
    return rows


def _annotations(class_: type) -> dict[str, str]:
    """Return the fields that a class declares, and their types as written."""
    if not class_.__module__.startswith("accord"):
        return {}
    tree = ast.parse(textwrap.dedent(inspect.getsource(class_))).body[0]
    assert isinstance(tree, ast.ClassDef)
    return {
        node.target.id: ast.unparse(node.annotation).strip("'\"")
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.default is msgspec.NODEFAULT:
        return "empty"
    if callable(field.default):
        return f"`{field.default.__name__}`"
    return "not set" if field.default is msgspec.UNSET else f"`{field.default!r}`"


def _definition(function: Any) -> ast.FunctionDef | ast.AsyncFunctionDef:
    node = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function)))).body[0]
    assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)), function
    return node


def _property(function: Any, name: str) -> str:
    node = _definition(function)
    return f"{name}: {_unquoted(node.returns)}" if node.returns else name


def _signature(function: Any, name: str) -> str:
    """Return a signature as it is written in the source, on several lines if it is long."""
    node = _definition(function)
    arguments = node.args
    if arguments.args and arguments.args[0].arg in ("self", "cls"):
        arguments.args = arguments.args[1:]
    elif arguments.posonlyargs and arguments.posonlyargs[0].arg == "self":
        arguments.posonlyargs = arguments.posonlyargs[1:]
    waits = "await " if isinstance(node, ast.AsyncFunctionDef) and not _yields(node) else ""
    is_init = node.name == "__init__"
    result = f" -> {_unquoted(node.returns)}" if node.returns and not is_init else ""
    text = f"{waits}{name}({', '.join(_pieces(arguments))}){result}"
    if len(text) <= 88:
        return text
    pieces = "".join(f"    {piece},\n" for piece in _pieces(arguments))
    return f"{waits}{name}(\n{pieces}){result}"


def _yields(node: ast.AsyncFunctionDef) -> bool:
    return any(isinstance(one, (ast.Yield, ast.YieldFrom)) for one in ast.walk(node))


def _unquoted(node: ast.AST) -> str:
    """Return a type without the quotes around names that are not imported at run time."""
    return ast.unparse(node).strip("'\"").replace("'", '"')


def _pieces(arguments: ast.arguments) -> list[str]:
    """Return each argument of a signature by itself, as it would be written."""
    first = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [
        *[None] * (len(first) - len(arguments.defaults)),
        *arguments.defaults,
    ]
    found = [_argument(one, value) for one, value in zip(first, defaults, strict=True)]
    if arguments.posonlyargs:
        found.insert(len(arguments.posonlyargs), "/")
    if arguments.vararg is not None:
        found.append(f"*{_argument(arguments.vararg, None)}")
    elif arguments.kwonlyargs:
        found.append("*")
    for one, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found.append(_argument(one, value))
    if arguments.kwarg is not None:
        found.append(f"**{_argument(arguments.kwarg, None)}")
    return found


def _argument(one: ast.arg, default: ast.expr | None) -> str:
    text = one.arg if one.annotation is None else f"{one.arg}: {_unquoted(one.annotation)}"
    if default is None:
        return text
    value = ast.unparse(default).replace("'", '"')
    return f"{text} = {value}" if one.annotation is not None else f"{text}={value}"


def _code(text: str) -> list[str]:
    return ["```python", text, "```", ""]


def _prose(doc: str) -> str:
    """Return a docstring as Markdown: sections as lists, lines of code in a block."""
    lines: list[str] = []
    section = ""
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(doc)):
        first = paragraph.split("\n", 1)[0]
        if _SECTIONS.match(first):
            section = first[:-1]
            lines += [f"**{section}**", "", *_items(paragraph.split("\n", 1)[1]), ""]
        elif _is_code(paragraph):
            lines += [*_code(textwrap.dedent(paragraph))]
        else:
            lines += [paragraph, ""]
    return "\n".join(lines).rstrip()


def _items(text: str) -> list[str]:
    items: list[str] = []
    for line in textwrap.dedent(text).splitlines():
        if line.startswith(" ") and items:
            items[-1] += f" {line.strip()}"
        elif ":" in line:
            name, _, said = line.partition(":")
            items.append(f"- `{name}`: {said.strip()}")
        else:
            items.append(f"- {line}")
    return items


def _is_code(paragraph: str) -> bool:
    text = textwrap.dedent(paragraph)
    if text.startswith(("-", "`")):
        return False
    try:
        tree = ast.parse(f"async def f():\n{textwrap.indent(text, '    ')}")
    except SyntaxError:
        return False
    body = tree.body[0].body  # type: ignore[attr-defined]
    return not all(isinstance(one, ast.Expr) and isinstance(one.value, ast.Name) for one in body)


def _cli() -> str:
    parts = [
        "# Commands\n",
        HEAD + "Every verb of `accord` and its options, as `--help` shows them.\n",
    ]
    for words, command in _commands(accord_command, ("accord",)):
        context = click.Context(
            command,
            info_name=" ".join(words),
            terminal_width=100,
            help_option_names=["-h", "--help"],
        )
        parts.append(f"## {' '.join(words)}\n\n```text\n{command.get_help(context)}\n```\n")
    return "\n".join(parts).rstrip() + "\n"


def _hub() -> str:
    """Return the page of the hub: its options, the settings of an entry, rules, and routes."""
    verb = accord_command.get_command(click.Context(accord_command), "hub")
    assert verb is not None
    options = {one.name: one for one in verb.params if isinstance(one, click.Option)}
    said = _comments(HubSettings)
    lines = [
        "# The hub\n",
        HEAD + "What a hub is for is in [Running a hub](../running-a-hub.md).\n",
        "## Options of `accord hub`\n",
        "An option counts before its variable. An unknown variable that begins with "
        "`ACCORD_HUB_` is an error.\n",
        "| variable | option | default | what |",
        "|---|---|---|---|",
    ]
    for field in msgspec.structs.fields(HubSettings):
        option = options.get(field.name)
        help_ = (option.help or "") if option is not None else said[field.name]
        typed = f"`{option.opts[0]}`" if option is not None else ""
        what = _cell(help_.partition("  [default")[0])
        lines.append(f"| `{variable_of(field.name)}` | {typed} | {_default(field)} | {what} |")
    lines += [
        "\n## Settings of an entry\n",
        "`accord hub set NAME FIELD=VALUE`, or `PATCH /api/v1/agents/NAME`.\n",
        *_table(EntrySettings),
        f"\n`limits` may have {', '.join(f'`{one}`' for one in LIMITS)}.\n",
        "## A rule\n",
        "`accord hub policy add EFFECT WHO MAY WHAT`, or `POST /api/v1/policies`. "
        "`deny` counts before `allow`.\n",
        *_table(PolicyRule),
        "\n## Routes\n",
        "Below `/api/v1`; `openapi.json` there describes what they take and give. Who may use a "
        "route: `owner` is the owner of the entry in the path. Admins may use all.\n",
        "| route | who | what |",
        "|---|---|---|",
    ]
    for route in Hub(HubSettings(store="sqlite:///:memory:")).routes.all:
        lines.append(f"| `{route.verb} {route.path}` | {route.may} | {_cell(route.summary)} |")
    return "\n".join(lines).rstrip() + "\n"


def _table(class_: type[msgspec.Struct]) -> list[str]:
    """Return the fields of a struct and what the source says of each."""
    said, types = _comments(class_), _annotations(class_)
    rows = ["| field | type | default | what |", "|---|---|---|---|"]
    for field in msgspec.structs.fields(class_):
        default = "required" if field.required else _default(field)
        type_ = _cell(types[field.name])
        rows.append(f"| `{field.name}` | `{type_}` | {default} | {_cell(said[field.name])} |")
    return rows


def _comments(class_: type) -> dict[str, str]:
    """Return what the comments beside or above each field of a class say."""
    source = textwrap.dedent(inspect.getsource(class_))
    lines = source.splitlines()
    tree = ast.parse(source).body[0]
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for node in tree.body:
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        beside = [line.partition("  # ")[2] for line in lines[node.lineno - 1 : node.end_lineno]]
        above = []
        at = node.lineno - 2
        while lines[at].strip().startswith("# "):
            above.insert(0, lines[at].strip()[2:])
            at -= 1
        found[node.target.id] = " ".join(one for one in (*above, *beside) if one)
    return found


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _commands(
    command: click.Command, words: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None, name
            yield from _commands(found, (*words, name))


def main() -> int:
    if "--check" in sys.argv:
        stale = [path.name for path, text in pages() if path.read_text() != text]
        print(" ".join(stale))
        return 1 if stale else 0
    for path, text in pages():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
