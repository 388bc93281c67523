"""Credentials: sealed, bound to where they belong, and seen nowhere."""

import asyncio
import json
import logging
from pathlib import Path

import aiohttp
import pytest
from click.testing import CliRunner

from accord import connect
from accord.auth import Caller, Keyring, KeyringError
from accord.cli import main
from accord.client import NO_RETRY, AgentFault, ApiKey, Basic, Bearer
from accord.console import Console, link_of
from accord.hub import Hub, HubSettings
from accord.model import A2AError
from tests.console.test_server import log_in
from tests.hub.hubs import Desk, hub_at, serving_card

SECRET = "s3cret-Zx81-marker"
SCHEMES = {
    "key": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}},
    "login": {"httpAuthSecurityScheme": {"scheme": "Basic"}},
}


async def applied(auth, scheme=None):
    headers: dict[str, str] = {}
    await auth.apply(scheme, headers, {})
    return headers


async def approve_latest(desk: Desk) -> None:
    entry = desk.hub.registry.get("baker")
    assert entry is not None
    answer = await desk.call("POST", f"/agents/baker/cards/{entry.latest}:approve")
    assert answer.status == 200


async def test_a_credential_goes_to_the_entrys_origins_alone(tmp_path, store):
    async with hub_at(tmp_path, **store) as desk, serving_card() as server:
        server.card = server.base(securitySchemes=SCHEMES)
        await desk.add(server.url)
        put = await desk.call(
            "PUT", "/agents/baker/credentials/key", {"kind": "api_key", "secret": SECRET}
        )
        assert put.status == 204
        vault, entry = desk.hub.vault, desk.hub.registry.get("baker")
        found = vault.for_origin(entry, server.url, None)
        assert isinstance(found["key"], ApiKey)
        assert (await applied(found["key"]))["X-API-Key"] == SECRET
        for other in ("https://evil.example", server.url.replace("http", "https"), ""):
            assert vault.for_origin(entry, other, None) is None
        # The card moves, and an admin approves it: the credential stays where it was.
        moved = {"url": "http://127.0.0.1:9/", "protocolBinding": "GRPC", "protocolVersion": "1.0"}
        interfaces = [moved, *server.base()["supportedInterfaces"]]
        server.card = server.base(securitySchemes=SCHEMES, supportedInterfaces=interfaces)
        await desk.call("POST", "/agents/baker:refresh")
        await approve_latest(desk)
        entry = desk.hub.registry.get("baker")
        assert "http://127.0.0.1:9" in entry.origins
        assert vault.for_origin(entry, "http://127.0.0.1:9", None) is None
        assert vault.for_origin(entry, server.url, None) is not None


async def test_a_credential_does_not_follow_the_card_to_the_interface_that_can_be_used(tmp_path):
    """The first interface is where it belongs, but of a version nobody speaks. The one that is
    called instead, by callers and by probes, is elsewhere.
    """
    async with hub_at(tmp_path) as desk, serving_card() as server, serving_card() as other:
        server.card = server.base(securitySchemes=SCHEMES)
        await desk.add(server.url)
        secret = {"kind": "api_key", "secret": SECRET}
        await desk.call("PUT", "/agents/baker/credentials/key", secret)
        hub, unknown = desk.hub, {"url": server.url, "protocolBinding": "JSONRPC",
                                  "protocolVersion": "2.0"}  # fmt: skip
        elsewhere = other.base()["supportedInterfaces"]
        over_grpc = {"url": other.url.replace("http", "grpc"), "protocolBinding": "GRPC",
                     "protocolVersion": "1.0"}  # fmt: skip
        for interfaces in ([over_grpc], [unknown, *elsewhere]):
            server.card = server.base(securitySchemes=SCHEMES, supportedInterfaces=interfaces)
            await desk.call("POST", "/agents/baker:refresh")
            await approve_latest(desk)
            entry = hub.registry.get("baker")
            assert entry.approved == entry.latest
            assert entry.origins == (server.url, other.url)
        async with connect(
            f"{desk.url}/agents/baker", auth=ApiKey(desk.keys["admin"]), retry=NO_RETRY
        ) as client:
            with pytest.raises((A2AError, AgentFault)):
                await client.send("hello")
        assert other.asked
        for probe in (hub.prober.reach_now, hub.prober.message_now):
            asked = len(other.asked)
            await probe(entry)
            assert len(other.asked) > asked
        await hub.prober.check_now(entry)
        assert SECRET not in str(other.asked)
        # Where both are, only those at its origin are left to call with it.
        server.card = server.base(
            securitySchemes=SCHEMES,
            supportedInterfaces=[*server.base()["supportedInterfaces"], *elsewhere],
        )
        await desk.call("POST", "/agents/baker:refresh")
        await approve_latest(desk)
        card, auth = hub.vault.for_card(hub.registry.get("baker"), None)
        assert [interface.url.rstrip("/") for interface in card.supported_interfaces] == [
            server.url
        ]
        assert isinstance(auth["key"], ApiKey)


