"""accord completion: completion of commands and options in your shell."""

import os

import click
from click.shell_completion import (
    CompletionItem,
    ShellComplete,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

from .terminal import echo

__all__ = ["completion"]


_POWERSHELL = """\
Register-ArgumentCompleter -Native -CommandName %(prog_name)s -ScriptBlock {
    param($word, $line, $at)
    $env:COMP_WORDS = $line.ToString()
    $env:COMP_WORD = $word
    $env:%(complete_var)s = "powershell_complete"
    %(prog_name)s | ForEach-Object {
        $kind, $value, $help = $_ -split "`t", 3
        if (-not $help) { $help = $value }
        [System.Management.Automation.CompletionResult]::new($value, $value, 16, $help)
    }
    Remove-Item Env:COMP_WORDS, Env:COMP_WORD, Env:%(complete_var)s
}
"""


@add_completion_class
class PowerShellComplete(ShellComplete):
    """Completion in PowerShell, which click does not have."""

    name = "powershell"
    source_template = _POWERSHELL

    def get_completion_args(self) -> tuple[list[str], str]:
        words = split_arg_string(os.environ["COMP_WORDS"])
        word = os.environ.get("COMP_WORD", "")
        args = words[1:-1] if word and words[1:] else words[1:]
        return args, word

    def format_completion(self, item: CompletionItem) -> str:
        return f"{item.type}\t{item.value}\t{item.help or ''}"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish", "powershell"]))
def completion(shell: str) -> None:
    """Print the script that completes accord's commands in SHELL.

    \b
    bash:  eval "$(accord completion bash)"      in ~/.bashrc
    zsh:   eval "$(accord completion zsh)"       in ~/.zshrc
    fish:  accord completion fish > ~/.config/fish/completions/accord.fish
    PowerShell:  accord completion powershell | Out-String | Invoke-Expression   in $PROFILE
    """
    found = get_completion_class(shell)
    assert found is not None  # the choices above are those click has
    root = click.get_current_context().find_root().command
    echo(found(root, {}, "accord", "_ACCORD_COMPLETE").source())
