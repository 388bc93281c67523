"""The last word on an agent card: a function of the user's, and what its result has to be."""

import inspect
from collections.abc import Callable
from typing import Any

import msgspec

from ...model import AgentCard
from ...net import parse_url
from ...protocol import lenient

__all__ = ["edited"]


def edited(card: AgentCard, function: Callable[[AgentCard], Any]) -> AgentCard:
    """Return the card that a user's function makes of this one: what it returns, or the card it
    changed. It gets a copy, so nothing it changes stays with the agent.

    Raises:
        TypeError: It is not a plain function, or its result is not a card.
        ValueError: The card lacks what clients need; says what.
    """
    name = f"@agent.card {getattr(function, '__qualname__', function)}"
    given = msgspec.convert(msgspec.to_builtins(card), AgentCard)
    found = function(given)
    if inspect.isawaitable(found):
        if inspect.iscoroutine(found):
            found.close()
        raise TypeError(f"{name}: write def, not async def: cards are made without waiting")
    found = given if found is None else found
    if not isinstance(found, AgentCard):
        raise TypeError(
            f"{name} returned {type(found).__name__}; return the AgentCard, or nothing to keep "
            "the one it was given"
        )
    try:
        found = msgspec.convert(msgspec.to_builtins(found), AgentCard)
    except msgspec.ValidationError as error:
        wrong = lenient.bad_field(error)
        raise ValueError(f"{name}: the card is not valid: {wrong}") from None
    except TypeError as error:
        raise ValueError(f"{name}: the card is not valid: {error}") from None
    for problem in _problems(found):
        raise ValueError(f"{name}: the card is not valid: {problem}")
    return found


def _problems(card: AgentCard) -> list[str]:
    """What clients could not do with this card."""
    found = [f"{field} is empty" for field in ("name", "version") if not getattr(card, field)]
    if not card.supported_interfaces:
        found.append("supported_interfaces is empty, so no client could reach the agent")
    for i, place in enumerate(card.supported_interfaces):
        found += [
            f"supported_interfaces[{i}].{field} is empty"
            for field in ("url", "protocol_binding", "protocol_version")
            if not getattr(place, field)
        ]
        if place.url and place.protocol_binding in ("JSONRPC", "HTTP+JSON"):
            try:
                parse_url(place.url)
            except ValueError as error:
                found.append(f"supported_interfaces[{i}].url is {place.url!r}: {error}")
    ids = [skill.id for skill in card.skills]
    found += [f"skills[{i}].id is empty" for i, one in enumerate(ids) if not one]
    found += [f"two skills have the id {one!r}" for one in sorted(set(ids)) if ids.count(one) > 1]
    for requirement in card.security_requirements:
        found += [
            f"security_requirements names {scheme!r}, which is not in security_schemes"
            for scheme in requirement.schemes
            if scheme not in card.security_schemes
        ]
    return found
