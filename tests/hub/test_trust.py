"""Signatures on cards: which are trusted, and what that changes."""

import json
from typing import Any

import msgspec
import pytest

from accord import connect
from accord.auth import SigningKey, sign_card
from accord.hub.gate import VIA
from accord.protocol import lenient
from tests.auth.test_cards import ATTACKS, AgentCard, keys, signed_value
from tests.auth.tokens import jwks, public_pem
from tests.hub.hubs import Desk, hub_at, serving_card

__all__ = ["keys"]


async def trusting(desk: Desk, *signing: Any) -> None:
    answer = await desk.call("POST", "/trusted-keys", {"name": "corp", "jwk": jwks(*signing)})
    assert answer.status == 201, answer.body


async def paste(desk: Desk, card: Any, by: str = "admin") -> Any:
    return await desk.call("POST", "/agents", {"card": card}, by=by)


async def test_no_attack_is_taken_for_a_trusted_signature(tmp_path, keys):
    """All attacks on signatures: refused where they are required; elsewhere never trusted, and
    refused if they are wrong rather than unknown.
    """
    seen: dict[str, int] = {}
    async with hub_at(tmp_path / "a", trust="require") as desk:
        await trusting(desk, keys["rsa"], keys["ec"])
        for name, attack in ATTACKS.items():
            answer = await paste(desk, attack(keys))
            assert answer.status == 422, (name, answer.body)
    async with hub_at(tmp_path / "b") as desk:
        await trusting(desk, keys["rsa"], keys["ec"])
        await desk.key("pub", "publisher")
        for name, attack in ATTACKS.items():
            answer = await paste(desk, attack(keys), by="pub")
            if answer.status == 422:
                seen["refused"] = seen.get("refused", 0) + 1
                continue
            assert answer.status == 201, (name, answer.body)
            assert answer.body["state"] == "pending"
            assert "trusted" not in answer.body["signature"].split(", ")
            status = answer.body["signature"].partition(" ")[0]
            seen[status] = seen.get(status, 0) + 1
    print(f"\n{len(ATTACKS)} attacks: all refused where signatures are required; else {seen}")
    assert seen["refused"] >= 12


async def test_the_address_of_keys_follows_what_networks_are_allowed(tmp_path, keys):
    """Also that of keys which were trusted before an admin allowed or took back a network."""
    async with (
        hub_at(tmp_path, url="https://hub.corp.example", trust="require") as desk,
        serving_card() as keys_at,
    ):
        url = f"{keys_at.url}/keys/agent-card.json"
        keys_at.card = jwks(keys["ec"])
        assert (await desk.call("POST", "/trusted-keys", {"name": "u", "url": url})).status == 201

        async def added(name: str) -> int:
            signed = signed_value(keys["ec"], keys_at.base(name=name))
            return (await paste(desk, signed)).status

        assert await added("one") == 422, "the place of the keys is not allowed"
        for what in ("127.0.0.1", "localhost"):
            await desk.call("POST", "/networks", {"what": what})
        assert await added("two") == 201
        keys_at.asked.clear()
        for what in ("127.0.0.1", "localhost"):
            await desk.call("DELETE", f"/networks?what={what}")
        assert await added("three") == 422
        assert keys_at.asked == []


async def test_a_card_signed_by_a_trusted_key_needs_no_approval(tmp_path, keys, store):
    async with hub_at(tmp_path, **store) as desk, serving_card() as server:
        await desk.key("pub", "publisher")
        await trusting(desk, keys["ec"])
        server.card = signed_value(keys["ec"], server.base())
        entry = await desk.add(server.url, by="pub")
        assert entry["state"] == "approved"
        assert entry["signature"] == "signed by ec, key from the trusted key corp, trusted"
        assert desk.hub.registry.get("baker").card_raw == json.dumps(server.card).encode()
        # What is beside the signed part counts for nothing.
        server.card = server.card | {"url": "https://evil.example/", "protocolVersion": "0.3.0"}
        await desk.call("POST", "/agents/baker:refresh")
        entry = desk.hub.registry.get("baker")
        assert not any("evil" in one.url for one in entry.card.supported_interfaces)
        # A signature that is gone, or of another key, waits.
        server.card = server.base()
        lost = await desk.call("POST", "/agents/baker:refresh")
        assert lost.body["waiting"] is True
        shown = await desk.call("GET", "/agents/baker/cards/latest")
        assert "signature lost" in {one["kind"] for one in shown.body["differences"]}


