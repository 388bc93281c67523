"""accord config: the settings that count here, and where they come from."""

import json

import click

from ..client.auth import Logins
from .group import VerbGroup
from .settings import CONFIG, SECRETS, SETTINGS, OutputForm, look_up
from .terminal import echo, echo_json

__all__ = ["config"]


@click.group(cls=VerbGroup)
def config() -> None:
    """See the settings of the commands that talk to agents.

    \b
    accord config show
    """


@config.command()
@CONFIG
@click.option("-o", "--output", type=OutputForm(["text", "json", "answer"]), default="text",
              show_default=True, help="Text for people, or JSON for programs.")  # fmt: skip
@click.pass_context
def show(ctx: click.Context, output: str) -> None:
    """Show each setting, its value and its source. Changes nothing.

    An option wins over a variable, a variable over the nearest .env (or --config), and that over
    ~/.config/a2a-cli/.env. Below are the logins that accord auth login has kept, without their
    secrets, and the file they are in.
    """
    file = ctx.meta.get("accord.config")
    rows = []
    for name, default in SETTINGS.items():
        found = look_up(name, file)
        value = found.value if found is not None else default
        rows.append(
            {
                "name": name,
                "envVar": "A2ACLI_" + name.upper().replace("-", "_"),
                "value": "<redacted>" if found is not None and name in SECRETS else value,
                "source": found.source if found is not None else "default",
                "path": found.path if found is not None else None,
            }
        )
    rows += _logins()
    if output == "json":
        echo_json(json.dumps(rows, indent=2))
        return
    for row in rows:
        where = f"{row['source']} {row['path']}" if row["path"] else row["source"]
        echo(f"{row['name']}: {row['value']} ({where})")


def _logins() -> list[dict[str, str | None]]:
    """What is kept of logins: where, and of which kind."""
    logins = Logins()
    try:
        found = logins.all()
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    return [
        {
            "name": f"login {origin}",
            "envVar": None,
            "value": f"{one.kind} <redacted>",
            "source": "logins",
            "path": str(logins.file),
        }
        for origin, one in sorted(found.items())
    ]
