"""Agent cards of every version, read as a 1.0 card; and put right where real agents get them wrong.

Pure. Each repair adds a line to the notes: the card works, and its author can be told.
"""

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urljoin

from ...model import AgentCard, InvalidParams
from ...net import Url, host_of, parse_url
from ...protocol import NEWEST, NEWEST_OLD, SCHEME_MEMBERS, card_versions, lenient

__all__ = ["NoInterface", "read_card"]

_BINDINGS = {
    "jsonrpc": "JSONRPC",
    "jsonrpc20": "JSONRPC",
    "http": "HTTP+JSON",
    "https": "HTTP+JSON",
    "httpjson": "HTTP+JSON",
    "rest": "HTTP+JSON",
    "grpc": "GRPC",
}
_FLOWS = ("authorizationCode", "clientCredentials", "deviceCode", "implicit", "password")
_EVERYWHERE = {"0.0.0.0", "::"}
_HERE = {"localhost", "127.0.0.1", "::1"}
_NEEDED = {
    "name",
    "supportedInterfaces",
    "version",
    "capabilities",
    "defaultInputModes",
    "defaultOutputModes",
    "skills",
}

Note = Callable[[str], None]
Json = dict[str, Any]


class NoInterface(ValueError):
    """A card that says nowhere how to call the agent."""


def read_card(given: Any, url: str, notes: list[str]) -> AgentCard:
    """Return the card in the JSON value `given`, which was found at `url` (empty if it was handed
    over).

    Raises:
        ValueError: It can't be used, and why.
    """
    if not isinstance(given, dict):
        raise ValueError(f"the card is a JSON {_kind(given)}, not an object")
    card = {_camel(key): value for key, value in given.items() if isinstance(key, str)}
    note = notes.append
    if not any(key in card for key in ("name", "url", "supportedInterfaces", "skills")):
        raise ValueError(
            "the JSON there is not an agent card: it has no name, no url, no interfaces "
            "and no skills"
        )
    read: Json = {"supportedInterfaces": _interfaces(card, url, note)}
    read |= _texts(card, url, note)
    read["capabilities"] = _capabilities(card, note)
    for name in ("defaultInputModes", "defaultOutputModes"):
        read[name] = [
            "text/plain" if mode == "text" else mode for mode in _strings(card.get(name))
        ] or ["text/plain"]
    read["skills"] = _skills(card.get("skills"), note)
    read |= _security(card, note)
    for name in ("documentationUrl", "iconUrl", "signatures"):
        if card.get(name):
            read[name] = card[name]
    if isinstance(card.get("provider"), dict):
        provider = card["provider"]
        read["provider"] = {
            "organization": str(provider.get("organization") or ""),
            "url": str(provider.get("url") or ""),
        }
    return _convert(read, note)


def _convert(read: Json, note: Note) -> AgentCard:
    """Return the card; an optional member that can't be read is left out."""
    for _ in range(len(read)):
        try:
            return lenient.convert(read, AgentCard)
        except InvalidParams as wrong:
            member = re.split(r"[.\[]", wrong.violations[0][0])[0]
            if member in _NEEDED or member not in read:
                raise ValueError(f"the card can't be used: {wrong}") from None
            note(f"{member} can't be read ({wrong}); it is left out")
            del read[member]
    raise ValueError("the card can't be used")


def _texts(card: Json, url: str, note: Note) -> Json:
    read: Json = {}
    name = card.get("name")
    if not isinstance(name, str) or not name.strip():
        name = host_of(url) or "unnamed agent"
        note(f"the card has no name; called {name!r}")
    read["name"] = name[:200]
    read["description"] = card["description"] if isinstance(card.get("description"), str) else ""
    version = card.get("version")
    if not isinstance(version, str) or not version:
        note("the card does not say the agent's version")
        version = (
            str(version)
            if isinstance(version, (int, float)) and not isinstance(version, bool)
            else ""
        )
    read["version"] = version
    return read


# Interfaces