async def test_keys_are_trusted_until_they_expire_or_are_removed(tmp_path, keys):
    async with hub_at(tmp_path) as desk:
        card = signed_value(keys["ec"])
        assert "nobody has trusted" in (await paste(desk, card)).body["signature"]
        body = {"name": "short", "jwk": keys["ec"].public(), "expires_days": 1e-9}
        assert (await desk.call("POST", "/trusted-keys", body)).status == 201
        assert "nobody has trusted" in (await paste(desk, card)).body["signature"]
        made = await desk.call(
            "POST", "/trusted-keys", {"name": "pem", "pem": public_pem(keys["ec"]).decode()}
        )
        assert made.status == 201
        listed = (await desk.call("GET", "/trusted-keys")).body["trusted_keys"]
        assert {one["name"] for one in listed} == {"short", "pem"}
        for one in listed:
            assert (await desk.call("DELETE", f"/trusted-keys/{one['id']}")).status == 204
        assert (await desk.call("GET", "/trusted-keys")).body["trusted_keys"] == []


@pytest.mark.parametrize(
    "body",
    [
        {"name": "x"},
        {"name": "x", "jwk": {"kty": "oct", "k": "c2VjcmV0"}},
        {"name": "x", "jwk": {"keys": []}},
        {"name": "x", "pem": "nothing"},
        {"name": "x", "url": "http://keys.example/jwks.json"},
        {"name": "x", "url": "https://keys.example/jwks.json", "pem": "both"},
    ],
)
async def test_keys_that_cannot_be_trusted(tmp_path, body):
    async with hub_at(tmp_path) as desk:
        answer = await desk.call("POST", "/trusted-keys", body)
        assert answer.status == 400
        assert answer.body["error"]["message"]


async def test_a_key_that_is_published_is_found_by_its_address(tmp_path, keys):
    """The set is fetched through the hub's guard, from the address an admin named."""
    async with hub_at(tmp_path) as desk, serving_card() as server, serving_card() as keys_at:
        keys_at.card = jwks(keys["ec"])
        url = f"{keys_at.url}/keys/agent-card.json"
        assert (await desk.call("POST", "/trusted-keys", {"name": "u", "url": url})).status == 201
        found = lenient.convert(server.base(), AgentCard)
        signed = sign_card(found, keys["ec"], key_url=url)
        server.card = server.base() | {
            "signatures": [
                {"protected": one.protected, "signature": one.signature}
                for one in signed.signatures
            ]
        }
        entry = await desk.add(server.url)
        assert entry["signature"] == f"signed by ec, key from {url}, trusted"


def with_name(key: SigningKey, kid: str) -> SigningKey:
    return msgspec.structs.replace(key, id=kid)


async def test_the_signer_shown_is_the_one_whose_signature_holds(tmp_path, keys):
    """A card may have signatures of others before it: who they name has signed nothing."""
    async with hub_at(tmp_path) as desk, serving_card() as server:
        await trusting(desk, keys["ec"])
        good = signed_value(keys["ec"], server.base())
        forged = signed_value(with_name(keys["rsa"], "the-boss"), server.base())
        server.card = good | {"signatures": [*forged["signatures"], *good["signatures"]]}
        entry = await desk.add(server.url)
        assert entry["signature"] == "signed by ec, key from the trusted key corp, trusted"
        found = desk.hub.registry.get("baker").signature
        assert found.thumbprint == keys["ec"].key.thumbprint()
        async with connect(f"{desk.url}/agents/baker") as client:
            card = client.card
        [via] = [one for one in card.capabilities.extensions if one.uri == VIA]
        assert via.params["signedBy"] == "ec"


async def test_the_name_of_a_key_that_verified_nothing_is_not_passed_on(tmp_path, keys):
    """It stands in the report for who looks at it, and nowhere else."""
    async with hub_at(tmp_path) as desk, serving_card() as server:
        server.card = signed_value(with_name(keys["rsa"], "the-boss"), server.base())
        entry = await desk.add(server.url)
        assert entry["signature"] == "signed by the-boss, which nobody has trusted"
        async with connect(f"{desk.url}/agents/baker") as client:
            card = client.card
        assert "the-boss" not in msgspec.json.encode(card).decode()


async def test_another_key_of_the_same_name_is_another_signer(tmp_path, keys):
    """Keys are compared by what they are: two may have one name."""
    async with hub_at(tmp_path) as desk, serving_card() as server:
        first, second = with_name(keys["ec"], "k"), with_name(keys["rsa"], "k")
        await trusting(desk, first)
        await trusting(desk, second)
        server.card = signed_value(first, server.base())
        await desk.add(server.url)
        server.card = signed_value(second, server.base())
        changed = await desk.call("POST", "/agents/baker:refresh")
        assert changed.body["waiting"] is True
        shown = await desk.call("GET", "/agents/baker/cards/latest")
        assert [one["kind"] for one in shown.body["differences"]] == ["signed by another key"]
