"""Run the checks of the table against an agent."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from ..client import AgentFault
from ..model import A2AError, AgentCard
from ..net import safe_url
from .calls import ConversationChecks
from .card import CardEvidence, CheckVerdict, check_card, validate_card
from .checks import skip
from .interface import CallOutcome, CheckedInterface
from .probing import MESSAGE, TIMEOUT_S, Category, no_card, open_agent
from .reach import ReachChecks
from .record import Exchange, ExchangeRecorder
from .report import CheckReport, CheckResult
from .table import CHECKS

__all__ = ["run_checks", "served_card_faults"]

_Add: TypeAlias = Callable[[str, CheckVerdict, str, CallOutcome], None]


async def run_checks(
    place: Any,
    *,
    message: str = MESSAGE,
    skill: str = "",
    timeout_s: float = TIMEOUT_S,
    on_result: Callable[[CheckResult], None] | None = None,
    **options: Any,
) -> CheckReport:
    """Check an agent: its card, then every interface the card names.

    Sends one message per interface, a second one if the agent streams, and one that it must
    refuse.

    Args:
        place: The agent, as `accord.connect` takes it.
        message: The text to send.
        skill: The skill to send it to, as `metadata.skill`.
        timeout_s: How long each call may take.
        on_result: Is called with each result as it comes.
        options: Those of `accord.connect`, like `auth`, `headers`, `binding` and `version`.
    """
    report = CheckReport(url=safe_url(place) if isinstance(place, str) else type(place).__name__)

    def add(id_: str, verdict: CheckVerdict, interface: str, outcome: CallOutcome) -> None:
        result = _result(id_, verdict, interface, outcome)
        report.results.append(result)
        if on_result is not None:
            on_result(result)

    recorder = ExchangeRecorder()
    client = open_agent(place, recorder, timeout_s, **options)
    try:
        try:
            await client.open()
        except (A2AError, AgentFault) as error:
            _add_without_card(add, error, recorder, report)
            return report
        found = client.connection.found
        report.agent = found.card.name
        exchange = _card_exchange(recorder)
        raw = _card_json(exchange, place)
        is_here = not isinstance(place, AgentCard | dict | bytes | str | os.PathLike)
        evidence = CardEvidence(found.card, raw, exchange, found.http, is_here)
        shown = CallOutcome(request=exchange.request, answer=exchange.answer)
        for id_, verdict in (await check_card(evidence)).items():
            add(id_, verdict, "", shown)
        for one in found.interfaces:
            interface = CheckedInterface(client, one, recorder, timeout_s)
            await _check_interface(add, interface, message, skill)
        locked = [r for r in report.results if r.reason == "it needs a credential"]
        if locked:
            report.category = Category.LOCKED
    finally:
        await client.close()
    return report


async def served_card_faults(
    place: Any, *, timeout_s: float = TIMEOUT_S, **options: Any
) -> list[str]:
    """Return what is wrong with the card of an agent, as it is served: what the check `card.valid`
    says. Takes what `run_checks` takes.

    Raises:
        A2AError, AgentFault: There is no card that can be read.
    """
    recorder = ExchangeRecorder()
    client = open_agent(place, recorder, timeout_s, **options)
    try:
        await client.open()
        exchange = _card_exchange(recorder)
        return validate_card(_card_json(exchange, place), exchange.url)
    finally:
        await client.close()


def _result(id_: str, verdict: CheckVerdict, interface: str, outcome: CallOutcome) -> CheckResult:
    check = CHECKS[id_]
    return CheckResult(
        id=check.id,
        title=check.title,
        group=check.group,
        points=check.points,
        status=verdict.status,
        interface=interface,
        request=outcome.request,
        answer=outcome.answer,
        reason=verdict.reason,
        fix=verdict.fix,
    )


async def _check_interface(
    add: _Add, interface: CheckedInterface, message: str, skill: str
) -> None:
    """Run the checks of one interface; skip those that can't be made after an earlier one."""
    reach = ReachChecks(interface)
    for group in (reach, ConversationChecks(interface, message, skill)):
        for id_, check in group.checks.items():
            if reach.why_not:
                add(id_, skip(reach.why_not), interface.name, CallOutcome())
            else:
                verdict = await check()
                add(id_, verdict, interface.name, group.outcome)


def _add_without_card(
    add: _Add,
    error: A2AError | AgentFault,
    recorder: ExchangeRecorder,
    report: CheckReport,
) -> None:
    """The results where there is no card to go by: found or valid fails, the rest can't be made."""
    why = no_card(error, recorder, report.url)
    exchange = _card_exchange(recorder)
    outcome = CallOutcome(request=exchange.request, answer=exchange.answer or why.said)
    report.category = why.category
    is_found = why.category in (Category.BAD_JSON, Category.BAD_SHAPE, Category.NO_INTERFACE)
    for id_ in CHECKS:
        if id_ == ("card.valid" if is_found else "card.found"):
            add(id_, CheckVerdict("fail", why.said, why.sentence), "", outcome)
        elif id_ == "card.found":
            add(id_, CheckVerdict("pass"), "", outcome)
        elif id_ == "reach.connects" and is_found:
            add(id_, CheckVerdict("fail", "no interface is known", why.sentence), "", CallOutcome())
        else:
            add(id_, CheckVerdict("skip", "there is no card to go by"), "", CallOutcome())


def _card_exchange(recorder: ExchangeRecorder) -> Exchange:
    """How the card came: the last of the first GETs; empty if it was handed over."""
    found = Exchange()
    for exchange in recorder.exchanges:
        if exchange.verb != "GET":
            break
        found = exchange
        if exchange.status == 200:
            break
    return found


def _card_json(exchange: Exchange, place: Any) -> Any:
    """The card as it was written, before any repair."""
    body: bytes | str = exchange.body
    if not exchange.url:
        if isinstance(place, AgentCard):
            return msgspec.to_builtins(place)
        if isinstance(place, dict):
            return place
        is_path = isinstance(place, os.PathLike) or not str(place).lstrip().startswith("{")
        if isinstance(place, bytes) or not is_path:
            body = place
        else:
            body = Path(str(place).removeprefix("file://")).expanduser().read_bytes()
    try:
        return json.loads(body)
    except ValueError:
        return None
