"""Bearer tokens: what is accepted, and the attacks that are not."""

import asyncio
import json
import time
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from joserfc.jwk import generate_key

from accord.auth import (
    Introspection,
    InvalidToken,
    Issuer,
    IssuerUnavailable,
    TokenVerifier,
    private_key,
)
from accord.auth.issuer import RemoteKeys
from accord.auth.jose import from_base64url
from accord.net import Guard
from tests.auth import tokens
from tests.auth.tokens import (
    AUDIENCE,
    ISSUER,
    forged,
    hand_signed,
    hmac_signed,
    jwks,
    made,
    public_pem,
    token,
)
from tests.client.peers import answer, scripted


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    return {
        "rsa": made(folder, "RS256", "rsa"),
        "ec": made(folder, "ES256", "ec"),
        "ed": made(folder, "EdDSA", "ed"),
        "evil": made(folder, "RS256", "evil"),
        "evil ec": made(folder, "ES256", "ec"),
    }


def verifier(keys, **options):
    known = jwks(keys["rsa"], keys["ec"], keys["ed"])
    return TokenVerifier(known, **{"issuer": ISSUER, "audience": AUDIENCE} | options)


@pytest.mark.parametrize("name", ["rsa", "ec", "ed"])
async def test_a_good_token(keys, name):
    found = await verifier(keys).verify(token(keys[name]))
    assert (found["sub"], found["scope"]) == ("mia", "hr.read")


@pytest.mark.parametrize(
    "given",
    [
        lambda keys: token(keys["rsa"], aud=["other", AUDIENCE]),
        lambda keys: token(keys["rsa"], exp=int(time.time()) - 20),  # within the leeway
        lambda keys: token(keys["rsa"], {"typ": "at+JWT"}),
        lambda keys: token(keys["rsa"], {"x5t": "abc", "nonce": "def"}),
    ],
    ids=["several audiences", "clocks differ", "RFC 9068", "headers of its own"],
)
async def test_other_good_tokens(keys, given):
    assert (await verifier(keys).verify(given(keys)))["sub"] == "mia"


def altered(text, **changes):
    head, body, signature = text.split(".")
    changed = json.loads(tokens.base64.urlsafe_b64decode(body + "==")) | changes
    return f"{head}.{tokens.b64(changed)}.{signature}"


NOW = int(time.time())

