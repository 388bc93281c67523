"""Files that are named on the command line: text, or JSON."""

import json
from pathlib import Path
from typing import Any

import click

__all__ = ["read_file"]


def read_file(file: Path) -> str | dict[str, Any]:
    """Return the text of a file, or the JSON object that it is.

    Raises:
        click.ClickException: It can't be read, or begins as an object and is none.
    """
    try:
        text = file.read_text()
    except OSError as error:
        raise click.ClickException(f"{file} can't be read: {error.strerror}") from error
    except ValueError as error:
        raise click.ClickException(f"{file} is not text") from error
    if not text.lstrip().startswith("{"):
        return text
    try:
        value: dict[str, Any] = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.ClickException(f"{file} is not JSON: {error}") from error
    return value
