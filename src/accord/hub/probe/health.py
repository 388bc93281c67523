"""Health: how a probe's result changes it. Pure: no clock, no database.

| state | means |
|---|---|
| new | not probed yet |
| up | every interface answers, and the last message was answered |
| degraded | an interface fails, it is slow and much slower than usual, or a message failed once |
| locked | it needs a credential the hub has not |
| broken | reachable, but answers can't be read, or no message succeeds |
| down | three rounds in a row found nobody |
| gone | down for seven days |
"""

from typing import Any, NamedTuple

import msgspec

from ...check import Category, InterfaceProbe, ProbeReport
from ..registry import Health

__all__ = ["Speed", "after_message", "after_reach"]

MISSES = 3  # rounds, until an agent is down
GONE_MS = 7 * 24 * 3600 * 1000
MESSAGES = 2  # so many that failed in a row make an agent broken
# An agent is degraded if it is this many times slower than its usual median, and at least this
# slow: nobody minds 4 ms instead of 1.
SLOWER, SLOW_MS = 3.0, 500.0

_AWAY = (Category.DNS, Category.REFUSED, Category.TLS, Category.TIMEOUT)


class Speed(NamedTuple):
    """How fast an agent answers; None where too little is known."""

    p50_ms: float | None = None
    p95_ms: float | None = None
    usual_ms: float | None = None  # the median of seven days
    uptime_30d: float | None = None


UNKNOWN = Speed()


def after_reach(before: Health, report: ProbeReport, now: int, speed: Speed = UNKNOWN) -> Health:
    """Return the health after a round of free probes."""
    detail = dict(before.detail)
    detail["interfaces"] = [
        {"interface": one.interface, "category": str(one.category), "ms": one.ms, "said": one.said}
        for one in report.interfaces
    ]
    found = report.interfaces or [
        InterfaceProbe(
            interface="", category=report.category, sentence=report.sentence, said=report.said
        )
    ]
    good = [one for one in found if one.is_ok]
    bad = [one for one in found if not one.is_ok]
    is_away = not good and all(one.category in _AWAY for one in bad)
    misses = int(detail.get("misses", 0)) + 1 if is_away else 0
    detail["misses"] = misses
    if is_away:
        return _away(before, bad[0], misses, detail, now, speed)
    if not bad:
        return _answering(before, detail, now, speed)
    locked = [one for one in bad if one.category is Category.LOCKED]
    if good:
        which = f"{bad[0].interface} fails. {bad[0].sentence}"
        return _health("degraded", bad[0].category, which, detail, now, speed)
    if locked:
        return _health("locked", Category.LOCKED, locked[0].sentence, detail, now, speed)
    return _health("broken", bad[0].category, bad[0].sentence, detail, now, speed)


def after_message(before: Health, found: InterfaceProbe, now: int) -> Health:
    """Return the health after a real message."""
    detail = dict(before.detail)
    speed = Speed(before.p50_ms, before.p95_ms, None, before.uptime_30d)
    failures = 0 if found.is_ok else int(_message_of(detail).get("failures", 0)) + 1
    detail["message"] = {
        "category": str(found.category),
        "sentence": found.sentence,
        "said": found.said[:300],
        "failures": failures,
        "at_ms": now,
        "ms": found.ms,
    }
    if before.state in ("down", "gone", "locked") and not found.is_ok:
        # What reach says of it counts for more, and stays.
        return msgspec.structs.replace(before, detail=detail)
    if found.category is Category.LOCKED:
        return _health("locked", found.category, found.sentence, detail, now, speed)
    if found.category in _AWAY:
        return msgspec.structs.replace(before, detail=detail)  # the next round says so
    if before.state in ("broken", "degraded") and not _is_about_messages(before):
        return msgspec.structs.replace(before, detail=detail)
    return _answering(before, detail, now, speed)


def _is_about_messages(health: Health) -> bool:
    interfaces = health.detail.get("interfaces")
    return all(
        one.get("category") == Category.OK
        for one in (interfaces if isinstance(interfaces, list) else ())
    )


def _answering(before: Health, detail: dict[str, Any], now: int, speed: Speed) -> Health:
    """The health of an agent whose every interface answers: its messages decide."""
    message = _message_of(detail)
    failures = int(message.get("failures", 0))
    if failures:
        category = Category(str(message.get("category", Category.AGENT_FAILED)))
        said, sentence = str(message.get("said", "")), str(message.get("sentence", ""))
        words = f"The last message failed: {said}. {sentence}" if said else sentence
        state = "broken" if failures >= MESSAGES else "degraded"
        return _health(state, category, words, detail, now, speed)
    p95, usual = speed.p95_ms, speed.usual_ms
    if p95 is not None and usual is not None and p95 > max(SLOWER * usual, SLOW_MS):
        words = (
            f"It takes {p95:.0f} ms (95 of 100 probes), usually {usual:.0f} ms. Look at what it "
            "waits for."
        )
        return _health("degraded", Category.TOO_SLOW, words, detail, now, speed)
    return _health("up", "", "", detail, now, speed)


def _away(
    before: Health,
    bad: InterfaceProbe,
    misses: int,
    detail: dict[str, Any],
    now: int,
    speed: Speed,
) -> Health:
    if before.state in ("down", "gone"):
        is_gone = before.state == "gone" or now - before.since_ms >= GONE_MS
        state = "gone" if is_gone else "down"
    else:
        state = "down" if misses >= MISSES else "degraded"
    words = bad.sentence if state != "degraded" else f"{bad.sentence} ({misses} of {MISSES} rounds)"
    return _health(state, bad.category, words, detail, now, speed)


def _message_of(detail: dict[str, Any]) -> dict[str, Any]:
    found = detail.get("message")
    return found if isinstance(found, dict) else {}


def _health(
    state: Any, category: str, sentence: str, detail: dict[str, Any], now: int, speed: Speed
) -> Health:
    return Health(
        state=state,
        category=str(category) if category else "",
        sentence=sentence,
        at_ms=now,
        p50_ms=speed.p50_ms,
        p95_ms=speed.p95_ms,
        uptime_30d=speed.uptime_30d,
        detail=detail,
    )
