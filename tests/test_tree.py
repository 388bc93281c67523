"""The shape of the code: which room may import which, and what a user can import."""

import ast
import importlib
import inspect
import py_compile
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import accord
from tests.processes import run_sync

SOURCE = Path(accord.__file__).parent

# A room may import the rooms before it, and itself.
ORDER = [
    {"extras", "lazy_imports", "slug"},
    {"model", "after_fork", "private", "sockets"},
    {"net", "pump", "siblings"},
    {"protocol", "auth", "store", "observe"},
    {"files", "schema"},
    {"engine", "push", "client"},
    {"operations"},
    {"server"},
    {"delegate", "options", "relay"},
    {"app"},
    {"console"},
    {"agent"},
    {"check"},
    {"hub", "integrations", "testing"},
    {"cli"},
    {"tools"},
    {"__init__", "__main__"},
]
# Of the rooms on one level, who may use whom: an encoded task is kept by the store, a caller is
# known to all.
BESIDE = {("client", "push"), ("push", "engine"), ("auth", "store"), ("cli", "integrations")}
# For a type alone, under `if TYPE_CHECKING`: `ctx.delegate` returns what a client returns.
TYPES = {("engine/skills/context.py", "client")}


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def is_a_type(path: Path, node: ast.stmt) -> bool:
    own = str(path.relative_to(SOURCE))
    return isinstance(node, ast.ImportFrom) and (own, node.module) in TYPES


def imported_rooms(path: Path) -> set[str]:
    depth = len(path.relative_to(SOURCE).parts)
    rooms = set()
    tree = ast.parse(path.read_text())
    for block in [node for node in tree.body if isinstance(node, ast.If)]:
        if ast.unparse(block.test) == "TYPE_CHECKING":
            block.body = [one for one in block.body if not is_a_type(path, one)]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == depth:
            names = [node.module] if node.module else [alias.name for alias in node.names]
            rooms |= {name.split(".")[0] for name in names if name}
        elif (
            isinstance(node, ast.ImportFrom)
            and node.level == 0
            and (node.module or "").startswith("accord.")
        ):
            rooms.add((node.module or "").split(".")[1])
    return rooms


def test_imports_point_one_way():
    """A room never imports one to its right, so that each can be read and tested without what
    stands on it.
    """
    level = {room: i for i, rooms in enumerate(ORDER) for room in rooms}
    wrong = [
        f"{path.relative_to(SOURCE)} imports {room}"
        for path in SOURCE.rglob("*.py")
        for room in imported_rooms(path)
        if room != (own := room_of(path))
        and level[room] >= level[own]
        and (own, room) not in BESIDE
        and own != "__init__"
    ]
    assert wrong == []


def test_the_map_names_every_room():
    """`docs/design.md` shows the packages, and a newcomer finds each there."""
    page = (SOURCE.parent.parent / "docs" / "design.md").read_text()
    named = set(re.findall(r"^  (\w+(?:/|\.py))", page.partition("src/accord/\n")[2], re.M))
    rooms = {f"{p.name}/" for p in SOURCE.iterdir() if (p / "__init__.py").is_file()}
    files = {p.name for p in SOURCE.glob("*.py")} - {"__main__.py"}
    assert named == rooms | files


def test_root_exports_are_exact():
    """What a user types is a promise: nothing joins or leaves it by accident."""
    assert all(getattr(accord, name) is not None for name in dir(accord))
    typed = re.findall(r" as (\w+)$", (SOURCE / "__init__.py").read_text(), re.MULTILINE)
    assert sorted(typed) == dir(accord)


