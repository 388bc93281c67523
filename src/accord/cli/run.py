"""`accord run`: a program written for a2a-sdk, served by Accord."""

from typing import Any

import click

from .server_options import agent_options, app_settings, port_options

__all__ = ["run"]


@click.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "--store",
    default="memory://",
    show_default=True,
    metavar="URL",
    help="Where tasks are stored, like sqlite:///tasks.db.",
)
@agent_options
@port_options
@click.argument("program", type=click.Path(exists=True, dir_okay=False))
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def run(program: str, args: tuple[str, ...], store: str, **given: Any) -> None:
    """Run a program written for a2a-sdk 0.2, 0.3 or 1.x, unchanged, with Accord as its server.

    \b
    accord run server.py
    accord run --store sqlite:///tasks.db server.py --host 0.0.0.0

    The program starts its web server as it always did, with its own certificate if it has one. Its
    agent then answers every version of A2A over JSON-RPC and HTTP+JSON; its tasks are in the store,
    whatever task store the program names. Clients reach it at the address in the program's card,
    unless --url names another. What comes after the program's name are its own arguments.
    """
    from ..integrations.a2a_sdk import run_program

    options = app_settings(**given) | {"store": store}
    options["grpc_host"] = options["grpc_host"] or "127.0.0.1"
    try:
        run_program(program, args, **options)
    except ImportError as error:
        if "a2a" not in str(error):
            raise
        raise click.ClickException(str(error)) from error
