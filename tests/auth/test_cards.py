"""Signatures of agent cards: ours, those of others, and the attacks on them."""

import json
import warnings
from typing import Any, cast

import aiohttp
import msgspec
import pytest
import rfc8785
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from accord import Agent
from accord.auth import (
    ApiKeys,
    InvalidSignature,
    Keyring,
    KeyringError,
    SigningKey,
    Trust,
    canonical_card,
    private_key,
    sign_card,
)
from accord.cli import main
from accord.client import NO_RETRY, UntrustedCard, connect
from accord.model import AgentCard
from accord.protocol import lenient
from tests.auth.tokens import b64, hmac_signed, holds_as_received, jwks, made, pem, public_pem
from tests.client.peers import answer, scripted

# Two implementations agree on this one (EdDSA, the seed is the bytes 0 to 31).
VECTOR = {
    "name": "Kräuter Agent",
    "description": "Finds herbs",
    "supportedInterfaces": [
        {
            "url": "https://herbs.example/rpc",
            "protocolBinding": "JSONRPC",
            "protocolVersion": "1.0",
        }
    ],
    "version": "2.1.0",
    "capabilities": {
        "streaming": True,
        "pushNotifications": False,
        "extensions": [
            {"uri": "https://ext.example/season/v1", "required": False, "params": {"limit": 5}}
        ],
    },
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain", "application/json"],
    "skills": [
        {
            "id": "find",
            "name": "Find",
            "description": "Find a herb",
            "tags": ["herb"],
            "examples": [],
        }
    ],
}
VECTOR_CANONICAL = (
    '{"capabilities":{"extensions":[{"params":{"limit":5},"uri":"https://ext.example/season/v1"}],'
    '"pushNotifications":false,"streaming":true},"defaultInputModes":["text/plain"],'
    '"defaultOutputModes":["text/plain","application/json"],"description":"Finds herbs",'
    '"name":"Kräuter Agent","skills":[{"description":"Find a herb","id":"find","name":"Find",'
    '"tags":["herb"]}],"supportedInterfaces":[{"protocolBinding":"JSONRPC",'
    '"protocolVersion":"1.0","url":"https://herbs.example/rpc"}],"version":"2.1.0"}'
)
VECTOR_SIGNATURE = {
    "protected": "eyJhbGciOiJFZERTQSIsInR5cCI6IkpPU0UiLCJraWQiOiJkZW1vLTEifQ",
    "signature": "IQvZFw0CijLUcNW_e5xLtFRTs8LLX9LDLDTL-fXacgybM2kwUayn0D_gpMtemHawg7vqdBd6jtGzfNh"
    "25nOQBg",
}
VECTOR_KEY = {
    "kty": "OKP",
    "crv": "Ed25519",
    "kid": "demo-1",
    "x": "A6EHv_POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg",
}


def card(**changes) -> AgentCard:
    return lenient.convert(VECTOR | changes, AgentCard)


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    kinds = {"rsa": "RS256", "ec": "ES256", "ed": "EdDSA", "evil": "ES256"}
    return {kid: made(folder, kind, kid) for kid, kind in kinds.items()}


def test_the_canonical_form():
    assert canonical_card(card()).decode() == VECTOR_CANONICAL
    assert canonical_card(card(signatures=[VECTOR_SIGNATURE])).decode() == VECTOR_CANONICAL


async def test_a_known_signature():
    assert await Trust({"keys": [VECTOR_KEY]}).verify(card(signatures=[VECTOR_SIGNATURE]))
    with pytest.raises(InvalidSignature):
        await Trust({"keys": [VECTOR_KEY]}).verify(
            card(signatures=[VECTOR_SIGNATURE], description="Finds gold")
        )


@pytest.mark.parametrize("number", [2**60, float("inf"), float("nan")])
def test_a_card_without_a_canonical_form(keys, number):
    odd = card()
    odd.capabilities.extensions[0].params = {"limit": number}
    with pytest.raises(ValueError, match="no canonical form"):
        sign_card(odd, keys["ec"])