def _interfaces(card: Json, url: str, note: Note) -> list[Json]:
    found: list[Json] = []
    listed = card.get("supportedInterfaces")
    if isinstance(listed, dict):
        listed = [listed]
        note("supportedInterfaces is one interface, not a list of them")
    for entry in listed if isinstance(listed, list) else ():
        entry = {_camel(str(k)): v for k, v in entry.items()} if isinstance(entry, dict) else {}
        where = _url(
            entry.get("url"), url, entry.get("protocolBinding") or entry.get("transport"), note
        )
        if where is None:
            note("an interface without a usable url is left out")
            continue
        version = _version(entry.get("protocolVersion"), note) or _version(
            card.get("protocolVersion"), note
        )
        if not version:
            version = NEWEST if _looks_like_1(card) else NEWEST_OLD
            note(f"the interface {where} does not say its protocol version; taken for {version}")
        interface = {
            "url": where,
            "protocolBinding": _binding(
                entry.get("protocolBinding") or entry.get("transport"), where, note
            ),
            "protocolVersion": version,
        }
        if isinstance(entry.get("tenant"), str) and entry["tenant"]:
            interface["tenant"] = entry["tenant"]
        found.append(interface)
    _add_old(found, card, url, note)
    if not found:
        raise NoInterface("the card names no address to talk to")
    return found


def _looks_like_1(card: Json) -> bool:
    capabilities = card.get("capabilities")
    return (
        "securityRequirements" in card
        or (isinstance(capabilities, dict) and "extendedAgentCard" in capabilities)
        or "url" not in card
    )


def _add_old(found: list[Json], card: Json, url: str, note: Note) -> None:
    """Add the interfaces as cards before 1.0 name them: one url, a transport, and others."""
    additional = card.get("additionalInterfaces")
    entries = [{"url": card.get("url"), "transport": card.get("preferredTransport") or "JSONRPC"}]
    entries += (
        [entry for entry in additional if isinstance(entry, dict)]
        if isinstance(additional, list)
        else []
    )
    if not card.get("url"):
        if not url or (found and "preferredTransport" not in card):
            entries = entries[1:]
        elif not found:
            base_url = _base_url(url)
            note(f"the card does not say the agent's url; taken for {base_url}")
            entries[0]["url"] = base_url
    versions = _old_versions(card, note) if entries and not found else [NEWEST_OLD]
    for entry in entries:
        where = _url(entry.get("url"), url, entry.get("transport"), note)
        if where is None:
            continue
        binding = _binding(entry.get("transport"), where, note)
        for version in versions if binding == "JSONRPC" else versions[:1]:
            interface = {"url": where, "protocolBinding": binding, "protocolVersion": version}
            known = any(
                f["url"] == where
                and f["protocolBinding"] == binding
                and f["protocolVersion"] == version
                for f in found
            )
            # A card for readers of every version repeats there what it says for 1.0.
            if not known and not (version != NEWEST and _is_new_card_without_old(card)):
                found.append(interface)


def _is_new_card_without_old(card: Json) -> bool:
    return (
        bool(card.get("supportedInterfaces"))
        and "protocolVersion" not in card
        and "preferredTransport" not in card
    )


def _old_versions(card: Json, note: Note) -> list[str]:
    """What a card without interfaces of its own speaks, by what it says and by the members it
    has.
    """
    named = _version(card.get("protocolVersion"), note)
    if named:
        return [named]
    likely = card_versions(card)
    if len(likely) > 1:
        note(
            "the card does not say which version of A2A the agent speaks; trying "
            f"{', then '.join(likely)}"
        )
    return list(likely)


def _version(given: Any, note: Note) -> str:
    if isinstance(given, float):
        given = str(given)
    if not isinstance(given, str) or not given.strip():
        return ""
    match = re.fullmatch(r"[vV]?(\d{1,3})(?:\.(\d{1,3}))?(?:[.\-+].*)?", given.strip())
    if match is None:
        note(f"the protocol version {given[:40]!r} is no version")
        return ""
    return f"{match[1]}.{match[2] or '0'}"


