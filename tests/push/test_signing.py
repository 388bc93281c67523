"""What proves that a notification is the agent's: headers, JWTs and HMACs, verified by others'
code.
"""

import base64
import hashlib
import hmac
import json
import secrets

import jwt
import pytest

from accord import Agent, connect
from accord.auth import Keyring
from accord.model import AuthenticationInfo, TaskPushNotificationConfig
from accord.push.signing import delivery_id, read_delivery_id, secrets_of

from .webhook import Webhook


def agent() -> Agent:
    made = Agent("Test agent")

    @made.skill
    async def echo(request: str):
        return request

    return made


async def delivered(hook: Webhook, tmp_path, **config):
    """The calls of one task, and the keys its agent publishes."""
    import aiohttp

    app = agent().app(store=f"sqlite:///{tmp_path / 'a.db'}", allow_hosts=["127.0.0.1"])
    async with app.serving() as url, connect(url) as client:
        await client.send("hi", push=TaskPushNotificationConfig(url=hook.url, **config))
        async with aiohttp.ClientSession() as http, http.get(url + "/.well-known/jwks.json") as got:
            return hook.calls, await got.json(), url


def verified(token: str, jwks: dict, **more):
    keys = jwt.PyJWKSet.from_dict(jwks)
    kid = jwt.get_unverified_header(token)["kid"]
    return jwt.decode(
        token,
        keys[kid].key,
        algorithms=["ES256"],
        options={"verify_aud": False, "require": ["iss", "iat", "exp", "jti"]},
        **more,
    )


async def test_a_delivery_is_signed_with_a_published_key(hook: Webhook, tmp_path):
    """A JWT per delivery: who, when, which task, and the hash of the body (PDL-11)."""
    calls, jwks, url = await delivered(hook, tmp_path)
    assert len({verified(c.headers["x-a2a-signature"], jwks)["jti"] for c in calls}) == 3
    for call in calls:
        claims = verified(call.headers["x-a2a-signature"], jwks, issuer=url)
        assert claims["request_body_sha256"] == hashlib.sha256(call.body).hexdigest()
        assert claims["taskId"] == call.task_id
        assert claims["exp"] - claims["iat"] == 300
        assert claims["aud"] == hook.url
        assert "authorization" not in call.headers


async def test_bearer_without_credentials_is_the_jwt(hook: Webhook, tmp_path):
    """Then the token stands where the config asks for one."""
    calls, jwks, _ = await delivered(
        hook, tmp_path, authentication=AuthenticationInfo(scheme="Bearer")
    )
    for call in calls:
        scheme, _, token = call.headers["authorization"].partition(" ")
        assert (scheme, "x-a2a-signature" in call.headers) == ("Bearer", False)
        assert verified(token, jwks)["taskId"] == call.task_id


async def test_credentials_are_sent_exactly_as_configured(hook: Webhook, tmp_path):
    """The signature stands in a header of its own (PDL-2)."""
    authentication = AuthenticationInfo(scheme="bEaReR", credentials="Se-cret==")
    calls, jwks, _ = await delivered(hook, tmp_path, authentication=authentication, token="k7 ops")
    for call in calls:
        assert call.headers["authorization"] == "bEaReR Se-cret=="
        assert call.headers["x-a2a-notification-token"] == "k7 ops"
        assert call.headers["content-type"] == "application/a2a+json"
        assert call.headers["a2a-version"] == "1.0"
        verified(call.headers["x-a2a-signature"], jwks)


async def test_a_secret_of_the_client_signs_as_standard_webhooks(hook: Webhook, tmp_path):
    """HMAC-SHA256 over id, time and body, for each of two secrets while it is changed."""
    raw = [secrets.token_bytes(24), secrets.token_bytes(64)]
    given = " ".join("whsec_" + base64.b64encode(one).decode() for one in raw)
    calls, *_ = await delivered(
        hook,
        tmp_path,
        authentication=AuthenticationInfo(scheme="Standard-Webhooks", credentials=given),
    )
    for call in calls:
        assert "authorization" not in call.headers
        signed = f"{call.headers['webhook-id']}.{call.headers['webhook-timestamp']}.".encode()
        expected = [
            "v1," + base64.b64encode(hmac.digest(one, signed + call.body, "sha256")).decode()
            for one in raw
        ]
        assert call.headers["webhook-signature"].split(" ") == expected
        assert given.split()[0] not in json.dumps(call.headers)


async def test_keys_are_rotated_without_a_gap(hook: Webhook, tmp_path):
    """What was signed before is verified with what is published after."""
    calls, _, _ = await delivered(hook, tmp_path)
    before = calls[0].headers["x-a2a-signature"]
    Keyring.open(tmp_path / "a.db.keys").rotate()
    calls, jwks, _ = await delivered(hook, tmp_path)
    after = calls[-1].headers["x-a2a-signature"]
    assert len(jwks["keys"]) == 2
    assert verified(before, jwks)["iss"]
    assert verified(after, jwks)["iss"]
    kids = {jwt.get_unverified_header(token)["kid"] for token in (before, after)}
    assert len(kids) == 2


@pytest.mark.parametrize("task_id", ["t", "a.b", "a/b", "ü", "%2E", "a b", "..", "c" * 256])
def test_the_id_of_a_delivery_is_one_signed_word(task_id: str):
    """Standard Webhooks joins id, time and body with full stops: an id has none."""
    made = delivery_id(task_id, 12, task_id)
    assert "." not in made
    assert made.isascii()
    assert read_delivery_id(made) == (task_id, 12, task_id)


@pytest.mark.parametrize("text", ["", "a/b", "a/1/b/c", "/1/b", "a/x/b", "a/-1/b", "a/1/"])
def test_other_ids_are_none_of_ours(text: str):
    assert read_delivery_id(text) is None


@pytest.mark.parametrize("size", [24, 32, 64])
def test_secrets_are_read(size: int):
    secret = secrets.token_bytes(size)
    text = base64.b64encode(secret).decode()
    assert secrets_of("whsec_" + text) == [secret]
    assert secrets_of(f"{text} whsec_{text}") == [secret, secret]
