"""Which credentials an agent gets: by the schemes of its card."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from ...model import AgentCard, SecurityRequirement, SecurityScheme, Unauthenticated
from .credentials import AgentPlace, Bearer, Bindable, ClientCert, Credential, Secret

__all__ = ["Auth", "Chosen", "certificate_of", "choose"]

Given: TypeAlias = Credential | Bindable | str | Callable[[], str | Awaitable[str]]
Auth: TypeAlias = Given | list[Given] | Mapping[str, Given] | None
Chosen: TypeAlias = list[tuple[Credential, SecurityScheme | None]]


def choose(card: AgentCard, auth: Auth, place: AgentPlace) -> Chosen:
    """Return the credentials to use with an agent, each with the scheme it is for.

    The first of the card's alternatives that they satisfy is taken. With an agent that declares
    nothing they are sent as they are.

    Raises:
        Unauthenticated: The card wants something else, and what.
    """
    named, others = _sorted(auth)
    if not named and not others:
        return []
    given = [*named.values(), *others]
    if not card.security_requirements:
        schemes = card.security_schemes.values()
        fitting: Chosen = [(c, s) for c in given for s in schemes if c.fits(s)]
        unnamed: Chosen = [(c, None) for c in given]
        return _bound(fitting[:1] or unnamed, place, {})
    for requirement in card.security_requirements:
        found = _satisfy(requirement, card, named, others)
        if found is not None:
            scopes = {
                id(card.security_schemes.get(name)): items.items
                for name, items in requirement.schemes.items()
            }
            return _bound(found, place, scopes)
    wanted = " or ".join(" with ".join(r.schemes) or "nothing" for r in card.security_requirements)
    raise Unauthenticated(
        f"{card.name}: none of the credentials given fits; the card asks for {wanted[:300]}"
    )


def _satisfy(
    requirement: SecurityRequirement,
    card: AgentCard,
    named: Mapping[str, Credential],
    others: list[Credential],
) -> Chosen | None:
    found: Chosen = []
    for name in requirement.schemes:
        scheme = card.security_schemes.get(name)
        credential = named.get(name) or next(
            (c for c in others if scheme is not None and c.fits(scheme)), None
        )
        if credential is None:
            return None
        found.append((credential, scheme))
    return found


def _bound(found: Chosen, place: AgentPlace, scopes: Mapping[int, list[str]]) -> Chosen:
    bound: Chosen = []
    for credential, scheme in found:
        made: Credential | None = credential
        if isinstance(credential, Bindable):
            made = credential.bound(place, scheme, scopes.get(id(scheme), []))
        if made is not None:
            bound.append((made, scheme))
    return bound


def _sorted(auth: Auth) -> tuple[Mapping[str, Credential], list[Credential]]:
    match auth:
        case None:
            return {}, []
        case Mapping():
            return {name: _credential(item) for name, item in auth.items()}, []
        case list() | tuple():
            return {}, [_credential(item) for item in auth]
    return {}, [_credential(auth)]


def _credential(given: Given) -> Credential:
    if isinstance(given, str):
        return Secret(given)
    if hasattr(given, "fits"):
        return given  # type: ignore[return-value]  # what is bound has it too
    if callable(given):
        return Bearer(given)
    raise TypeError(
        f"a {type(given).__name__} is not a credential: give a token, a key, a function that "
        "returns one, or ApiKey, Basic, Bearer, ClientCert, ClientCredentials, DeviceCode, "
        "AuthorizationCode"
    )


def certificate_of(auth: Auth) -> ClientCert | None:
    """Return the client certificate among the credentials."""
    named, others = _sorted(auth)
    return next((c for c in (*named.values(), *others) if isinstance(c, ClientCert)), None)
