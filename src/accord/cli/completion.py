"""accord completion: completion of commands and options in your shell."""

import click
from click.shell_completion import get_completion_class

__all__ = ["completion"]


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that completes accord's commands in SHELL.

    \b
    bash:  eval "$(accord completion bash)"      in ~/.bashrc
    zsh:   eval "$(accord completion zsh)"       in ~/.zshrc
    fish:  accord completion fish > ~/.config/fish/completions/accord.fish
    """
    found = get_completion_class(shell)
    assert found is not None  # the choices above are those click has
    root = click.get_current_context().find_root().command
    click.echo(found(root, {}, "accord", "_ACCORD_COMPLETE").source())