def test_names_of_a_package_are_found_without_its_source(tmp_path, monkeypatch):
    """A frozen program has no sources and no stubs. What is not used is not imported."""
    package = tmp_path / "trip"
    package.mkdir()
    (package / "hotel.py").write_text("class Room: ...")
    (package / "flight.py").write_text("raise AssertionError('nobody asked for it')")
    init = package / "__init__.py"
    init.write_text(
        "from typing import TYPE_CHECKING\n"
        "from accord.lazy_imports import lazy_imports\n"
        "if TYPE_CHECKING:\n"
        "    from .flight import Seat as Seat\n"
        "    from .hotel import Room as Room\n"
        "if not TYPE_CHECKING:\n"
        "    __getattr__, __dir__ = lazy_imports(__name__)\n"
    )
    py_compile.compile(str(init), cfile=str(init.with_suffix(".pyc")))
    init.unlink()
    monkeypatch.syspath_prepend(tmp_path)
    trip = importlib.import_module("trip")
    assert dir(trip) == ["Room", "Seat"]
    assert trip.Room.__module__ == "trip.hotel"
    assert "trip.flight" not in sys.modules
    with pytest.raises(AttributeError, match="module 'trip' has no attribute 'Bus'"):
        _ = trip.Bus


@pytest.mark.parametrize("name", ["", ".auth", ".client", ".model", ".push", ".testing", ".tools"])
def test_a_public_module_lists_its_names_and_nothing_else(name):
    """What an editor offers after the dot is what users may use."""
    module = importlib.import_module(f"accord{name}")
    listed = dir(module)
    assert listed
    assert [
        one for one in listed if one.startswith("_") or inspect.ismodule(getattr(module, one))
    ] == []
    strangers = [
        one
        for one in listed
        if not str(getattr(getattr(module, one), "__module__", "accord")).startswith("accord")
        and inspect.isclass(getattr(module, one))
    ]
    assert strangers == []
    assert listed == sorted(module.__all__)


def test_an_agent_shows_no_internals():
    """An editor offers what authors use: how it is declared and served, not how it is kept."""
    assert [name for name in dir(accord.Agent("Clerk")) if not name.startswith("_")] == [
        "app",
        "auth",
        "card",
        "default_store",
        "description",
        "extended_card",
        "headers",
        "lifespan",
        "middleware",
        "name",
        "on_event",
        "on_task",
        "proxy",
        "route",
        "run",
        "serve",
        "skill",
        "slug",
        "wrap",
    ]


@pytest.mark.parametrize("method", ["Agent", "skill", "middleware", "app", "run"])
def test_an_unknown_keyword_names_the_class_that_users_know(method):
    """`Agent`, not one it is made of."""
    called: Any = accord.Agent if method == "Agent" else getattr(accord.Agent("Clerk"), method)
    with pytest.raises(TypeError, match=r"^Agent\."):
        called(nonsense=1)


def test_the_server_does_not_import_the_client():
    """Root names load on first use: a server pays for no client, and for no gRPC."""
    heavy = "('asyncio', 'accord.app', 'accord.client', 'httptools', 'click', 'grpc', 'sqlite3', 'aiohttp')"  # noqa: E501
    code = f"import sys; from accord import Agent, Context; print([m for m in {heavy} if m in sys.modules])"  # noqa: E501
    assert run_sync(sys.executable, "-c", code) == (0, "[]\n", "")


def test_who_connects_nowhere_does_not_pay_for_it():
    """aiohttp is imported at the first connection, not with the client or the server."""
    code = "import sys, accord.app, accord.client; print([m for m in ('aiohttp', 'yarl') if m in sys.modules])"  # noqa: E501
    assert run_sync(sys.executable, "-c", code) == (0, "[]\n", "")


def modules_reached(path: Path) -> set[tuple[str, ...]]:
    """The modules of ours that a file imports from, as parts of their path below the source."""
    package = path.relative_to(SOURCE).parts[:-1]
    reached = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom):
            continue
        module = tuple((node.module or "").split(".")) if node.module else ()
        if node.level:
            reached.add((*package[: len(package) - node.level + 1], *module))
        elif module[:1] == ("accord",):
            reached.add(module[1:])
    return reached


