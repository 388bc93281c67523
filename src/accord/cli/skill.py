"""accord skill: what a coding agent reads to work with this command."""

from importlib.resources import files
from pathlib import Path

import click

from .terminal import echo

__all__ = ["skill"]

_NAME = "accord"
_FILES = ("SKILL.md", "references/examples.md")


@click.command()
@click.option(
    "--install",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Write the instructions to FOLDER/.agents/skills/accord, where coding agents look for "
    "skills. FOLDER is a project's folder or your home.",
)
def skill(install: Path | None) -> None:
    """Print instructions for coding agents: how to use this command (a SKILL.md).

    \b
    accord skill
    accord skill --install .
    """
    shipped = files("accord.cli") / "skills" / _NAME
    if install is None:
        echo((shipped / _FILES[0]).read_text("utf-8"), nl=False)
        return
    target = install / ".agents" / "skills" / _NAME
    for name in _FILES:
        file = target / name
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text((shipped / name).read_text("utf-8"), "utf-8")
        except OSError as error:
            raise click.ClickException(f"{file} can't be written: {error.strerror}") from error
    echo(f"{target} has the skill of accord {_version()}.")


def _version() -> str:
    from importlib.metadata import version

    return version("accord")