async def test_a_callers_own_credential_counts_before_the_shared_one(tmp_path):
    async with hub_at(tmp_path) as desk, serving_card() as server:
        await desk.add(server.url)
        await desk.key("mia")
        shared = {"kind": "bearer", "secret": "shared"}
        own = {"kind": "basic", "user": "mia", "secret": "own"}
        await desk.call("PUT", "/agents/baker/credentials/any", shared)
        put = await desk.call("PUT", "/agents/baker/my-credentials/any", own, by="mia")
        assert put.status == 204
        entry = desk.hub.registry.get("baker")
        mia = Caller("mia", scheme="apiKey")
        (found,) = desk.hub.vault.for_origin(entry, server.url, mia)
        assert isinstance(found, Basic)
        (found,) = desk.hub.vault.for_origin(entry, server.url, Caller("bob", scheme="apiKey"))
        assert isinstance(found, Bearer)
        listed = await desk.call("GET", "/agents/baker/my-credentials", by="mia")
        assert [one["kind"] for one in listed.body["credentials"]] == ["basic"]
        await desk.call("DELETE", "/agents/baker/my-credentials/any", by="mia")
        (found,) = desk.hub.vault.for_origin(entry, server.url, mia)
        assert isinstance(found, Bearer)


def files_in(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.rglob("*") if path.is_file()]


async def test_a_secret_is_seen_nowhere(tmp_path, store, caplog, capsys):
    """A marker in every secret: not in the database, the log, an answer, an error, a call that the
    agent refuses, the console or the command line.
    """
    caplog.set_level(logging.DEBUG)
    seen: list[bytes] = []
    async with hub_at(tmp_path, **store) as desk, serving_card() as server:
        await desk.add(server.url)
        for kind, user in (("api_key", ""), ("basic", "u"), ("bearer", ""),
                           ("client_credentials", "u")):  # fmt: skip
            body = {"kind": kind, "secret": f"{SECRET}-{kind}", "user": user}
            put = await desk.call("PUT", f"/agents/baker/credentials/{kind}", body)
            assert put.status == 204
        wrong = [
            {"kind": "nope", "secret": SECRET},
            {"kind": "basic", "secret": SECRET},
            {"kind": "bearer", "secret": SECRET + "\n"},
            {"kind": "bearer", "secret": [SECRET]},
        ]
        for bad in wrong:
            refused = await desk.call("PUT", "/agents/baker/credentials/x", bad)
            assert refused.status == 400
            seen.append(refused.raw)
        for path in ("/agents/baker", "/agents/baker/credentials", "/agents", "/audit",
                     "/inbox", "/agents/baker/cards", "/openapi.json"):  # fmt: skip
            answer = await desk.call("GET", path)
            assert answer.status == 200
            seen.append(answer.raw)
        server.status = 401  # its agent refuses what the hub shows
        server.card = {"error": "no"}
        async with connect(f"{desk.url}/agents/baker", auth=ApiKey(desk.keys["admin"])) as client:
            with pytest.raises(A2AError) as refused_call:
                await client.send("hi")
            seen.append(repr(refused_call.value).encode())
        await desk.call("POST", "/agents/baker:probe?message=1")
        seen += [text.encode() for text in await on_the_console(desk)]
        for words in (["credential", "list", "baker"], ["show", "baker"], ["audit"]):
            options = ["--hub", desk.url, "--hub-key", desk.keys["admin"]]
            done = await asyncio.to_thread(CliRunner().invoke, main, ["hub", *words, *options])
            assert done.exit_code == 0, done.output
            seen.append(done.output.encode())
        entry = desk.hub.registry.get("baker")
        seen.append(repr(desk.hub.vault.for_origin(entry, server.url, None)).encode())
        for table in ("agents", "cards", "credentials", "audit", "alerts", "policies"):
            seen.append(repr(await desk.hub.db.fetch(f"SELECT * FROM {table}")).encode())
    seen += [*files_in(tmp_path), caplog.text.encode()]
    found = sum(data.count(SECRET.encode()) for data in seen)
    with capsys.disabled():
        print(f"\n{len(seen)} places, {found} secrets")
    assert found == 0


