"""Find the agent in a user's file."""

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

import click

from ..agent import Agent

__all__ = ["load_agent"]


def load_agent(where: str) -> Agent:
    """Return the agent `FILE[:name]` names. Without a name: the variable `agent`, or the only agent
    there is.

    Raises:
        click.ClickException: There is no such file or agent, or the file can't be run; the message
        says what is there, and where.
    """
    file, _, name = where.partition(":") if not Path(where).exists() else (where, "", "")
    path = Path(file)
    if not path.is_file():
        raise click.ClickException(
            f"no file {file}; give a Python file with an agent in it, like hello.py or "
            "hello.py:agent"
        )
    agents = {key: value for key, value in vars(_run(path)).items() if isinstance(value, Agent)}
    if name:
        if name not in agents:
            raise click.ClickException(
                f"{file} has no agent {name!r}; it has {', '.join(agents) or 'none'}"
            )
        return agents[name]
    if "agent" in agents:
        return agents["agent"]
    if len(agents) == 1:
        return next(iter(agents.values()))
    if not agents:
        raise click.ClickException(f'{file} has no agent; write: agent = Agent("My agent")')
    raise click.ClickException(
        f"{file} has several agents; say which: {', '.join(f'{file}:{key}' for key in agents)}"
    )


def _run(path: Path) -> ModuleType:
    """Run the file as Python imports it."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise click.ClickException(f"{path} is not a Python file; give one whose name ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(
        0, str(path.resolve().parent)
    )  # its neighbours can be imported, as when Python runs it
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        where = f"{error.filename or path}, line {error.lineno}"
        raise click.ClickException(
            f"{where}: {error.msg}\n    {(error.text or '').strip()}"
        ) from error
    except Exception as error:
        raise click.ClickException(_told(path, error)) from error
    return module


def _told(path: Path, error: Exception) -> str:
    """Say what went wrong and on which line of the user's file: the frames above and below it are
    not theirs.
    """
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename) == path.absolute()
    ]
    where = f"{path}, line {frames[-1].lineno}: " if frames else f"{path}: "
    line = f"\n    {frames[-1].line}" if frames else ""
    install = ""
    if isinstance(error, ModuleNotFoundError) and error.name:
        install = (
            f"\nIf it is a package: {sys.executable} -m pip install {error.name.partition('.')[0]}"
        )
    return f"{where}{type(error).__name__}: {error}{line}{install}"