def _binding(given: Any, where: str, note: Note) -> str:
    if not isinstance(given, str) or not given.strip():
        note(f"the interface {where} does not say its binding; taken for JSONRPC")
        return "JSONRPC"
    known = _BINDINGS.get(re.sub(r"[^a-z0-9]", "", given.lower()))
    if known is None:
        return given
    if known != given:
        note(f"the binding {given[:40]!r} is spelt {known}")
    return known


def _url(given: object, base: str, binding: Any, note: Note) -> str | None:
    """Return an interface's URL as it can be used, or None."""
    if not isinstance(given, str) or not given.strip():
        return None
    given = str(given).strip()
    if isinstance(binding, str) and "grpc" in binding.lower():
        return given
    try:
        if "://" in given:
            where = parse_url(given)
        else:
            where = _absolute(given, base)
            note(f"the url {given[:200]!r} is not complete; taken for {where}")
        return str(_from_outside(where, parse_url(base), note) if base else where)
    except ValueError:
        return None


def _from_outside(where: Url, base: Url, note: Note) -> Url:
    """Return where an agent is reached that names the address it was started with."""
    if where.host in _EVERYWHERE | _HERE and base.host not in _HERE and where.host != base.host:
        moved = where._replace(scheme=base.scheme, host=base.host, port=base.port)
        note(f"the url {where} can't be reached from here; taken for {moved}")
        return moved
    if where.host in _EVERYWHERE:
        moved = where._replace(host=base.host)
        note(f"the url {where} is an address to listen on; taken for {moved}")
        return moved
    return where


def _absolute(given: str, base: str) -> Url:
    if re.match(r"[\w.\-]+(:\d+)(/|$)|localhost(/|$)|[\w\-]+\.[\w.\-]+(/|$)", given):
        return parse_url(f"{parse_url(base).scheme if base else 'https'}://{given}")
    if not base:
        raise ValueError("a relative url, without a base url")
    return parse_url(urljoin(_base_url(base), given))


def _base_url(url: str) -> str:
    """The address an agent has whose card is at `url`: what is before the well-known path, or the
    card's name.
    """
    head = re.split(r"/\.well-known/|/[^/]*\.json$", url.partition("?")[0])[0]
    return head.rstrip("/") + "/"


# The rest of the card


def _capabilities(card: Json, note: Note) -> Json:
    given = card.get("capabilities")
    if not isinstance(given, dict):
        if given is not None:
            note(f"capabilities is a {_kind(given)}, not an object; taken for none")
        given = {}
    given = {_camel(str(key)): value for key, value in given.items()}
    read: Json = {}
    for name in ("streaming", "pushNotifications", "extendedAgentCard"):
        value = given.get(name)
        if isinstance(value, str) and value.lower() in ("true", "false"):
            note(f"capabilities.{name} is the text {value!r}")
            value = value.lower() == "true"
        if isinstance(value, bool):
            read[name] = value
        elif value is not None:
            note(f"capabilities.{name} is neither true nor false")
    if card.get("supportsAuthenticatedExtendedCard") is True:
        read.setdefault("extendedAgentCard", True)
    extensions = given.get("extensions")
    if isinstance(extensions, list):
        read["extensions"] = [
            e for e in extensions if isinstance(e, dict) and isinstance(e.get("uri"), str)
        ]
    return read


def _skills(given: Any, note: Note) -> list[Json]:
    read: list[Json] = []
    if given is not None and not isinstance(given, list):
        note(f"skills is a {_kind(given)}, not a list; taken for none")
    for i, skill in enumerate(given if isinstance(given, list) else ()):
        if isinstance(skill, str):
            skill = {"id": skill, "name": skill}
        if not isinstance(skill, dict) or not (skill.get("id") or skill.get("name")):
            note(f"skills[{i}] has neither id nor name; it is left out")
            continue
        name = str(skill.get("name") or skill["id"])
        read.append(
            {
                "id": str(skill.get("id") or re.sub(r"\W+", "-", name.lower()).strip("-")),
                "name": name,
                "description": str(skill.get("description") or ""),
                "tags": _strings(skill.get("tags")),
                "examples": _strings(skill.get("examples")),
                "inputModes": _strings(skill.get("inputModes")),
                "outputModes": _strings(skill.get("outputModes")),
                "securityRequirements": _requirements(
                    skill.get("securityRequirements"), skill.get("security")
                ),
            }
        )
    return read


