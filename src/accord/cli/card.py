"""accord card: what an agent says of itself."""

import asyncio
from pathlib import Path

import click
import msgspec

from .. import auth
from ..client import NO_RETRY, AgentFault, connect
from ..model import A2AError, AgentCard
from ..protocol import lenient
from ..protocol.v1 import codec as v1
from .advice import advised
from .keyring import KEY_FILE, STORE, found_keyring
from .login import login_at

__all__ = ["card"]


@click.group()
def card() -> None:
    """Look at agent cards, sign and verify them."""


@card.command("get")
@click.argument("url")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="For people, or for programs.",
)
def get(url: str, output: str) -> None:
    """Fetch the card of the agent at URL.

    \b
    accord card get http://localhost:8000
    accord card get http://localhost:8000 -o json
    """
    try:
        found = asyncio.run(_fetch(url))
    except (A2AError, AgentFault) as error:
        raise advised(error) from error
    if output == "json":
        click.echo(msgspec.json.format(v1.encode(found), indent=2))
    else:
        _show(found)


@card.command("sign")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--key",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A private key (PEM without a password, or JWK): RSA, P-256, Ed25519. By default the "
    "current one of the keyring.",
)
@click.option("--kid", default="", help="The id of that key. By default its thumbprint.")
@click.option("--key-url", default="", help="Where the public key is published, as a JWK set.")
@KEY_FILE
@STORE
def sign(
    file: Path, key: Path | None, kid: str, key_url: str, key_file: Path | None, store: str | None
) -> None:
    """Print the card in FILE with a signature added.

    \b
    accord card sign card.json --key private.pem > signed.json
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
    click.echo(msgspec.json.format(v1.encode(signed), indent=2))


@card.command("verify")
@click.argument("where", metavar="URL|FILE")
@click.option("--keys", help="The JWK set that counts: a file or a URL.")
@click.option(
    "--key-url",
    "key_urls",
    multiple=True,
    help="A place a card may name for its keys; ending in a slash, all below it.",
)
def verify(where: str, keys: str | None, key_urls: tuple[str, ...]) -> None:
    """Say whether a card is signed by somebody you trust.

    Without --keys and --key-url, that is the origin of URL itself.

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
    click.echo(f"{click.style(found.name, bold=True)} {found.version}: the signature holds")


async def _fetch(url: str, trust: "auth.Trust | None" = None) -> AgentCard:
    async with connect(url, auth=login_at(url), retry=NO_RETRY, verify=trust) as agent:
        return agent.card


def _show(found: AgentCard) -> None:
    click.echo(f"{click.style(found.name, bold=True)} {found.version}\n{found.description}\n")
    width = max(len(skill.id) for skill in found.skills) if found.skills else 0
    for skill in found.skills:
        click.echo(
            f"  {skill.id:<{width}}   {skill.description}   "
            + click.style(", ".join(skill.tags), dim=True)
        )
    click.echo()
    for interface in found.supported_interfaces:
        click.echo(
            f"  {interface.protocol_binding:<10} {interface.protocol_version:<4} {interface.url}"
        )
    capabilities = found.capabilities
    on = [
        name
        for name in ("streaming", "push_notifications", "extended_agent_card")
        if getattr(capabilities, name)
    ]
    click.echo(f"\ncan: {', '.join(on).replace('_', ' ') or 'answer only'}")
