"""Find the agent in a user's file."""

import importlib.util
import sys
from pathlib import Path

import click

from ..app import Agent

__all__ = ["load_agent"]


def load_agent(where: str) -> Agent:
    """Return the agent `FILE[:name]` names. Without a name: the variable `agent`, or the only agent there is.

    Raises:
        click.ClickException: There is no such file or agent; the message says what is there.
    """
    file, _, name = where.partition(":") if not Path(where).exists() else (where, "", "")
    path = Path(file)
    if not path.is_file():
        raise click.ClickException(f"no file {file}; give a Python file with an agent in it, like hello.py or hello.py:agent")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise click.ClickException(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))  # its neighbours can be imported, as when Python runs it
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    agents = {key: value for key, value in vars(module).items() if isinstance(value, Agent)}
    if name:
        if name not in agents:
            raise click.ClickException(f"{file} has no agent {name!r}; it has {', '.join(agents) or 'none'}")
        return agents[name]
    if "agent" in agents:
        return agents["agent"]
    if len(agents) == 1:
        return next(iter(agents.values()))
    if not agents:
        raise click.ClickException(f'{file} has no agent; write: agent = Agent("My agent")')
    raise click.ClickException(f"{file} has several agents; say which: {', '.join(f'{file}:{key}' for key in agents)}")
