"""Options under their old names: they work for one more minor release, and say what to type."""

from collections.abc import Sequence

from .terminal import echo

__all__ = ["rewritten"]

# The verb, the old name, the new one, and the unit that the value has to have now.
_RENAMED = (
    (("send",), "--key", "--idempotency-key", ""),
    (("card", "sign"), "--key", "--private-key", ""),
    (("hub",), "--key", "--api-key", ""),
    (("hub",), "--expires-days", "--expires", "d"),
    (("listen",), "--json", "--output=json", ""),
    (("mcp",), "--wait", "--longest-call", ""),
    (("hub", "probe"), "--message", "--send-message", ""),
    (("hub", "policy", "add"), "--limit", "--calls-per-minute", ""),
    (("task", "list"), "--limit", "--page-size", ""),
    (("send",), "--push", "--webhook", ""),
    (("listen",), "--agent", "--signed-by", ""),
    (("listen",), "--token", "--hook-token", ""),
    (("push", "test"), "--token", "--hook-token", ""),
)


def rewritten(typed: Sequence[str]) -> list[str]:
    """Return what was typed with today's names of options, and warn of each old one."""
    words = list(typed)
    end = words.index("--") if "--" in words else len(words)
    for verb, old, new, unit in _RENAMED:
        if tuple(words[: len(verb)]) != verb:
            continue
        for i, word in enumerate(words[:end]):
            name, equals, value = word.partition("=")
            if name != old:
                continue
            echo(f"Warning: {old} is now {new}; the next release drops the old name", err=True)
            words[i] = f"{new}{equals}{value}{unit if equals else ''}"
            if unit and not equals and i + 1 < end:
                words[i + 1] += unit
    return words