async def on_the_console(desk: Desk) -> list[str]:
    """What the console's page reads."""
    console = Console(desk.hub.app, is_hub=True)
    console.attach(desk.hub.app)
    found = []
    link = link_of(desk.url, await console.logins.new_link())  # the app is open already
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
        async with http.get(link) as page:
            found.append(await page.text())
        assert await log_in(http, link) == 200
        for path in ("me", "tasks", "pushes", "exchanges", "logins"):
            async with http.get(f"{desk.url}/console/api/{path}") as answer:
                assert answer.status == 200
                found.append(await answer.text())
    return found


async def test_rows_that_were_swapped_do_not_open(tmp_path, store):
    async with hub_at(tmp_path, **store) as desk, serving_card() as server:
        await desk.add(server.url)
        await desk.add(server.url.replace("127.0.0.1", "localhost"), name="other")
        for name in ("baker", "other"):
            body = {"kind": "bearer", "secret": name}
            await desk.call("PUT", f"/agents/{name}/credentials/key", body)
        hub = desk.hub
        baker = hub.registry.get("baker")
        sealed = await hub.db.fetch_one("SELECT sealed FROM credentials WHERE agent <> ?", baker.id)
        await hub.changes.write(
            lambda db: db.execute(
                "UPDATE credentials SET sealed = ? WHERE agent = ?",
                *(bytes(sealed["sealed"]), baker.id),
            )
        )
        with pytest.raises(KeyringError, match="encrypted for something else"):
            hub.vault.for_origin(baker, server.url, None)
    # And such a hub does not start.
    hub = Hub(HubSettings(**{"folder": str(tmp_path), **store}))
    with pytest.raises(KeyringError):
        await hub.app.open()
    await hub.app.close()


async def test_credentials_are_sealed_anew_with_the_newest_key(tmp_path):
    async with hub_at(tmp_path) as desk, serving_card() as server:
        await desk.add(server.url)
        body = {"kind": "bearer", "secret": SECRET}
        await desk.call("PUT", "/agents/baker/credentials/key", body)
        keyring = desk.hub.app.keyring
        old = keyring.file.read_text()
        keyring.rotate()
        assert (await desk.call("POST", "/credentials:rekey")).body == {"sealed": 1}
        rows = await desk.hub.db.fetch("SELECT agent, scheme, owner, sealed FROM credentials")
        context = json.dumps(["hub credential", rows[0]["agent"], "key", ""], separators=(",", ":"))
        keys = [line for line in keyring.file.read_text().splitlines() if line[:1] != "#"]
        newest = Keyring.parse(keys[0].split()[0])
        assert SECRET in newest.unseal(rows[0]["sealed"], context=context).decode()
        assert old != keyring.file.read_text()


async def test_a_protected_card_is_fetched_with_the_entrys_credential(tmp_path):
    async with hub_at(tmp_path) as desk, serving_card() as server:
        await desk.add(server.url)
        body = {"kind": "api_key", "secret": SECRET}
        await desk.call("PUT", "/agents/baker/credentials/key", body)
        await desk.call("POST", "/agents/baker:refresh")
        assert server.asked[-1]["X-API-Key"] == SECRET


async def test_a_shared_database_needs_a_key(tmp_path, monkeypatch):
    from tests import postgres

    monkeypatch.delenv("ACCORD_KEY", raising=False)
    with postgres.schema_url() as url:
        hub = Hub(HubSettings(store=url, folder=str(tmp_path)))
        with pytest.raises(KeyringError, match="accord keyring new"):
            await hub.app.open()
        await hub.app.close()