async def test_a_card_that_can_not_be_verified(keys):
    """By its own fault: it is refused, not an accident."""
    signed, deep = sign_card(card(), keys["ec"]), {}
    for _ in range(100):
        deep = {"a": deep, "b": 1}
    trust = Trust(jwks(keys["ec"]))
    for params in ({"limit": float("inf")}, deep):
        signed.capabilities.extensions[0].params = params
        with pytest.raises(InvalidSignature, match=r"canonical form|nested too deeply"):
            await trust.verify(signed)
    many = msgspec.structs.replace(card(), signatures=signed.signatures * 9)
    with pytest.raises(InvalidSignature, match="more than 8"):
        await trust.verify(many)


async def test_a_signature_names_its_key(keys):
    """Also where only one is known (A2A 1.0, section 8.4.2)."""
    compact = SigningKey("", "ES256", keys["ec"].key).sign(canonical_card(card()), {"kid": None})
    protected, _, signature = compact.split(".")
    found = card(signatures=[{"protected": protected, "signature": signature}])
    with pytest.raises(InvalidSignature, match="with which key"):
        await Trust(jwks(keys["ec"])).verify(found)


@pytest.mark.parametrize(
    ("url", "is_allowed"),
    [
        ("https://keys.example/team/a.json", True),
        ("https://keys.example/one.json", True),
        ("https://agent.example/jwks.json", True),
        ("https://keys.example/team/../evil.json", False),
        ("https://keys.example/team/%2e%2e/evil.json", False),
        ("https://keys.example/team/x@evil.json", False),
        ("https://keys.example@evil.example/team/", False),
        ("https://keys.example/one.json.evil", False),
        ("https://keys.example/teamevil", False),
        ("https://keys.example.evil.example/team/", False),
        ("http://keys.example/team/a.json", False),
        ("https://agent.example:444/jwks.json", False),
        ("http://agent.example/jwks.json", False),
        ("file:///etc/passwd", False),
        ("nonsense", False),
    ],
)
def test_where_keys_may_be(url, is_allowed):
    known = ["https://keys.example/team/", "https://keys.example/one.json"]
    trust = Trust(key_urls=known, at_origin=True)
    assert trust._is_allowed(url, "https://agent.example") is is_allowed
    if "agent.example" in url:
        assert not Trust(key_urls=known)._is_allowed(url, "https://agent.example")


@pytest.mark.parametrize("kid", ["rsa", "ec", "ed"])
async def test_signed_and_verified(keys, kid):
    signed = sign_card(card(), keys[kid])
    assert (await Trust(jwks(keys["rsa"], keys["ec"], keys["ed"])).verify(signed)).id == kid


async def test_several_signatures(keys):
    """One that counts is enough: so keys can be rotated."""
    signed = sign_card(sign_card(card(), keys["ec"]), keys["ed"])
    assert len(signed.signatures) == 2
    for kid in ("ec", "ed"):
        assert (await Trust(jwks(keys[kid])).verify(signed)).id == kid
    with pytest.raises(InvalidSignature, match="not known"):
        await Trust(jwks(keys["rsa"])).verify(signed)
    for _ in range(6):
        signed = sign_card(signed, keys["ec"])
    with pytest.raises(ValueError, match="more than 8"):
        sign_card(signed, keys["ec"])


EMPTY = {
    "description": "",
    "skills": [{"id": "a", "name": "a", "description": "", "tags": []}],
    "securityRequirements": [{"schemes": {"key": {"list": []}}}],
    "securitySchemes": {"key": {"apiKeySecurityScheme": {"location": "header", "name": "X"}}},
}


async def test_empty_members(keys):
    """Implementations differ about them: such a card is signed in both forms."""
    assert len(sign_card(card(), keys["ec"]).signatures) == 1
    signed = sign_card(card(**EMPTY), keys["ec"])
    assert len(signed.signatures) == 2
    for one in signed.signatures:
        alone = msgspec.structs.replace(signed, signatures=[one])
        assert (await Trust(jwks(keys["ec"])).verify(alone)).id == "ec"


# With a2a-sdk


def theirs(value):
    from a2a.types import AgentCard as Theirs
    from google.protobuf.json_format import ParseDict

    return ParseDict(value, Theirs(), ignore_unknown_fields=True)


