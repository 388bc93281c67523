"""Agent cards of the versions before 1.0, and the union card that all of them can read.

The members each version needs are disjoint, so one object carries all: to the 1.0 card every served
version adds its own.
"""

from typing import Any

import msgspec

from ..model import AgentCard
from .legacy import Json, need, read_modes, some

__all__ = ["MEMBERS_SINCE_02", "SCHEME_MEMBERS", "add_v01", "add_v03", "read_card", "union"]

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
_TYPES = {member: type_ for type_, member in SCHEME_MEMBERS.items()}


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
        {"url": place["url"], "transport": place["protocolBinding"]} for place in served
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


def read_security(requirements: list[Json]) -> list[Json]:
    return [
        {"schemes": {name: {"list": scopes} for name, scopes in requirement.items()}}
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


# Reading, for clients


def read_card(value: Any) -> Json:
    """Return the 1.0 card, as JSON, of a card of 0.1, 0.2 or 0.3.

    Of several OAuth flows in one scheme the first is kept, as 1.0 has one. Signatures belong to the
    old document and are dropped.
    """
    value = need(value, "card")
    card: Json = {
        "name": value.get("name") or "",
        "description": value.get("description") or "",
        "version": value.get("version") or "",
        "supportedInterfaces": _read_interfaces(value),
        "capabilities": _read_capabilities(value),
        "defaultInputModes": read_modes(value.get("defaultInputModes") or ["text/plain"]),
        "defaultOutputModes": read_modes(value.get("defaultOutputModes") or ["text/plain"]),
        "skills": [_read_skill(skill) for skill in value.get("skills") or []],
        **some(value, "documentationUrl", "iconUrl"),
    }
    provider = value.get("provider")
    if provider:
        card["provider"] = {
            "organization": provider.get("organization") or "",
            "url": provider.get("url") or "",
        }
    schemes = {
        name: _read_scheme(scheme) for name, scheme in (value.get("securitySchemes") or {}).items()
    }
    security = read_security(value.get("security") or [])
    if not schemes and value.get("authentication"):
        schemes = {word: _read_word(word) for word in value["authentication"].get("schemes") or []}
        security = [{"schemes": {word: {"list": []}}} for word in schemes]
    if schemes:
        card["securitySchemes"] = schemes
    if security:
        card["securityRequirements"] = security
    return card


def _version_of(card: Json) -> str:
    """Major and minor: what the card says, or what its members give away."""
    told = card.get("protocolVersion")
    if told:
        return ".".join(str(told).split(".")[:2])
    if any(card.get(name) is not None for name in MEMBERS_SINCE_02):
        return "0.2"
    if (card.get("capabilities") or {}).get("extensions"):
        return "0.2"
    is_bare = not card.get("description") or not card.get("defaultInputModes")
    is_bare = is_bare or any(not skill.get("tags") for skill in card.get("skills") or [])
    return "0.1" if card.get("authentication") is not None or is_bare else "0.2"


def _read_interfaces(card: Json) -> list[Json]:
    version = _version_of(card)
    places = [(card.get("url") or "", card.get("preferredTransport") or "JSONRPC")]
    for place in card.get("additionalInterfaces") or []:
        found = (place.get("url") or "", place.get("transport") or "JSONRPC")
        if found not in places:
            places.append(found)
    return [
        {"url": url, "protocolBinding": binding, "protocolVersion": version}
        for url, binding in places
        if url
    ]


def _read_capabilities(card: Json) -> Json:
    given = card.get("capabilities") or {}
    capabilities = some(given, "streaming", "pushNotifications", "extensions")
    if card.get("supportsAuthenticatedExtendedCard"):
        capabilities["extendedAgentCard"] = True
    return capabilities


def _read_skill(value: Json) -> Json:
    skill = {
        "id": value.get("id") or "",
        "name": value.get("name") or "",
        "description": value.get("description") or "",
        "tags": value.get("tags") or [],
        **some(value, "examples"),
    }
    for name in ("inputModes", "outputModes"):
        if value.get(name):
            skill[name] = read_modes(value[name])
    if value.get("security"):
        skill["securityRequirements"] = read_security(value["security"])
    return skill


def _read_scheme(value: Json) -> Json:
    type_ = value.get("type")
    if type_ not in SCHEME_MEMBERS:
        return {wrapper: value[wrapper] for wrapper in _TYPES if wrapper in value}
    inner = {
        name: item
        for name, item in value.items()
        if name not in ("type", *_TYPES) and item is not None
    }
    if type_ == "apiKey":
        inner["location"] = inner.pop("in", "header")
    elif type_ == "oauth2":
        flows = inner.get("flows") or {}
        inner["flows"] = next(({name: flows[name]} for name in _FLOWS if flows.get(name)), {})
    return {SCHEME_MEMBERS[type_]: inner}


def _read_word(word: str) -> Json:
    """A scheme of 0.1, which had nothing but its name."""
    match word.lower():
        case "bearer" | "jwt":
            return {"httpAuthSecurityScheme": {"scheme": "Bearer"}}
        case "basic":
            return {"httpAuthSecurityScheme": {"scheme": "Basic"}}
        case "apikey":
            return {"apiKeySecurityScheme": {"location": "header", "name": "X-API-Key"}}
        case "oauth2":
            return {"oauth2SecurityScheme": {"flows": {}}}
    return {"httpAuthSecurityScheme": {"scheme": word}}
