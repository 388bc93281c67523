"""The parts of a message, as typed: texts, files and data, in their order."""

import json
import mimetypes
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import click

from ..model import File, Part

__all__ = ["PartsCommand", "file_part", "part_options", "read_parts"]

_KINDS = {
    "--text": "text",
    "--text-part": "text",
    "-f": "file",
    "--file": "file",
    "--file-part": "file",
    "-d": "data",
    "--data": "data",
    "--data-part": "data",
    "--media-type": "media_type",
}
_ORDER = "accord.parts"
_ANY = "application/octet-stream"
_BY_REFERENCE = ("http", "https", "s3", "gs", "ftp", "ftps")


class PartsCommand(click.Command):
    """Keeps the order in which the kinds of parts were typed: click keeps it for each option
    alone.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        order, words = [], iter(args)
        for word in words:
            if word == "--":
                break
            name, has_value, _ = word.partition("=")
            if name in _KINDS:
                order.append(_KINDS[name])
                if not has_value:
                    next(words, None)  # its value
            elif word[:2] in ("-f", "-d"):
                order.append(_KINDS[word[:2]])
        ctx.meta[_ORDER] = order
        return super().parse_args(ctx, args)


def part_options(function: Any) -> Any:
    for option in (
        click.option("--media-type", multiple=True, help="The media type of the part before this "
                                                         "option."),
        click.option(
            "-d", "--data", "--data-part", "data", multiple=True, metavar="JSON|FILE|-",
            help="A data part: JSON, a JSON file, or - for stdin. May be repeated."
        ),
        click.option(
            "-f", "--file", "--file-part", "file", multiple=True, metavar="PATH|URL|-",
            help="A file to send, or - for stdin. A URL is sent as it is, not fetched. May be "
                 "repeated."
        ),
        click.option(
            "--text", "--text-part", "text_", multiple=True, help="A text part. May be repeated."
        ),
    ):  # fmt: skip
        function = option(function)
    return function


def read_parts(
    first: str | None,
    text: tuple[str, ...],
    file: tuple[str, ...],
    data: tuple[str, ...],
    media_type: tuple[str, ...],
) -> list[Part]:
    """Return the parts in the order they were typed; `first` is the word, which stands before."""
    if [first, *data, *file].count("-") > 1:
        raise click.UsageError("standard input can be read only once")
    parts = [Part(text=sys.stdin.read() if first == "-" else first)] if first is not None else []
    left = {
        "text": list(text),
        "file": list(file),
        "data": list(data),
        "media_type": list(media_type),
    }
    may_be_typed = False
    for kind in click.get_current_context().meta.get(_ORDER, []):
        if not left[kind]:
            raise click.UsageError(f"write --{kind.replace('_', '-')}=VALUE here")
        value = left[kind].pop(0)
        match kind:
            case "text":
                parts.append(Part(text=value))
            case "file":
                parts.append(_stdin_part() if value == "-" else file_part(value))
            case "data":
                parts.append(Part(data=_json(value), media_type="application/json"))
            case _:
                if not may_be_typed:
                    raise click.UsageError("--media-type comes after the part that it is for")
                parts[-1].media_type = value
        may_be_typed = kind != "media_type"
    if not parts:
        raise click.UsageError("nothing to send: give a text, - for standard input, --file or "
                               "--data")  # fmt: skip
    return parts


def file_part(where: str) -> Part:
    """Return a file as a part: its bytes, or its address if it is a URL."""
    url = urlsplit(where)
    if url.scheme in _BY_REFERENCE and url.netloc:
        name = unquote(url.path).rpartition("/")[2]
        return Part(url=where, filename=name, media_type=_kind(name))
    path = Path(unquote(url.path) if url.scheme == "file" else where).expanduser()
    try:
        return File.path(path, media_type=_kind(path.name)).part()
    except OSError as error:
        raise click.UsageError(f"{path} can't be read: {error.strerror}") from None


def _stdin_part() -> Part:
    return Part(raw=sys.stdin.buffer.read(), filename="stdin", media_type=_ANY)


def _kind(name: str) -> str:
    return mimetypes.guess_type(name)[0] or _ANY


def _json(given: str) -> Any:
    try:
        is_file = Path(given).is_file()
    except (OSError, ValueError):  # too long for a name
        is_file = False
    try:
        if given == "-":
            return json.loads(sys.stdin.read())
        return json.loads(Path(given).read_text(encoding="utf-8") if is_file else given)
    except (ValueError, OSError) as error:
        what = "is no JSON" if is_file or given == "-" else "is neither JSON nor a file"
        shown = given if len(given) <= 60 else f"{given[:60]}..."
        raise click.UsageError(f"--data {shown} {what}: {error}") from None