@pytest.mark.parametrize("kid", ["rsa", "ec", "ed"])
@pytest.mark.parametrize("changes", [{}, EMPTY], ids=["usual", "empty members"])
def test_their_verifier_takes_our_signatures(keys, kid, changes):
    from a2a.utils.signing import create_signature_verifier

    signed = sign_card(card(**changes), keys[kid])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        verify = create_signature_verifier(
            lambda kid, jku: public_pem(keys[kid]), ["RS256", "ES256", "EdDSA"]
        )
        verify(theirs(msgspec.to_builtins(signed)))


@pytest.mark.parametrize("kid", ["rsa", "ec", "ed"])
@pytest.mark.parametrize("changes", [{}, EMPTY], ids=["usual", "empty members"])
async def test_our_verifier_takes_their_signatures(keys, kid, changes):
    from a2a.utils.signing import create_agent_card_signer
    from google.protobuf.json_format import MessageToDict

    header = {"kid": kid, "alg": keys[kid].algorithm, "typ": "JOSE", "jku": None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sign = create_agent_card_signer(pem(keys[kid].key.private_key), cast(Any, header))
        signed = MessageToDict(sign(theirs(VECTOR | changes)))
    back = lenient.convert(VECTOR | changes | {"signatures": signed["signatures"]}, AgentCard)
    assert (await Trust(jwks(keys[kid])).verify(back)).id == kid


# Attacks


def signed_value(key, value=None, **header):
    """A signed card as JSON."""
    found = lenient.convert(value or VECTOR, AgentCard)
    compact = key.sign(canonical_card(found), {"typ": "JOSE"} | header)
    protected, _, signature = compact.split(".")
    return (value or VECTOR) | {"signatures": [{"protected": protected, "signature": signature}]}


def with_header(value, header, signature=b""):
    return value | {"signatures": [{"protected": b64(header), "signature": b64(signature)}]}


def hmac_card(secret):
    protected, _, signature = hmac_signed(secret, "rsa").split(".")
    return VECTOR | {"signatures": [{"protected": protected, "signature": signature}]}


def unprotected(value, header):
    return value | {"signatures": [value["signatures"][0] | {"header": header}]}


HERE = "https://herbs.example/rpc"
THERE = {"url": "https://evil.example/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}

ATTACKS = {
    "no signature": lambda k: VECTOR,
    "an empty list of signatures": lambda k: VECTOR | {"signatures": []},
    "algorithm none": lambda k: with_header(VECTOR, {"alg": "none", "kid": "ec"}),
    "HMAC with the public key": lambda k: hmac_card(public_pem(k["rsa"])),
    "a key nobody trusts": lambda k: signed_value(k["evil"]),
    "the id of a trusted key": lambda k: signed_value(k["evil"], kid="ec"),
    "a key in the header": lambda k: signed_value(k["evil"], kid="ec", jwk=k["evil"].public()),
    "a URL of keys that was not allowed": lambda k: signed_value(
        k["evil"], jku="https://evil.example/jwks.json"
    ),
    "a URL of keys that only begins so": lambda k: signed_value(
        k["evil"], jku="https://keys.example.evil.example/jwks.json"
    ),
    "a URL of keys that leads out of its folder": lambda k: signed_value(
        k["evil"], jku="https://keys.example/team/../evil/jwks.json"
    ),
    "a URL of keys with a user": lambda k: signed_value(
        k["evil"], jku="https://keys.example@evil.example/team/jwks.json"
    ),
    "no key id": lambda k: with_header(VECTOR, {"alg": "ES256"}),
    "an unknown critical header": lambda k: with_header(
        VECTOR, {"alg": "ES256", "kid": "ec", "crit": ["exp"], "exp": 1}
    ),
    "the signature of another key type": lambda k: signed_value(k["rsa"], kid="ec"),
    "the signature of another card": lambda k: signed_value(k["ec"]) | {"name": "Other"},
    "another address": lambda k: signed_value(k["ec"]) | {"supportedInterfaces": [THERE]},
    "an address more": lambda k: (
        signed_value(k["ec"]) | {"supportedInterfaces": [THERE, *VECTOR["supportedInterfaces"]]}
    ),
    "a changed security scheme": lambda k: (
        signed_value(k["ec"])
        | {"securitySchemes": {"a": {"httpAuthSecurityScheme": {"scheme": "basic"}}}}
    ),
    "an unprotected header that names the key": lambda k: unprotected(
        with_header(VECTOR, {"alg": "ES256"}), {"kid": "ec"}
    ),
    "an unprotected header that names the algorithm": lambda k: unprotected(
        signed_value(k["evil"], kid="ec"), {"alg": "none"}
    ),
    "a signature that is cut": lambda k: (
        VECTOR | {"signatures": [signed_value(k["ec"])["signatures"][0] | {"signature": ""}]}
    ),
    "a header that is no JSON": lambda k: (
        VECTOR | {"signatures": [{"protected": "e30x", "signature": "e30"}]}
    ),
    "nine signatures": lambda k: (
        VECTOR | {"signatures": [*signed_value(k["evil"])["signatures"]] * 9}
    ),
    "thousands of signatures": lambda k: (
        VECTOR | {"signatures": [*signed_value(k["evil"])["signatures"]] * 5000}
    ),
    "a text where signatures belong": lambda k: VECTOR | {"signatures": "signed"},
}


@pytest.mark.parametrize("attack", ATTACKS)
async def test_attacks(keys, attack):
    """Refused, before anything is connected to."""
    trust = Trust(jwks(keys["rsa"], keys["ec"]), key_urls=["https://keys.example/team/"])
    with pytest.raises(ValueError, match=r"\w") as caught:
        await connect(ATTACKS[attack](keys), verify=trust)
    assert (
        isinstance(caught.value, UntrustedCard)
        or "can't be verified" in str(caught.value)
        or ("more than 8 signatures" in str(caught.value))
    )


async def test_what_is_not_signed_counts_for_nothing(keys):
    """Members of old versions, beside a signed card, would lead elsewhere."""
    value = signed_value(keys["ec"]) | {
        "url": "https://evil.example/",
        "preferredTransport": "JSONRPC",
        "additionalInterfaces": [{"url": "https://evil.example/", "transport": "JSONRPC"}],
        "protocolVersion": "0.3.0",
        "supportsAuthenticatedExtendedCard": True,
    }
    async with connect(value, verify=jwks(keys["ec"])) as client:
        assert [one.url for one in client.card.supported_interfaces] == [HERE]
        assert client.card.capabilities.extended_agent_card is None


async def test_a_card_of_before_1_0(keys):
    """Its signature is over the object as it stands."""
    old: dict[str, Any] = {"name": "Old", "url": "https://old.example/", "version": "1"}
    old |= {
        "protocolVersion": "0.3.0",
        "skills": [],
        "capabilities": {},
        "description": "An old one",
    }
    protected, _, signature = keys["ec"].sign(rfc8785.dumps(old)).split(".")
    signed = old | {"signatures": [{"protected": protected, "signature": signature}]}
    async with connect(signed, verify=jwks(keys["ec"])) as client:
        assert client.card.name == "Old"
    with pytest.raises(UntrustedCard):
        await connect(signed | {"url": "https://evil.example/"}, verify=jwks(keys["ec"]))


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({}, "say whose"),
        ({"key_urls": ["http://keys.example/"]}, "https"),
        ({"key_urls": ["https://keys.example"]}, "slash"),
        ({"keys": {"keys": []}}, "no public key"),
        ({"keys": "nowhere.json"}, "can't read"),
    ],
)
def test_a_trust_in_nobody(options, fault):
    with pytest.raises(ValueError, match=fault):
        Trust(**options)


