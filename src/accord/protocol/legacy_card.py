"""Agent cards of the versions before 1.0, and the union card that all of them can read.

The members each version needs are disjoint, so one object carries all: to the 1.0 card every served
version adds its own.
"""

import re

import msgspec

from ..model import AgentCard
from .legacy import Json

__all__ = [
    "MEMBERS_SINCE_02",
    "SCHEME_MEMBERS",
    "add_v01",
    "add_v03",
    "card_version",
    "card_versions",
    "needed_members",
    "union",
]

_FLOWS = ("authorizationCode", "clientCredentials", "implicit", "password")
# The type of a security scheme before 1.0, and the member of 1.0 that holds such a scheme.
SCHEME_MEMBERS = {
    "apiKey": "apiKeySecurityScheme",
    "http": "httpAuthSecurityScheme",
    "oauth2": "oauth2SecurityScheme",
    "openIdConnect": "openIdConnectSecurityScheme",
    "mutualTLS": "mtlsSecurityScheme",
}
MEMBERS_SINCE_02 = (
    "securitySchemes",
    "security",
    "supportsAuthenticatedExtendedCard",
    "iconUrl",
    "preferredTransport",
    "additionalInterfaces",
)
_NEEDED = {
    "0.1": ("name", "url", "version", "capabilities", "skills"),
    "0.2": (
        "name",
        "description",
        "url",
        "version",
        "capabilities",
        "defaultInputModes",
        "defaultOutputModes",
        "skills",
    ),
}
_NEEDED["0.3"] = (*_NEEDED["0.2"], "protocolVersion")
_TYPES = {member: type_ for type_, member in SCHEME_MEMBERS.items()}


def card_version(card: Json) -> str:
    """Return the version a card is written in; empty for 1.0 and later."""
    if "supportedInterfaces" in card:
        return ""
    named = re.match(r"0\.\d", str(card.get("protocolVersion") or ""))
    if named:
        return named[0]
    return "0.1" if "authentication" in card or "defaultInputModes" not in card else "0.2"


def needed_members(version: str) -> tuple[str, ...]:
    """Return the members that every card of an old version has."""
    return _NEEDED.get(version, _NEEDED["0.3"])


def card_versions(card: Json) -> tuple[str, ...]:
    """Return the versions that an agent may speak whose card names none, by the members of the
    card: the likeliest first.
    """
    capabilities = card.get("capabilities")
    if any(name in card for name in MEMBERS_SINCE_02) or (
        isinstance(capabilities, dict) and "extensions" in capabilities
    ):
        return ("0.2",)
    skills = card.get("skills")
    is_untagged = isinstance(skills, list) and any(
        isinstance(skill, dict) and "tags" not in skill for skill in skills
    )
    is_first = is_untagged or "authentication" in card
    if is_first or "defaultInputModes" not in card or "description" not in card:
        return ("0.1",)
    return ("0.3", "0.1")


def union(card: AgentCard) -> Json:
    """Return the card with the members every version reads."""
    value: Json = msgspec.to_builtins(card)
    add_v03(value)
    add_v01(value)
    return value


def add_v03(card: Json) -> None:
    """Add what readers of 0.2 and 0.3 need."""
    card.pop("signatures", None)  # of another document than this one now is
    card["protocolVersion"] = "0.3.0"
    card["preferredTransport"] = "JSONRPC"
    places = card["supportedInterfaces"]
    # An agent that names no place for 0.3 speaks it where it speaks 1.0.
    served = [place for place in places if place["protocolVersion"] == "0.3"] or [
        place for place in places if place["protocolVersion"] == "1.0"
    ]
    # `url` speaks the preferred transport: JSON-RPC, the binding every version has.
    served.sort(key=lambda place: place["protocolBinding"] != "JSONRPC")
    card["url"] = served[0]["url"] if served else ""
    card["additionalInterfaces"] = [
        {"url": place["url"], "transport": place["protocolBinding"]}
        for place in served
        if not place.get("tenant")  # its readers would not name it, and reach another agent
    ]
    if card["capabilities"].get("extendedAgentCard"):
        card["supportsAuthenticatedExtendedCard"] = True
    for scheme in card.get("securitySchemes", {}).values():
        scheme |= _flat(scheme)
    if card.get("securityRequirements"):
        card["security"] = write_security(card["securityRequirements"])
    for skill in card["skills"]:
        if skill.get("securityRequirements"):
            skill["security"] = write_security(skill["securityRequirements"])


def add_v01(card: Json) -> None:
    """Add what readers of 0.1 need."""
    if not card.get("url"):
        rpc = [
            place["url"]
            for place in card["supportedInterfaces"]
            if place["protocolBinding"] == "JSONRPC"
        ]
        card["url"] = rpc[0] if rpc else ""
    schemes = [_word(scheme) for scheme in card.get("securitySchemes", {}).values()]
    if schemes:
        card["authentication"] = {"schemes": list(dict.fromkeys(schemes))}


def write_security(requirements: list[Json]) -> list[Json]:
    return [
        {name: scopes.get("list", []) for name, scopes in requirement.get("schemes", {}).items()}
        for requirement in requirements
    ]


def _inner(scheme: Json) -> tuple[str, Json]:
    """The wrapper a 1.0 scheme is in, and what it holds."""
    return next((name, scheme[name]) for name in _TYPES if name in scheme)


def _flat(scheme: Json) -> Json:
    """A 1.0 scheme as 0.2 and 0.3 write it."""
    wrapper, inner = _inner(scheme)
    flat = {"type": _TYPES[wrapper], **inner}
    if wrapper == "apiKeySecurityScheme":
        flat["in"] = flat.pop("location")
    elif wrapper == "oauth2SecurityScheme":
        # The device code flow is 1.0's own.
        flat["flows"] = {
            name: _flow(flow) for name, flow in inner.get("flows", {}).items() if name in _FLOWS
        }
    return flat


def _flow(flow: Json) -> Json:
    return {"scopes": {}, **{name: value for name, value in flow.items() if name != "pkceRequired"}}


def _word(scheme: Json) -> str:
    """What 0.1 calls a scheme."""
    wrapper, inner = _inner(scheme)
    if wrapper == "httpAuthSecurityScheme":
        name: str = inner["scheme"]
        return name.capitalize() if name.lower() in ("bearer", "basic") else name
    return {
        "apiKeySecurityScheme": "ApiKey",
        "oauth2SecurityScheme": "OAuth2",
        "openIdConnectSecurityScheme": "OpenIdConnect",
        "mtlsSecurityScheme": "MutualTLS",
    }[wrapper]
