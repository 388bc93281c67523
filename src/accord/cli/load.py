"""Find the agent in a user's file or module."""

import importlib
import re
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from ..agent import Agent
from ..integrations import kind_of

__all__ = ["folder_of", "load_agent"]

_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def load_agent(where: str) -> Agent:
    """Return the agent `FILE[:name]` or `package.module[:name]` names. Without a name: the variable
    `agent`, or the only agent there is. An agent of another framework is wrapped.

    Raises:
        click.ClickException: There is no such file or agent, or the file can't be run; the message
        says what is there, and where.
    """
    file, _, name = where.partition(":") if not Path(where).exists() else (where, "", "")
    values = vars(_found(file))
    if name:
        if name not in values or not (isinstance(values[name], Agent) or kind_of(values[name])):
            agents = _agents(values)
            raise click.ClickException(
                f"{file} has no agent {name!r}; it has {', '.join(agents) or 'none'}"
            )
        return _as_agent(name, values[name])
    agents = _agents(values)
    if "agent" in agents:
        return _as_agent("agent", agents["agent"])
    if len(agents) == 1:
        return _as_agent(*next(iter(agents.items())))
    if not agents:
        raise click.ClickException(f'{file} has no agent; write: agent = Agent("My agent")')
    raise click.ClickException(
        f"{file} has several agents; say which: {', '.join(f'{file}:{key}' for key in agents)}"
    )


def _agents(values: dict[str, Any]) -> dict[str, Any]:
    """The agents among a module's values; without any, what can be wrapped."""
    ours = {name: value for name, value in values.items() if isinstance(value, Agent)}
    return ours or {name: value for name, value in values.items() if kind_of(value)}


def _as_agent(name: str, value: Any) -> Agent:
    if isinstance(value, Agent):
        return value
    try:
        # Its own name is better than that of the variable, unless the framework gives all the same.
        given = getattr(value, "name", None)
        has_name = isinstance(given, str) and given not in ("", "LangGraph")
        return Agent.wrap(value, name="" if has_name else name)
    except TypeError as error:
        raise click.ClickException(f"{name}: {error}") from error


def folder_of(where: str) -> Path:
    """The folder that what `load_agent` would load is imported from."""
    path = Path(where) if Path(where).exists() else Path(where.partition(":")[0])
    if path.is_dir() and (path / "__init__.py").is_file():
        path = path / "__init__.py"
    return _as_module(path)[1] if path.is_file() else Path.cwd()


def _found(file: str) -> ModuleType:
    path = Path(file)
    if path.is_file():
        if path.suffix != ".py":
            raise click.ClickException(
                f"{path} is not a Python file; give one whose name ends in .py"
            )
        return _imported(*_as_module(path), path)
    if path.is_dir() and (path / "__init__.py").is_file():
        return _imported(*_as_module(path / "__init__.py"), path / "__init__.py")
    if _MODULE.fullmatch(file) and not file.endswith(".py"):
        return _imported(file, Path.cwd(), None)
    raise click.ClickException(
        f"no file {file}; give a Python file with an agent in it, like hello.py or "
        "hello.py:agent, or a module, like team.planner:agent"
    )


def _as_module(path: Path) -> tuple[str, Path]:
    """The name a file is imported by, and the folder that it is found from: the one above its
    packages, so that relative imports work.
    """
    path = path.resolve()
    names = [] if path.stem == "__init__" else [path.stem]
    folder = path.parent
    while (folder / "__init__.py").is_file() and folder.parent != folder:
        names.insert(0, folder.name)
        folder = folder.parent
    return ".".join(names), folder


def _imported(name: str, folder: Path, path: Path | None) -> ModuleType:
    """Import a module, with its neighbours as when Python runs it."""
    if "." not in name:
        sys.modules.pop(name, None)  # the user's file, whatever else goes by that name
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except SyntaxError as error:
        where = f"{error.filename or path}, line {error.lineno}"
        raise click.ClickException(
            f"{where}: {error.msg}\n    {(error.text or '').strip()}"
        ) from error
    except Exception as error:
        if path is None and isinstance(error, ModuleNotFoundError):
            missing = error.name or ""
            if name == missing or name.startswith(f"{missing}."):
                raise click.ClickException(
                    f"no module {missing} here ({folder}); give a module that can be imported from "
                    "this folder, or a file, like hello.py"
                ) from error
        raise click.ClickException(_load_error(name, path, error)) from error


def _load_error(name: str, path: Path | None, error: Exception) -> str:
    """Say what went wrong and on which line of the user's file: the frames above and below it are
    not theirs.
    """
    spec = sys.modules.get(name)
    file = path or Path(getattr(spec, "__file__", None) or name)
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).resolve() == file.resolve()
    ]
    where = f"{file}, line {frames[-1].lineno}: " if frames else f"{file}: "
    line = f"\n    {frames[-1].line}" if frames else ""
    install = ""
    if isinstance(error, ModuleNotFoundError) and error.name:
        install = (
            f"\nIf it is a package: {sys.executable} -m pip install {error.name.partition('.')[0]}"
        )
    return f"{where}{type(error).__name__}: {error}{line}{install}"