# Served


PLACE = "/.well-known/agent-card.json"


def hr(name="HR", **card_fields):
    agent = Agent(name, description="Hires", **card_fields)

    @agent.skill(tags=["hr"])
    async def hire(name: str) -> str:
        """Hire somebody."""
        return f"hired {name}"

    return agent


async def test_a_served_card(tmp_path):
    """Signed with the keyring's key, which is published; by the next one after a rotation."""
    app = hr().app(sign_card=True, key_file=tmp_path / "keys")
    async with app.serving() as url:
        for _ in range(3):
            async with connect(url, verify=True) as client:
                assert (await client.send("Mia")).text == "hired Mia"
            async with connect(url, verify=app.keyring.jwks()) as client:
                assert client.card.signatures
            Keyring.open(tmp_path / "keys").rotate()
        with pytest.raises(UntrustedCard, match="not known"):
            await connect(url, verify=Keyring.in_memory().jwks())


@pytest.mark.parametrize("versions", [None, ["1.0"]])
async def test_their_client_verifies_a_served_card(versions):
    """As it is: with what readers of every version need, and without."""
    import httpx
    from a2a.client import A2ACardResolver
    from a2a.utils.signing import create_signature_verifier
    from jwt import PyJWK

    app = hr().app(sign_card=True, versions=versions)
    async with app.serving() as url, httpx.AsyncClient() as http:

        def key(kid, jku):
            assert jku == f"{url}/.well-known/jwks.json"
            return PyJWK(next(k for k in app.keyring.jwks()["keys"] if k["kid"] == kid))

        verifier = create_signature_verifier(key, ["ES256"])
        found = await A2ACardResolver(http, url).get_agent_card(signature_verifier=verifier)
        assert found.name == "HR"
        other = create_signature_verifier(
            lambda kid, jku: PyJWK(Keyring.in_memory().jwks()["keys"][0]), ["ES256"]
        )
        with pytest.raises(Exception, match="signature"):
            await A2ACardResolver(http, url).get_agent_card(signature_verifier=other)