ATTACKS = {
    "algorithm none": lambda k: forged({"alg": "none", "kid": "rsa"}),
    "algorithm none, in other letters": lambda k: forged({"alg": "nOnE", "kid": "rsa"}),
    "HMAC with the public key": lambda k: hmac_signed(public_pem(k["rsa"]), "rsa"),
    "HMAC with the public key as JWK": lambda k: hmac_signed(
        json.dumps(k["ec"].public()).encode(), "ec"
    ),
    "HMAC with an empty key": lambda k: hmac_signed(b"", "rsa"),
    "a key in the header": lambda k: token(k["evil"], {"kid": "rsa", "jwk": k["evil"].public()}),
    "a URL of keys in the header": lambda k: token(
        k["evil"], {"kid": "rsa", "jku": "https://evil.example/jwks"}
    ),
    "a URL of certificates in the header": lambda k: token(
        k["evil"], {"kid": "rsa", "x5u": "https://evil.example/chain"}
    ),
    "an unknown key id": lambda k: token(k["evil"]),
    "a key id that is a path": lambda k: token(k["evil"], {"kid": "../../dev/null"}),
    "the id of another key": lambda k: token(k["evil ec"]),
    "the signature of another key type": lambda k: token(k["rsa"], {"kid": "ec"}),
    "no key id among several": lambda k: forged({"alg": "RS512"}),
    "another algorithm of the same key": lambda k: private_key(
        {**k["rsa"].key.as_dict(private=True), "alg": "PS256"}, kid="rsa"
    ).sign(json.dumps(tokens.claims()).encode()),
    "altered claims": lambda k: altered(token(k["rsa"]), sub="admin"),
    "a stripped signature": lambda k: token(k["rsa"]).rpartition(".")[0] + ".",
    "two parts only": lambda k: token(k["rsa"]).rpartition(".")[0],
    "encrypted, not signed": lambda k: f"{tokens.b64({'alg': 'dir', 'enc': 'A128GCM'})}..a.b.c",
    "an unknown critical header": lambda k: hand_signed(k["rsa"], {"crit": ["exp"], "exp": 1}),
    "a payload that is not encoded": lambda k: forged(
        {"alg": "RS256", "kid": "rsa", "b64": False, "crit": ["b64"]}
    ),
    "expired": lambda k: token(k["rsa"], exp=NOW - 60),
    "never expires": lambda k: token(k["rsa"], exp=None),
    "an expiry that is a text": lambda k: token(k["rsa"], exp="9999999999"),
    "an expiry that fits no clock": lambda k: token(k["rsa"], exp=10**400),
    "not valid yet": lambda k: token(k["rsa"], nbf=NOW + 600),
    "issued in the future": lambda k: token(k["rsa"], iat=NOW + 600),
    "another issuer": lambda k: token(k["rsa"], iss="https://evil.example"),
    "an issuer with a slash more": lambda k: token(k["rsa"], iss=ISSUER + "/"),
    "no issuer": lambda k: token(k["rsa"], iss=None),
    "another audience": lambda k: token(k["rsa"], aud="payroll"),
    "no audience": lambda k: token(k["rsa"], aud=None),
    "an audience that only begins so": lambda k: token(k["rsa"], aud="hr2"),
    "a token for another purpose": lambda k: token(k["rsa"], {"typ": "logout+jwt"}),
    "claims that are a list": lambda k: k["rsa"].sign(b"[]"),
    "claims that are no JSON": lambda k: k["rsa"].sign(b"sub=mia"),
    "padding": lambda k: token(k["rsa"]) + "==",
    "a space": lambda k: " " + token(k["rsa"]),
    "too long": lambda k: token(k["rsa"], pad="x" * 20000),
    "nothing": lambda k: "",
    "dots": lambda k: "..",
    "not ASCII": lambda k: "é.é.é",
}


@pytest.mark.parametrize("attack", ATTACKS)
async def test_attacks(keys, attack):
    """Refused, with a reason that may be told; and nobody is asked for keys."""
    with pytest.raises(InvalidToken) as caught:
        await verifier(keys).verify(ATTACKS[attack](keys))
    assert caught.value.reason.isascii()
    assert '"' not in caught.value.reason


