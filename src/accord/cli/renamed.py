"""Options under other names: those of the command line specification work, old ones are refused."""

from collections.abc import Sequence

__all__ = ["new_name", "rewritten"]

_Row = tuple[tuple[str, ...], str, str]

# The verb, and the names that the specification gives its options, where another verb of ours means
# something else by them.
_SPECIFIED: tuple[_Row, ...] = (
    (("task", "list"), "--limit", "--page-size"),
    (("task", "push-config", "create"), "--url", "--webhook"),
    (("task", "push-config", "create"), "--token", "--hook-token"),
)
# The verb, the old name, and today's.
_RENAMED: tuple[_Row, ...] = (
    (("send",), "--key", "--idempotency-key"),
    (("send",), "--push", "--webhook"),
    (("card", "sign"), "--key", "--private-key"),
    (("card", "verify"), "--key-url", "--allow-key-url"),
    (("hub", "add"), "--file", "--from"),
    (("hub", "find"), "--a2a-version", "--speaks"),
    (("hub", "policy", "add"), "--limit", "--calls-per-minute"),
    (("hub", "policy", "try"), "--name", "--caller"),
    (("hub", "probe"), "--message", "--send-message"),
    (("hub",), "--role", "--map-role"),
    (("hub",), "--key", "--hub-key"),
    (("hub",), "--api-key", "--hub-key"),
    (("hub",), "--expires-days", "--expires"),
    (("key", "new"), "--scopes", "--scope"),
    (("listen",), "--agent", "--signed-by"),
    (("listen",), "--credentials", "--auth-credentials"),
    (("listen",), "--json", "--output"),
    (("listen",), "--token", "--hook-token"),
    (("mcp",), "--wait", "--longest-call"),
    (("push", "replay"), "--task", "--task-id"),
    (("push", "test"), "--auth", "--auth-credentials"),
    (("push", "test"), "--token", "--hook-token"),
    *((verb, "--token", "--bearer") for verb in (("send",), ("chat",), ("task",), ("card",))),
    *((verb, "--token", "--bearer") for verb in (("check",), ("conformance",), ("mcp",))),
)


def rewritten(typed: Sequence[str]) -> list[str]:
    """Return what was typed with our names of the specification's options."""
    words = list(typed)
    end = words.index("--") if "--" in words else len(words)
    for verb, other, ours in _SPECIFIED:
        if tuple(words[: len(verb)]) == verb:
            words[:end] = [_replaced(word, other, ours) for word in words[:end]]
    return words


def _replaced(word: str, other: str, ours: str) -> str:
    name, equals, value = word.partition("=")
    return f"{ours}{equals}{value}" if name == other else word


def new_name(path: Sequence[str], option: str) -> str:
    """Return the name that an option of a verb has today; "" if it never had another."""
    for verb, old, new in _RENAMED:
        if old == option and tuple(path[: len(verb)]) == verb:
            return new
    return ""