@pytest.mark.parametrize("versions", [None, ["1.0"], ["0.3"], ["1.0", "0.1"]])
@pytest.mark.parametrize("kind", ["open", "guarded", "beside another"])
async def test_a_served_card_verifies_as_it_is_received(versions, kind):
    """By the letter of 8.4.3: the members of other versions are signed with the rest. Readers who
    parse the 1.0 card first find a signature over that.
    """
    agent = hr(auth=ApiKeys(keys={"k" * 32: "mia"}) if kind == "guarded" else None)
    beside = [hr(name="IT")] if kind == "beside another" else []
    app = agent.app(sign_card=True, versions=versions, beside=beside)
    path = "/hr" if beside else ""
    async with app.serving() as url, aiohttp.ClientSession() as http:
        for said in ("", "0.3", "1.0"):
            headers = {"A2A-Version": said} if said else {}
            async with http.get(f"{url}{path}{PLACE}", headers=headers) as response:
                value = await response.json()
                assert response.headers["Vary"] == "A2A-Version"
            assert holds_as_received(value, app.keyring.jwks())
            assert not holds_as_received(value | {"name": "Other"}, app.keyring.jwks())
            assert await Trust(app.keyring.jwks()).verify(lenient.convert(value, AgentCard))
            is_pure = said == "1.0" or versions == ["1.0"]
            assert ("url" not in value) is is_pure


async def test_a_card_that_was_signed_as_json(keys):
    """Whoever signs by the letter, with members that we don't know, is verified too."""
    value: dict[str, Any] = VECTOR | {"later": {"than": "1.0"}}
    protected, _, signature = keys["ec"].sign(rfc8785.dumps(value), {"typ": "JOSE"}).split(".")
    signed = value | {"signatures": [{"protected": protected, "signature": signature}]}
    async with connect(signed, verify=jwks(keys["ec"])) as client:
        assert client.card.name == "Kräuter Agent"
    with pytest.raises(UntrustedCard):
        await connect(signed | {"later": {}}, verify=jwks(keys["ec"]))


async def test_a_server_that_can_not_sign_does_not_start(monkeypatch):
    """Not with the first card."""
    from accord.store.memory import MemoryStore

    class Shared(MemoryStore):
        is_volatile = False

    monkeypatch.delenv("ACCORD_KEY", raising=False)
    app = hr().app(sign_card=True, store=Shared())
    with pytest.raises(KeyringError, match="accord keyring new"):
        await app.open()


