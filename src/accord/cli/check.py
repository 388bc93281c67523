"""accord check: how well an agent keeps to the protocol."""

import asyncio
import functools
import json
import sys
from collections.abc import Callable
from typing import Any

import click

from ..check import GROUPS, CheckReport, CheckResult, junit, run_checks
from ..client import AgentFault
from ..model import A2AError
from .advice import advised
from .settings import OutputForm, Setting
from .target import AgentTarget, agent_options, agent_words
from .terminal import clean, echo, echo_json, style

__all__ = ["check"]

_MARKS = {"pass": "ok  ", "fail": "FAIL", "skip": "-   "}
_COLORS = {"pass": "green", "fail": "red", "skip": "bright_black"}
_TIMEOUT_S = 30.0
_UNREACHABLE = ("DNS", "REFUSED", "TLS", "TIMEOUT", "NOT_FOUND")
_OUTPUT = click.option("-o", "--output", cls=Setting, default="text", show_default=True,
                       type=OutputForm(["text", "json", "junit", "answer"]),
                       metavar="[text|json|junit]", help="The form of the report: a line per "
                                                         "check, JSON for programs, or XML for "
                                                         "CI servers.")  # fmt: skip


@click.command()
@click.argument("words", nargs=-1, metavar="URL")
@click.option("--message", default="", help="The text to send. Default: Hello, what can you do?")
@click.option(
    "--skill",
    default="",
    metavar="ID",
    help="The skill to use, by its id. By default the agent chooses.",
)
@functools.partial(agent_options, output=_OUTPUT)
def check(target: AgentTarget, words: tuple[str, ...], message: str, skill: str) -> None:
    """Check how well the agent at URL keeps to A2A.

    Looks at its card, then calls every interface the card names; --transport and --a2a-version
    choose some. Each interface is sent one message, a second one if the agent streams, and one to a
    task that is over, which it must refuse. Each failure says what was sent, what came back, and
    what to change. The score is the percentage of points reached, of the checks that apply.

    -o json prints everything found, -o junit the XML that CI servers read. --verbose prints the
    request and the answer of each failure.

    Exits with 0 if nothing failed, 1 if something did, 3 if the agent can't be reached, 4 if it
    needs a credential.

    \b
    accord check http://localhost:8000
    accord check https://hr.corp.example --bearer $TOKEN -o junit > report.xml
    """
    agent_words(target, words, 0, "one URL is enough")
    is_live = target.output in ("text", "answer")
    try:
        report = asyncio.run(_run(target, message, skill, _progress() if is_live else None))
    except (A2AError, AgentFault) as error:
        raise advised(error, target.url, has_credential=target.has_credential) from error
    match target.output:
        case "json":
            echo_json(json.dumps(report.to_dict(), indent=2, ensure_ascii=False))
        case "junit":
            echo(junit(report))
        case _:
            _show(report, is_verbose=target.verbose)
    code = _exit_code(report)
    if code:
        raise click.exceptions.Exit(code)


async def _run(
    target: AgentTarget,
    message: str,
    skill: str,
    on_result: Callable[[CheckResult], None] | None,
) -> CheckReport:
    options: dict[str, Any] = target.connect_options()
    if message:
        options["message"] = message
    if target.transports:
        options["binding"] = target.transports
    if target.version:
        options["version"] = target.version
    with target.watched():
        return await run_checks(
            target.url,
            skill=skill,
            timeout_s=target.timeout_s or _TIMEOUT_S,
            on_result=on_result,
            **options,
        )


def _progress() -> Callable[[CheckResult], None]:
    """Print each result as it comes: one line, under the name of what is checked."""
    before = ""

    def show_result(result: CheckResult) -> None:
        nonlocal before
        about = result.interface or GROUPS["card"]
        if about != before:
            before = about
            echo("\n", style(about, bold=True))
        mark = style(_MARKS[result.status], fg=_COLORS[result.status])
        beside = f"   ({result.reason})" if result.status == "skip" else ""
        echo("  ", mark, f" {result.id:<17} {result.title}{beside}")
        if result.status == "fail":
            echo(f"       {result.reason}")
            echo(f"       {result.fix}")
        sys.stdout.flush()

    return show_result


def _show(report: CheckReport, *, is_verbose: bool) -> None:
    if is_verbose:
        for result in report.failed:
            echo(f"\n{result.id} {result.interface}")
            for line in clean(f"{result.request}\n\n{result.answer}").splitlines():
                echo(f"    {line}")
    counts = dict.fromkeys(_MARKS, 0)
    for result in report.results:
        counts[result.status] += 1
    said = f"{counts['pass']} ok, {counts['fail']} failed, {counts['skip']} not applicable"
    score = style(f"Score: {report.score}", bold=True)
    echo("\n", score, f" of 100   ({said})")


def _exit_code(report: CheckReport) -> int:
    """The specification's codes: the verdict is this command's job, as with `card get
    --validate`.
    """
    if report.category == "LOCKED":
        return 4
    if report.category in _UNREACHABLE:
        return 3
    return 1 if report.failed else 0
