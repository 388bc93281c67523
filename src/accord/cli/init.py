"""accord init: a new project with an agent, a test and a Dockerfile."""

import re
import shutil
from importlib.metadata import version
from pathlib import Path

import click

from ..extras import installed_from
from ..slug import slug_of
from .table import OUTPUT, is_json, print_json
from .terminal import echo

__all__ = ["init"]

_AGENT = '''"""{name}: an agent."""

from accord import Agent, Context

agent = Agent("{name}", description="Greets people.")


@agent.skill(examples=["Ada"])
async def greet(name: str, ctx: Context):
    """Greet someone, word by word."""
    ctx.status("thinking of something nice")
    for word in ("Hello,", f"{{name}}!"):
        yield f"{{word}} "
'''

_TEST = '''"""The agent, called in the same process."""

import asyncio

from accord import connect

from agent import agent


def test_it_greets():
    async def ask():
        async with connect(agent) as client:
            return await client.send("Ada")

    assert asyncio.run(ask()).text.strip() == "Hello, Ada!"
'''

_DOCKERFILE = """FROM python:3.12-slim
WORKDIR /srv
COPY requirements.txt *.whl ./
RUN pip install --no-cache-dir -r requirements.txt
COPY agent.py .
RUN useradd --create-home agent && mkdir .accord && chown agent .accord
USER agent
# Tasks are kept in .accord: mount a volume there, and they survive the container.
VOLUME /srv/.accord
EXPOSE 8000
# --no-auth: whoever reaches the port may call. Give the agent auth= and take it out before you
# publish the port.
CMD ["accord", "serve", "agent.py", "--host", "0.0.0.0", "--no-auth"]
"""

_README = """# {name}

    pip install -r requirements.txt
    accord serve agent.py
    accord chat http://localhost:8000

    pip install pytest
    python -m pytest

    docker build -t {image} .
    docker run -p 127.0.0.1:8000:8000 {image}
"""


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--name", default="", metavar="NAME", help="The agent's name. By default that of the folder."
)
@OUTPUT
def init(folder: Path, name: str, output: str) -> None:
    """Make a project in FOLDER: an agent, a test, a Dockerfile.

    \b
    accord init hello
    cd hello && accord serve agent.py
    """
    words = re.sub(r"[-_]+", " ", folder.resolve().name).strip()
    name = name or words.capitalize()
    if not name.isprintable() or any(char in name for char in '"\\{}'):
        raise click.UsageError(
            "a name must not have quotes, backslashes or braces; give another one with --name"
        )
    image = slug_of(name)
    wheel = _wheel()
    files = {
        "agent.py": _AGENT.format(name=name),
        "test_agent.py": _TEST,
        "requirements.txt": f"./{wheel.name}\n" if wheel else "accord\n",
        "Dockerfile": _DOCKERFILE,
        ".dockerignore": ".accord\n.git\n__pycache__\n",
        "README.md": _README.format(name=name, image=image),
    }
    there = [file for file in files if (folder / file).exists()]
    if there:
        raise click.ClickException(f"{folder} has {', '.join(there)} already; give another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            (folder / file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(
            f"{folder} can't be written: {error.strerror}; give another folder"
        ) from None
    made = [folder / file for file in files]
    if wheel and wheel.exists():
        shutil.copy(wheel, folder)
        made.append(folder / wheel.name)
    if is_json(output):
        print_json({"folder": str(folder), "files": [str(path) for path in made]})
    else:
        for path in made:
            echo(path)
    echo(f"\nTry it:  cd {folder} && accord serve agent.py", err=True)
    if wheel and not wheel.exists():
        echo(
            f"requirements.txt names {wheel.name}. Make it with `make release` in "
            f"{wheel.parents[1]}, then copy it:  cp {wheel} {folder}",
            err=True,
        )


def _wheel() -> Path | None:
    """Return the wheel a new project installs: the one Accord came from, or that its clone makes.

    None if Accord came from an index; then the project names it as that index does.
    """
    place = installed_from()
    if place is None or place.suffix == ".whl":
        return place
    return place / "dist" / f"accord-{version('accord')}-py3-none-any.whl"