async def test_keys_of_an_origin_without_tls_prove_nothing(keys):
    signed = lenient.convert(
        signed_value(keys["ec"], jku="http://agent.example/jwks.json"), AgentCard
    )
    with pytest.raises(InvalidSignature, match="not known"):
        await Trust(at_origin=True).verify(signed, origin="http://agent.example")


async def test_no_signature_unless_asked_for():
    async with hr().app().serving() as url, connect(url) as client:
        assert client.card.signatures == []
        with pytest.raises(UntrustedCard, match="not signed"):
            await connect(url, verify=True, retry=NO_RETRY)


async def test_keys_are_asked_for_where_they_may_be(keys):
    """`verify=True` takes keys from the origin that was named, and from nowhere else."""
    async with scripted(lambda request: answer(jwks(keys["evil"]))) as evil:

        def agent(request):
            value = VECTOR | {
                "supportedInterfaces": [
                    {"url": peer.url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
                ]
            }
            if request.target == "/jwks":
                return answer(jwks(keys["ec"]))
            return answer(signed_value(keys[who], value, jku=where()))

        async with scripted(agent) as peer:
            who, where = "evil", lambda: evil.url + "/jwks"
            with pytest.raises(UntrustedCard):
                await connect(peer.url, verify=True)
            assert evil.requests == []
            async with connect(peer.url, verify=Trust(key_urls=[evil.url + "/"])):
                assert len(evil.requests) == 1  # who allows it has it
            who, where = "ec", lambda: peer.url + "/jwks"
            async with connect(peer.url, verify=True) as client:
                assert client.card.name == "Kräuter Agent"


# Typed


def run(*words):
    return CliRunner().invoke(main, ["card", *map(str, words)])


@pytest.mark.parametrize("kid", ["rsa", "ec", "ed"])
def test_signed_and_verified_by_hand(keys, tmp_path, kid):
    plain, signed = tmp_path / "card.json", tmp_path / "signed.json"
    private, public = tmp_path / "private.pem", tmp_path / "jwks.json"
    plain.write_text(json.dumps(VECTOR))
    private.write_bytes(pem(keys[kid].key.private_key))
    public.write_text(json.dumps(jwks(keys[kid])))
    done = run("sign", plain, "--private-key", private, "--kid", kid)
    assert done.exit_code == 0, done.output
    signed.write_text(done.output)
    good = run("verify", signed, "--keys", public)
    assert "the signature holds" in good.output
    signed.write_text(done.output.replace("Finds herbs", "Finds gold"))
    bad = run("verify", signed, "--keys", public)
    assert bad.exit_code == 1
    assert "the signature is not valid" in bad.output
    assert "not signed" in run("verify", plain, "--keys", public).output


def test_signed_with_the_keyring(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ACCORD_KEY", raising=False)
    ring = Keyring.open(".accord/hr.db.keys")
    (tmp_path / "card.json").write_text(json.dumps(VECTOR))
    (tmp_path / "signed.json").write_text(run("sign", "card.json").output)
    (tmp_path / "jwks.json").write_text(json.dumps(ring.jwks()))
    assert "holds" in run("verify", "signed.json", "--keys", "jwks.json").output
    (tmp_path / "card.json").write_text("{}")
    assert run("sign", "card.json").exit_code == 1
    (tmp_path / "card.json").write_text("nonsense")
    assert run("sign", "card.json").exit_code == 1


def test_keys_that_can_not_sign(tmp_path, keys):
    file = tmp_path / "key"
    for content in (
        b"nonsense",
        public_pem(keys["rsa"]),
        json.dumps(keys["rsa"].public()).encode(),
        json.dumps({"kty": "oct", "k": "c2VjcmV0"}).encode(),
        b"{}",
    ):
        file.write_bytes(content)
        with pytest.raises(ValueError, match="no key to sign with"):
            private_key(file)
    with pytest.raises(ValueError, match="can't read"):
        private_key(tmp_path / "nowhere")
    raw = ed25519.Ed25519PrivateKey.generate()
    file.write_bytes(pem(raw))
    assert private_key(file).algorithm == "EdDSA"
    assert raw.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
