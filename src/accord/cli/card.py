"""accord card: what an agent says of itself."""

import asyncio
import shutil
import sys
import textwrap
from pathlib import Path
from urllib.parse import urlsplit

import click
import msgspec

from .. import auth
from ..check import served_card_faults, validate_card
from ..client import NO_RETRY, AgentFault, Client, connect
from ..client.discovery import ListedAgent, get_catalog
from ..model import (
    A2AError,
    AgentCard,
    GetExtendedCardRequest,
    Unauthenticated,
    UnsupportedOperation,
)
from ..net import Guard
from ..protocol import lenient
from ..protocol.v1 import codec as v1
from .advice import Failure, advised
from .group import VerbGroup
from .keyring import KEY_FILE, STORE, found_keyring
from .login import login_at
from .table import OUTPUT, is_json, print_json
from .target import AgentTarget, agent_options, agent_words
from .terminal import clean, echo, echo_json, style

__all__ = ["card"]

_MOST = 50  # agents of a host that are named


@click.group(cls=VerbGroup)
def card() -> None:
    """Look at agent cards, sign and verify them."""


@card.command("get")
@click.argument("words", nargs=-1, metavar="URL")
@click.option("--validate", is_flag=True, help="Fail if the card is not valid A2A.")
@click.option(
    "--extended", is_flag=True, help="Get the extended card, which only authenticated callers get."
)
@agent_options
def get(target: AgentTarget, words: tuple[str, ...], validate: bool, extended: bool) -> None:
    """Fetch the card of the agent at URL. If the host lists several agents, names them too.

    \b
    accord card get http://localhost:8000
    accord card get http://localhost:8000 -o json
    """
    agent_words(target, words, 0, "one URL is enough")
    try:
        found, faults, used, listed = asyncio.run(_get(target, extended, validate))
        signature = asyncio.run(_signature(target, found))
    except (A2AError, AgentFault) as error:
        raise advised(
            error, target.url, binding=target.binding, has_credential=target.has_credential
        ) from error
    if faults:
        raise Failure("\n".join(faults), code="A2ACLI_ERR_CARD_INVALID")
    if target.output == "json":
        echo_json(msgspec.json.format(v1.encode(found), indent=2))
    elif target.output == "text":
        _print_fields(found, used, signature, listed)
    else:
        _show(found, signature, listed)
    if validate:
        echo("Validation: the card is valid", err=target.output == "json")


async def _get(
    target: AgentTarget, extended: bool, validate: bool
) -> tuple[AgentCard, list[str], str, list[ListedAgent]]:
    """Return the card, what is wrong with it if that is asked for, the interface in use, and the
    agents of the host.
    """
    async with target.connected(NO_RETRY, checks=False) as agent:
        used = f"{agent.binding} {agent.version} {agent.url}"
        listed = await _listed(agent, target.url) if target.output != "json" else []
        if not extended:
            options = target.connect_options() if validate else {}
            faults = await served_card_faults(target.url, **options) if validate else []
            return agent.card, faults, used, listed
        if not agent.card.capabilities.extended_agent_card:
            raise UnsupportedOperation(
                f"{agent.card.name}: the card says that there is no extended card"
            )
        if not agent.card.security_schemes:
            raise Unauthenticated(
                f"{agent.card.name}: the card declares no security scheme, which the extended "
                "card needs"
            )
        value = await agent.connection.call("GetExtendedAgentCard", GetExtendedCardRequest())
        faults = validate_card(value, agent.connection.found.origin) if validate else []
        return await agent.connection.adopt(value), faults, used, listed


async def _listed(agent: Client, url: str) -> list[ListedAgent]:
    """Return the agents that the catalog of a host lists, if there are several."""
    connection = agent.connection
    origin = connection.found.origin
    if not origin or urlsplit(url if "://" in url else f"//{url}").path.strip("/"):
        return []
    try:
        catalog = await get_catalog(origin, connection.found.http, connection.budget)
    except (A2AError, AgentFault):
        return []  # the card is what was asked for
    return catalog.agents if len(catalog.agents) > 1 else []


async def _signature(target: AgentTarget, found: AgentCard) -> str:
    """What is known of the card's signatures; by keys of its own origin."""
    if not found.signatures:
        return "absent"
    try:
        await _fetch(target.url, auth.Trust(at_origin=True), target.guard)
    except (A2AError, AgentFault, ValueError) as error:
        echo(f"Warning: {error}", err=True)
        return "unverifiable"
    return "verified"