def _security(card: Json, note: Note) -> Json:
    schemes: Json = {}
    given = card.get("securitySchemes")
    for name, scheme in given.items() if isinstance(given, dict) else ():
        one = _scheme(scheme)
        if one is None:
            note(f"the security scheme {str(name)[:80]!r} can't be read; it is left out")
        else:
            schemes[str(name)] = one
    requirements = _requirements(card.get("securityRequirements"), card.get("security"))
    authentication = card.get("authentication")
    if isinstance(authentication, dict) and not schemes:
        for word in _strings(authentication.get("schemes")):
            schemes[word] = _scheme_01(word)
            requirements.append({"schemes": {word: {"list": []}}})
    return {"securitySchemes": schemes, "securityRequirements": requirements}


def _scheme(scheme: Any) -> Json | None:
    if not isinstance(scheme, dict):
        return None
    for member in SCHEME_MEMBERS.values():
        if isinstance(scheme.get(member), dict):
            return {member: scheme[member]}
    member = SCHEME_MEMBERS.get(str(scheme.get("type")), "")
    if not member:
        return None
    body = {key: value for key, value in scheme.items() if key not in ("type", "in")}
    if member == "apiKeySecurityScheme":
        body["location"] = scheme.get("in") or "header"
        body.setdefault("name", "X-API-Key")
    if member == "httpAuthSecurityScheme":
        body.setdefault("scheme", "Bearer")
    if member == "oauth2SecurityScheme":
        flows = scheme.get("flows")
        flow = next(
            (
                name
                for name in _FLOWS
                if isinstance(flows, dict) and isinstance(flows.get(name), dict)
            ),
            None,
        )
        if flow is None:
            return None
        body["flows"] = {flow: {"scopes": {}} | scheme["flows"][flow]}
    return {member: body}


def _scheme_01(word: str) -> Json:
    match word.lower():
        case "basic":
            return {"httpAuthSecurityScheme": {"scheme": "Basic"}}
        case "apikey" | "api-key" | "api_key":
            return {"apiKeySecurityScheme": {"location": "header", "name": "X-API-Key"}}
        case "bearer" | "jwt" | "oauth2":
            return {"httpAuthSecurityScheme": {"scheme": "Bearer"}}
    return {"httpAuthSecurityScheme": {"scheme": word}}


def _requirements(new: Any, old: Any) -> list[Json]:
    """Each requirement as 1.0 writes it, from either form."""
    read = []
    for requirement in (
        new if isinstance(new, list) and new else old if isinstance(old, list) else ()
    ):
        if not isinstance(requirement, dict):
            continue
        schemes = (
            requirement["schemes"] if isinstance(requirement.get("schemes"), dict) else requirement
        )
        named = {}
        for name, scopes in schemes.items():
            listed = scopes.get("list") if isinstance(scopes, dict) else scopes
            named[str(name)] = {"list": _strings(listed)}
        read.append({"schemes": named})
    return read


def _strings(given: Any) -> list[str]:
    if isinstance(given, str):
        return [given]
    return [item for item in given if isinstance(item, str)] if isinstance(given, list) else []


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word[:1].upper() + word[1:] for word in rest) if rest and head else name


def _kind(value: Any) -> str:
    names = {
        str: "string",
        bool: "boolean",
        int: "number",
        float: "number",
        list: "list",
        dict: "object",
        type(None): "null",
    }
    return names.get(type(value), type(value).__name__)