def test_a_room_is_used_through_its_face():
    """A package's `__init__` is its face: from outside, nobody imports from a file behind it."""
    past = [
        f"{path.relative_to(SOURCE)} imports from {'.'.join(target)}"
        for path in SOURCE.rglob("*.py")
        for target in modules_reached(path)
        if (SOURCE.joinpath(*target).with_suffix(".py")).is_file()
        and path.relative_to(SOURCE).parts[: len(target) - 1] != target[:-1]
    ]
    assert past == []


def public_classes(path: Path) -> list[str]:
    """The classes a module offers: those in its `__all__`."""
    tree = ast.parse(path.read_text())
    offered: list[str] = []
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List() as names):
                offered = ast.literal_eval(names)
    return [
        node.name for node in tree.body if isinstance(node, ast.ClassDef) and node.name in offered
    ]


def test_commands_print_through_one_door():
    """`cli/terminal.py` takes out control characters of strangers; click's functions do not."""
    found = [
        f"{path.name}:{node.lineno}: click.{node.attr}; use {node.attr} of cli/terminal.py"
        for path in sorted((SOURCE / "cli").glob("*.py"))
        if path.name != "terminal.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in ("echo", "secho", "style")
        if isinstance(node.value, ast.Name) and node.value.id == "click"
    ]
    assert found == []


def test_numbers_of_strangers_are_read_by_one_function():
    """`isdigit` lets `²` and 5,000 digits pass, for which `int` raises: `model.whole_number`."""
    found = [
        f"{path.relative_to(SOURCE)}:{node.lineno}: {node.attr}; use whole_number of the model"
        for path in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in ("isdigit", "isdecimal", "isnumeric")
    ]
    assert found == []


def test_cookies_of_strangers_are_read_by_one_function():
    """`http.cookies` takes the square of the length for some: `auth.read_cookie`."""
    found = [
        str(path.relative_to(SOURCE))
        for path in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module == "http.cookies"
    ]
    assert found == []


def test_no_two_public_classes_share_a_name():
    """A name in a traceback, a log line or a search leads to one class."""
    places: dict[str, list[str]] = {}
    for path in SOURCE.rglob("*.py"):
        for name in public_classes(path):
            places.setdefault(name, []).append(str(path.relative_to(SOURCE)))
    # To users it is one class: the second says how it is declared, the first how it is served.
    agent = {"Agent": ["agent.py", "engine/skills/agent.py"]}
    shared = {name: sorted(found) for name, found in places.items() if len(found) > 1}
    assert shared == agent


def test_cited_rules_exist():
    """Who follows a citation to docs/design.md finds the rule there."""
    root = SOURCE.parent.parent
    rules = set(re.findall(r"^(\d+)\. ", (root / "docs" / "design.md").read_text(), re.MULTILINE))
    cited = re.compile(r"design, rules? (\d+)(?:(?:, |,? and )(\d+))*")
    files = [*SOURCE.rglob("*.py"), *(root / "tests").rglob("*.py"), *(root / "docs").glob("*.md")]
    missing = {
        f"{path.relative_to(root)}: {match[0]}"
        for path in files
        if "node_modules" not in path.parts
        for match in cited.finditer(" ".join(path.read_text().split()))
        if not rules.issuperset(re.findall(r"\d+", match[0]))
    }
    assert missing == set()


def test_nothing_names_this_machine():
    """The project stands on its own: no local paths, no unfinished marks."""
    marks = re.compile(r"(TODO|FIXME|XXX)|/root/")
    found = [str(p) for p in SOURCE.rglob("*.py") if marks.search(p.read_text())]
    assert found == []


def test_nothing_cites_a_page_the_reader_does_not_have():
    """A citation names the official specification by its version and section, or a rule of ours."""
    marks = re.compile(r"\((?:spec|legacy) (?:[A-Z]+-?)?\d")
    places = [*SOURCE.rglob("*.py"), *Path(__file__).parent.rglob("*.py")]
    found = [
        str(p) for p in places if "node_modules" not in p.parts and marks.search(p.read_text())
    ]
    assert found == []