@card.command("sign")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--private-key",
    "key",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The private key to sign with: RSA, P-256 or Ed25519, as PEM without a password or as "
    "JWK. By default the current key of the keyring.",
)
@click.option("--kid", default="", help="The id of that key. By default its thumbprint.")
@click.option(
    "--key-url", default="", metavar="URL", help="Where the public key is published, as a JWK set."
)
@KEY_FILE
@STORE
def sign(
    file: Path, key: Path | None, kid: str, key_url: str, key_file: Path | None, store: str | None
) -> None:
    """Print the card in FILE with a signature added.

    \b
    accord card sign card.json --private-key private.pem > signed.json
    """
    try:
        signing = (
            auth.private_key(key, kid=kid)
            if key is not None
            else found_keyring(key_file, store).signing_key
        )
        value = msgspec.json.decode(file.read_bytes())
        signed = auth.sign_card(lenient.convert(value, AgentCard), signing, key_url=key_url)
    except (ValueError, auth.KeyringError, A2AError) as error:
        raise click.ClickException(f"{file}: {error}") from error
    echo_json(msgspec.json.format(v1.encode(signed), indent=2))


@card.command("verify")
@click.argument("where", metavar="URL|FILE")
@click.option("--keys", help="The keys to trust: a JWK set, as a file or a URL.")
@click.option(
    "--allow-key-url",
    "key_urls",
    multiple=True,
    metavar="URL",
    help="A URL that a card may name for its keys. If it ends in a slash, everything below it.",
)
@OUTPUT
def verify(where: str, keys: str | None, key_urls: tuple[str, ...], output: str) -> None:
    """Say whether a card is signed by somebody you trust.

    Without --keys and --allow-key-url, that is the origin of URL itself.

    \b
    accord card verify https://hr.corp.example --keys https://keys.corp.example/jwks.json
    """
    try:
        trust = auth.Trust(keys, key_urls=key_urls, at_origin=not keys and not key_urls)
        found = asyncio.run(_fetch(where, trust))
    except ValueError as error:
        if isinstance(error, A2AError | AgentFault):
            raise advised(error) from error
        raise click.ClickException(str(error)) from error
    except (A2AError, AgentFault) as error:
        raise advised(error) from error
    if is_json(output):
        return print_json({"name": found.name, "version": found.version, "signature": "verified"})
    echo(style(found.name, bold=True), f" {found.version}: the signature holds")


async def _fetch(url: str, trust: "auth.Trust", guard: Guard | None = None) -> AgentCard:
    client = connect(url, auth=login_at(url), retry=NO_RETRY, verify=trust, guard=guard)
    async with client as agent:
        return agent.card


def _print_fields(found: AgentCard, used: str, signature: str, listed: list[ListedAgent]) -> None:
    can = found.capabilities
    rows = [
        ("Name", found.name),
        ("Description", found.description),
        ("Agent version", found.version),
        ("Streaming", "yes" if can.streaming else "no"),
        ("Push notifications", "yes" if can.push_notifications else "no"),
        ("Extended card", "yes" if can.extended_agent_card else "no"),
        *(
            ("Interface", f"{i.protocol_binding} {i.protocol_version} {i.url} {i.tenant}".strip())
            for i in found.supported_interfaces
        ),
        ("Selected interface", used),
        *(("Security scheme", name) for name in found.security_schemes),
        *(("Security requirement", ", ".join(r.schemes)) for r in found.security_requirements),
        *(("Skill", f"{skill.id} ({skill.name})") for skill in found.skills),
        *(("Extension", extension.uri) for extension in can.extensions),
        ("Signature", signature),
        *(("Agent at this host", f"{one.name} {one.url}") for one in listed[:_MOST]),
    ]
    for label, value in rows:
        echo(f"{label}: {' '.join(clean(value).split())}")


def _wrapped(text: str, indent: int) -> list[str]:
    """Return the lines of a text that fit a terminal behind an indent; elsewhere it is one line."""
    text = " ".join(text.split())
    if not sys.stdout.isatty():
        return [text]
    columns = shutil.get_terminal_size().columns
    return textwrap.wrap(text, max(columns - indent, 20)) or [""]


def _show(found: AgentCard, signature: str, listed: list[ListedAgent]) -> None:
    echo(style(found.name, bold=True), f" {found.version}\n{found.description}\n")
    width = max(len(skill.id) for skill in found.skills) if found.skills else 0
    for skill in found.skills:
        first, *more = _wrapped(skill.description, width + 5)
        tags = "" if skill.tags == [skill.id] else ", ".join(skill.tags)
        echo(f"  {skill.id:<{width}}   {first}")
        for line in [*more, *([style(tags, dim=True)] if tags else [])]:
            echo(" " * (width + 5), line)
    echo()
    for interface in found.supported_interfaces:
        echo(f"  {interface.protocol_binding:<10} {interface.protocol_version:<4} {interface.url}")
    capabilities = found.capabilities
    on = [
        name
        for name in ("streaming", "push_notifications", "extended_agent_card")
        if getattr(capabilities, name)
    ]
    echo(f"\ncan: {', '.join(on).replace('_', ' ') or 'answer only'}")
    if found.security_schemes:
        echo(f"asks for: {', '.join(found.security_schemes)}")
    echo(f"signature: {signature}")
    if listed:
        echo(f"\nThe catalog of this host lists {len(listed)} agents:")
        for one in listed[:_MOST]:
            echo(f"  {' '.join(one.name.split())}   {one.url}")
