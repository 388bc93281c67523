"""`accord run`: a program written for a2a-sdk, served by Accord."""

from typing import Any

import click

__all__ = ["run"]


@click.command(context_settings={"ignore_unknown_options": True})
@click.option(
    "--store",
    default="memory://",
    show_default=True,
    help="Where tasks are kept, as sqlite:///tasks.db.",
)
@click.option("--grpc-port", type=int, help="Also answer gRPC on this port of this machine.")
@click.argument("program", type=click.Path(exists=True, dir_okay=False))
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def run(program: str, args: tuple[str, ...], store: str, grpc_port: int | None) -> None:
    """Run a program written for a2a-sdk 0.2, 0.3 or 1.x, unchanged, with Accord as its server.

    \b
    accord run server.py
    accord run --store sqlite:///tasks.db server.py --host 0.0.0.0

    The program starts its web server as it always did. Its agent then answers every version of
    A2A over JSON-RPC and HTTP+JSON; its tasks are in the store, whatever task store the program
    names. What comes after the program's name are its own arguments.
    """
    from ..integrations.a2a_sdk import run_program

    options: dict[str, Any] = {"store": store}
    if grpc_port is not None:
        options["grpc_port"] = grpc_port
    try:
        run_program(program, args, **options)
    except ImportError as error:
        if "a2a" not in str(error):
            raise
        raise click.ClickException(str(error)) from error