@pytest.mark.parametrize(
    "key",
    [
        {"kty": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0", "kid": "a", "alg": "HS256"},
        {"kty": "RSA", "n": "AQAB", "e": "AQAB", "kid": "a"},
        {"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA", "kid": "a"},
        {"kty": "mystery", "kid": "a"},
        "not a key",
    ],
    ids=["symmetric", "weak", "curve", "type", "text"],
)
def test_keys_that_are_not_used(key):
    """A set of them alone is told of at once."""
    with pytest.raises(ValueError, match="no public key"):
        TokenVerifier({"keys": [key]}, issuer=ISSUER, audience=AUDIENCE)


async def test_a_weak_key_is_not_used(keys, tmp_path):
    with pytest.raises(ValueError, match="no key to sign with"):
        made(tmp_path, "weak", "weak")


async def test_a_key_is_for_its_algorithm(keys):
    """A set may say which; an encryption key is none."""
    item = keys["rsa"].public()
    for change in ({"alg": "PS256"}, {"use": "enc"}, {"key_ops": ["encrypt"]}, {"alg": "ES256"}):
        known = {"keys": [item | change, keys["ec"].public()]}
        strict = TokenVerifier(known, issuer=ISSUER, audience=AUDIENCE)
        with pytest.raises(InvalidToken):
            await strict.verify(token(keys["rsa"]))
        await strict.verify(token(keys["ec"]))


ALGORITHMS: dict[str, Any] = {
    **{f"{kind}{bits}": ("RSA", 2048) for kind in ("RS", "PS") for bits in (256, 384, 512)},
    **{"ES256": ("EC", "P-256"), "ES384": ("EC", "P-384"), "ES512": ("EC", "P-521")},
    **{"EdDSA": ("OKP", "Ed25519"), "Ed25519": ("OKP", "Ed25519")},
}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
async def test_every_algorithm(algorithm):
    """A set that names it for a key; of another one the same key is not taken."""
    kind, size = ALGORITHMS[algorithm]
    made_key = generate_key(kind, size, private=True).as_dict(private=True)
    key = private_key({**made_key, "alg": algorithm}, kid="k")
    assert key.algorithm == algorithm
    known = TokenVerifier(jwks(key), issuer=ISSUER, audience=AUDIENCE)
    assert (await known.verify(token(key)))["sub"] == "mia"
    others = [name for name in ALGORITHMS if name != algorithm]
    for other in others:
        with pytest.raises(InvalidToken):
            await known.verify(forged({"alg": other, "kid": "k"}))


def test_a_key_of_1024_bits_is_not_used():
    weak = rsa.generate_private_key(65537, 1024).public_key().public_numbers()
    n = weak.n.to_bytes(128, "big")
    item = {"kty": "RSA", "n": tokens.b64(n), "e": "AQAB", "kid": "a"}
    padded = item | {"n": tokens.b64(bytes(200) + n)}
    for one in (item, padded):
        with pytest.raises(ValueError, match="no public key"):
            TokenVerifier({"keys": [one]}, issuer=ISSUER, audience=AUDIENCE)


async def test_one_key_needs_no_id(keys):
    """Where only one has the algorithm, a token need not name it; among several it must."""
    nameless = {"alg": "RS256"}
    text = f"{tokens.b64(nameless)}.{tokens.b64(tokens.claims())}"
    signature = keys["rsa"].key.private_key.sign(text.encode(), padding.PKCS1v15(), SHA256())
    lone = f"{text}.{tokens.b64(signature)}"
    assert (await verifier(keys).verify(lone))["sub"] == "mia"
    several = jwks(keys["rsa"], keys["evil"], keys["ec"])
    with pytest.raises(InvalidToken, match="with which key"):
        await TokenVerifier(several, issuer=ISSUER, audience=AUDIENCE).verify(lone)
    with pytest.raises(InvalidToken):
        await verifier(keys).verify(lone[:-4] + "AAAA")


@pytest.mark.parametrize("text", ["QQ", "QUI", "", "_-8"])
def test_base64url(text):
    assert tokens.b64(from_base64url(text)) == text


@pytest.mark.parametrize("text", ["QR", "QUJ", "Q", "QQ==", "Q+8", "Q/8", "QQ ", "Q\n", "é"])
def test_what_is_not_base64url(text):
    """Other letters, padding, bits that mean nothing: two texts would be one value."""
    with pytest.raises(ValueError, match="not base64url"):
        from_base64url(text)


@pytest.mark.parametrize("options", [{"issuer": ""}, {"audience": ""}, {"audience": []}])
def test_no_token_is_good_for_everything(keys, options):
    with pytest.raises(ValueError, match="give both"):
        verifier(keys, **options)


async def test_a_file_of_keys(keys, tmp_path):
    """Read again when it changes; a token of a key that is gone is refused, though it was good."""
    file = tmp_path / "jwks.json"
    file.write_text(json.dumps(jwks(keys["rsa"])))
    by_file = TokenVerifier(file, issuer=ISSUER, audience=AUDIENCE)
    first, second = token(keys["rsa"]), token(keys["ec"])
    await by_file.verify(first)
    file.write_text(json.dumps(jwks(keys["ec"])))
    await by_file.verify(second)
    with pytest.raises(InvalidToken):
        await by_file.verify(first)
    file.write_text("broken")
    await by_file.verify(second)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


async def test_keys_at_a_url(keys):
    """Fetched once, kept, asked for again when a key is unknown; but not for every token."""
    published = [keys["rsa"]]
    clock = Clock()
    async with scripted(lambda request: answer(jwks(*published))) as server:
        source = RemoteKeys(server.url + "/jwks", clock=clock)
        remote = TokenVerifier(source, issuer=ISSUER, audience=AUDIENCE)
        await asyncio.gather(*(remote.verify(token(keys["rsa"], n=n)) for n in range(20)))
        assert len(server.requests) == 1
        published[:] = [keys["rsa"], keys["ec"]]  # the issuer has a new key
        clock.now += 30
        await remote.verify(token(keys["ec"]))
        assert len(server.requests) == 2
        clock.now += 30
        for n in range(20):  # a stranger makes up key ids
            with pytest.raises(InvalidToken, match="does not have"):
                await remote.verify(token(keys["evil"], {"kid": f"made-up-{n}"}))
        assert len(server.requests) == 3
        clock.now += 30
        for _ in range(5):  # the same one: remembered
            with pytest.raises(InvalidToken):
                await remote.verify(token(keys["evil"], {"kid": "made-up-0"}))
        assert len(server.requests) == 3


async def test_a_key_that_is_withdrawn(keys):
    """When the keys are due to be asked for again, tokens verified before count no more."""
    published = [keys["rsa"], keys["ec"]]
    clock = Clock()
    async with scripted(lambda request: answer(jwks(*published))) as server:
        source = RemoteKeys(server.url, clock=clock)
        remote = TokenVerifier(source, issuer=ISSUER, audience=AUDIENCE)
        good = token(keys["rsa"])
        await remote.verify(good)
        published[:] = [keys["ec"]]
        await remote.verify(good)
        clock.now += 301
        with pytest.raises(InvalidToken, match="does not have"):
            await remote.verify(good)


async def test_an_issuer_that_is_away(keys):
    """Nothing can be said, and it is not asked again at once; what was known counts for a day."""
    clock, status = Clock(), [503]
    handler = lambda request: answer(jwks(keys["rsa"]), status[0])  # noqa: E731
    async with scripted(handler) as server:
        source = RemoteKeys(server.url, clock=clock)
        remote = TokenVerifier(source, issuer=ISSUER, audience=AUDIENCE)
        good = token(keys["rsa"])
        for _ in range(5):
            with pytest.raises(IssuerUnavailable, match="HTTP 503"):
                await remote.verify(good)
        assert len(server.requests) == 1
        clock.now += 11
        status[0] = 200
        await remote.verify(good)
        clock.now += 3600
        status[0] = 503
        await remote.verify(token(keys["rsa"], n=2))
        clock.now += 24 * 3600
        with pytest.raises(IssuerUnavailable):
            await remote.verify(token(keys["rsa"], n=3))


@pytest.mark.parametrize("body", ["nonsense", [], {"keys": []}, {"keys": "x"}, {"key": []}])
async def test_what_is_no_set_of_keys(keys, body):
    async with scripted(lambda request: answer(body)) as server:
        remote = TokenVerifier(server.url, issuer=ISSUER, audience=AUDIENCE)
        with pytest.raises(IssuerUnavailable):
            await remote.verify(token(keys["rsa"]))


async def test_redirects_are_not_followed(keys):
    async with scripted(lambda request: answer(jwks(keys["rsa"]))) as other:
        moved = lambda request: answer("", 302, location=other.url)  # noqa: E731
        async with scripted(moved) as server:
            remote = TokenVerifier(server.url, issuer=ISSUER, audience=AUDIENCE)
            with pytest.raises(IssuerUnavailable, match="HTTP 302"):
                await remote.verify(token(keys["rsa"]))
        assert other.requests == []


async def test_tokens_are_kept_in_bounded_number(keys, monkeypatch):
    """And no longer than they are good for."""
    from accord.auth import tokens as module

    clock = Clock()
    clock.now = time.time()
    monkeypatch.setattr(module, "_CACHED", 3)
    bounded = verifier(keys, clock=clock, leeway_s=0)
    for n in range(10):
        await bounded.verify(token(keys["ec"], n=n))
    assert len(bounded._verified._known) == 3
    short = token(keys["ec"], exp=int(clock.now) + 5)
    await bounded.verify(short)
    clock.now += 6
    with pytest.raises(InvalidToken, match="expired"):
        await bounded.verify(short)


def discovering(keys, jwks_url=None, issuer=None):
    def handler(request):
        base = f"http://{request.headers['host']}"
        match request.target:
            case "/.well-known/openid-configuration":
                uri = jwks_url or f"{base}/jwks"
                return answer({"issuer": issuer or base, "jwks_uri": uri})
            case "/jwks":
                return answer(jwks(keys["rsa"]))
        return answer("", 404)

    return handler


async def test_discovery(keys):
    async with scripted(discovering(keys)) as server:
        found = TokenVerifier.of_issuer(server.url, audience=AUDIENCE)
        await found.verify(token(keys["rsa"], iss=server.url))
        with pytest.raises(InvalidToken, match="issuer"):
            await found.verify(token(keys["rsa"]))


async def test_metadata_of_another_issuer(keys):
    """One issuer can't speak for another."""
    async with scripted(discovering(keys, issuer=ISSUER)) as server:
        found = TokenVerifier.of_issuer(server.url, audience=AUDIENCE)
        with pytest.raises(IssuerUnavailable, match="another issuer"):
            await found.verify(token(keys["rsa"], iss=server.url))


async def test_metadata_by_rfc_8414(keys):
    def handler(request):
        base = f"http://{request.headers['host']}"
        if request.target == "/.well-known/oauth-authorization-server/realm":
            return answer({"issuer": f"{base}/realm", "jwks_uri": f"{base}/jwks"})
        return answer(jwks(keys["rsa"])) if request.target == "/jwks" else answer("", 404)

    async with scripted(handler) as server:
        issuer = server.url + "/realm"
        found = TokenVerifier.of_issuer(issuer, audience=AUDIENCE)
        await found.verify(token(keys["rsa"], iss=issuer))


def introspecting(known):
    def handler(request):
        assert request.headers["authorization"] == "Basic YTpiJTI1"  # a:b%25
        given = dict(tokens_of(request.body))
        return answer(known.get(given["token"], {"active": False}))

    return handler


def tokens_of(body):
    from urllib.parse import parse_qsl

    return parse_qsl(body.decode())


async def test_introspection():
    """The issuer is asked, not too often; what it does not call active is not."""
    known = {
        "good": {"active": True, "sub": "mia", "aud": AUDIENCE, "scope": "a b", "exp": NOW + 600},
        "other": {"active": True, "sub": "mia", "aud": "payroll"},
        "old": {"active": True, "sub": "mia", "aud": AUDIENCE, "exp": NOW - 600},
        "yes": {"active": "true", "sub": "mia", "aud": AUDIENCE},
        "never": {"active": True, "sub": "mia", "aud": AUDIENCE, "exp": 10**400},
    }
    clock = Clock()
    clock.now = time.time()
    async with scripted(introspecting(known)) as server:
        asked = Introspection(
            server.url, client_id="a", client_secret="b%", audience=AUDIENCE, clock=clock
        )
        for _ in range(3):
            assert (await asked.verify("good"))["sub"] == "mia"
        assert len(server.requests) == 1
        for bad in ("other", "old", "yes", "never", "unknown", "x" * 20000, "", "é"):
            with pytest.raises(InvalidToken):
                await asked.verify(bad)
        before = len(server.requests)
        with pytest.raises(InvalidToken):
            await asked.verify("unknown")
        assert len(server.requests) == before
        del known["good"]  # revoked
        await asked.verify("good")
        clock.now += 11
        with pytest.raises(InvalidToken, match="not active"):
            await asked.verify("good")


async def test_introspection_is_for_one_issuer():
    """If the answer says whose a token is; one that can't be asked says nothing."""
    known = {
        "ours": {"active": True, "sub": "mia", "iss": ISSUER},
        "silent": {"active": True, "sub": "mia"},
        "theirs": {"active": True, "sub": "mia", "iss": "https://evil.example"},
    }
    async with scripted(introspecting(known)) as server:
        asked = Introspection(server.url, client_id="a", client_secret="b%", issuer=ISSUER)
        await asked.verify("ours")
        await asked.verify("silent")
        with pytest.raises(InvalidToken, match="another issuer"):
            await asked.verify("theirs")
    gone = Introspection(server.url, client_id="a", client_secret="b%")
    with pytest.raises(IssuerUnavailable, match="no connection"):
        await gone.verify("ours")


@pytest.mark.parametrize("given", [("", 401), ("nonsense", 200), ([], 200), ("", 500)])
async def test_an_issuer_that_says_nothing(given):
    async with scripted(lambda request: answer(*given)) as server:
        asked = Introspection(server.url, client_id="a", client_secret="b%")
        with pytest.raises(IssuerUnavailable):
            await asked.verify("good")


async def test_an_issuer_in_trouble_is_not_asked_for_every_token():
    """Strangers' tokens share one failure for a while; then it is asked again."""
    clock, status = Clock(), [503]

    async def answered(request):
        clock.now += 10  # as slow as can be
        metadata = {"issuer": server.url, "introspection_endpoint": server.url + "/introspect"}
        return answer(metadata if status[0] == 200 else "", status[0])

    async with scripted(answered) as server:
        issuer = Issuer(server.url, clock=clock)
        asked = Introspection(issuer, client_id="a", client_secret="b")
        tried = [asked.verify(f"guess {n}") for n in range(20)]
        for found in await asyncio.gather(*tried, return_exceptions=True):
            assert isinstance(found, IssuerUnavailable)
        assert len(server.requests) == 2  # one for each well-known place
        source = RemoteKeys(server.url, clock=clock)
        waited = [source.keys(None) for _ in range(20)]
        failures = await asyncio.gather(*waited, return_exceptions=True)
        assert {type(failure) for failure in failures} == {IssuerUnavailable}
        assert len(server.requests) == 3
        status[0] = 200
        clock.now += 10
        assert (await issuer.metadata())["issuer"] == server.url


async def test_keys_an_issuer_names_elsewhere_are_guarded(keys, monkeypatch):
    """A public issuer does not make us call our own network."""
    from accord.auth import issuer as module

    async with scripted(discovering(keys)) as inside:
        elsewhere = inside.url + "/jwks"
        async with scripted(discovering(keys, jwks_url=elsewhere)) as server:
            beside = TokenVerifier.of_issuer(server.url, audience=AUDIENCE)
            await beside.verify(token(keys["rsa"], iss=server.url))  # both in our own network
            before = len(inside.requests)

            async def public(host, guard):
                return guard

            monkeypatch.setattr(module, "guard_beside", public)  # as if it were outside
            found = TokenVerifier.of_issuer(server.url, audience=AUDIENCE)
            with pytest.raises(IssuerUnavailable, match="no public address"):
                await found.verify(token(keys["rsa"], iss=server.url))
            assert len(inside.requests) == before
            found = TokenVerifier.of_issuer(server.url, audience=AUDIENCE)
            found.guard_with(Guard(allow=["127.0.0.1"]))  # as --allow-host says
            await found.verify(token(keys["rsa"], iss=server.url))
