"""Who sees what over REST: hidden looks like missing, and every route says who may use it."""

import re
from typing import Any

import pytest

from tests.hub.hubs import Answer, hub_at, serving_card

RANKS = {"guest": 0, "user": 1, "publisher": 2, "owner": 1, "admin": 3}
PEOPLE = {"guest": 0, "mia": 1, "pub": 2, "admin": 3}


def same(one: Answer, other: Answer, *names: str) -> bool:
    """Whether two answers are equal, byte for byte but for the names and the date."""

    def plain(answer: Answer) -> tuple[int, bytes, list[tuple[str, str]]]:
        body = answer.raw
        for name in names:
            body = body.replace(name.encode(), b"NAME")
        headers = [(k.lower(), v) for k, v in answer.headers.items() if k.lower() != "date"]
        return answer.status, body, sorted(h for h in headers if h[0] != "content-length")

    return plain(one) == plain(other)


async def test_hidden_is_missing_byte_for_byte(tmp_path, store):
    """Names of the same length, so that the lengths of the answers can be compared too."""
    async with hub_at(tmp_path, **store) as desk, serving_card() as server:
        await desk.key("mia", "user", "it")
        await desk.key("pub", "publisher")
        secret, missing = "secret-hr", "nobody-hr"
        await desk.add(server.url, name=secret, visibility="team", team="hr")
        compared = 0
        for route in desk.hub.routes.all:
            if "{name}" not in route.path or not route.path.startswith("/agents/"):
                continue
            path = route.path.replace("{n}", "1").replace("{scheme}", "key")
            for who in ("guest", "mia", "pub"):
                hidden = await desk.call(
                    route.verb, path.replace("{name}", secret), _body(route.path), by=who
                )
                gone = await desk.call(
                    route.verb, path.replace("{name}", missing), _body(route.path), by=who
                )
                assert hidden.status in (401, 403, 404), (route.verb, path, who)
                assert hidden.headers["Content-Length"] == gone.headers["Content-Length"]
                assert same(hidden, gone, secret, missing), (route.verb, path, who, hidden, gone)
                compared += 1
        listed = await desk.call("GET", "/agents", by="mia")
        assert listed.body == {"agents": [], "next": "", "total": 0}
        print(f"\n{compared} pairs of answers are equal")
        assert compared >= 45


def _body(path: str) -> dict[str, str]:
    return {"kind": "bearer", "secret": "s3cret"} if "credentials/" in path else {}


async def test_every_route_is_kept_from_those_it_is_not_for(tmp_path):
    """The matrix of routes and roles: below the role a route names, it is 401 or 403."""
    async with hub_at(tmp_path) as desk, serving_card() as server:
        await desk.key("mia")
        await desk.key("pub", "publisher")
        await desk.add(server.url)
        refused = 0
        for route in desk.hub.routes.all:
            path = re.sub(r"\{\w+\}", "baker", route.path)
            for who, rank in PEOPLE.items():
                if rank >= RANKS[route.may]:
                    continue
                answer = await desk.call(route.verb, path, {}, by=who)
                assert answer.status == (401 if who == "guest" else 403), (route, who)
                assert answer.body["error"]["fix"]
                refused += 1
        print(f"\n{len(desk.hub.routes.all)} routes, {refused} refusals")


async def test_an_owner_changes_their_own_entry_and_no_other(tmp_path):
    async with hub_at(tmp_path, approve=()) as desk, serving_card() as server:
        await desk.key("pub", "publisher")
        await desk.key("other", "publisher")
        await desk.approve(await desk.add(server.url, by="pub"))
        for route in desk.hub.routes.all:
            if route.may == "owner":
                path = re.sub(
                    r"\{(\w+)\}", lambda m: "baker" if m[1] == "name" else "1", route.path
                )
                answer = await desk.call(route.verb, path, {}, by="other")
                assert answer.status == 403, (route.verb, path)
        changed = await desk.call("PATCH", "/agents/baker", {"visibility": "private"}, by="pub")
        assert changed.status == 200
        assert (await desk.call("GET", "/agents/baker", by="other")).status == 404


async def test_a_write_with_an_old_etag_is_refused(tmp_path, store):
    async with hub_at(tmp_path, **store) as desk, serving_card() as server:
        await desk.add(server.url)
        read = await desk.call("GET", "/agents/baker")
        old = read.headers["ETag"]
        first = await desk.call("PATCH", "/agents/baker", {"team": "a"}, if_match=old)
        assert first.status == 200
        assert first.headers["ETag"] != old
        second = await desk.call("PATCH", "/agents/baker", {"team": "b"}, if_match=old)
        assert (second.status, second.reason) == (412, "OUTDATED")
        assert desk.hub.registry.get("baker").team == "a"


async def test_a_new_card_is_taken_with_the_rest_of_a_change_or_not_at_all(tmp_path, store):
    async with hub_at(tmp_path, **store) as desk, serving_card() as server:

        async def change(version: str, etag: str = "*", **more: Any) -> tuple[int, str]:
            """Return the answer's status, and the version of the card in use then."""
            body = {"card": server.base(version=version), **more}
            answer = await desk.call("PATCH", "/agents/baker", body, if_match=etag)
            return answer.status, desk.hub.registry.get("baker").card.version

        await desk.call("POST", "/agents", {"card": server.base()})
        old = (await desk.call("GET", "/agents/baker")).headers["ETag"]
        assert await change("2", old, team="a") == (200, "2")
        assert desk.hub.registry.get("baker").team == "a"
        assert await change("3", old) == (412, "2")
        assert await change("3", settings={"changes": "never"}) == (400, "2")
        assert await change("3") == (200, "3")


async def test_errors_say_what_is_wrong_and_what_helps(tmp_path):
    async with hub_at(tmp_path) as desk:
        for verb, path, body, status in [
            ("GET", "/nope", None, 404),
            ("POST", "/agents", {"url": "http://10.1.2.3/"}, 422),
            ("POST", "/agents", {"url": "http://127.0.0.1:1/"}, 422),
            ("POST", "/agents", {}, 422),
            ("POST", "/agents", {"url": "http://x/", "card": {}}, 422),
            ("POST", "/agents", {"url": "http://x/", "name": "../etc"}, 422),
            ("POST", "/agents", {"url": "http://x/", "name": "api"}, 422),
            ("POST", "/agents", {"url": "http://x/", "visibility": "team"}, 422),
        ]:
            answer = await desk.call(verb, path, body)
            assert answer.status == status, answer.body
            assert set(answer.body["error"]) == {"code", "reason", "message", "fix"}
            assert answer.body["error"]["fix"]
        wrong = await desk.call("POST", "/agents", {"colour": "red"})
        assert wrong.status == 400
        assert "colour" in wrong.body["error"]["message"]
        refused = await desk.call("PUT", "/agents")
        assert (refused.status, refused.headers["Allow"]) == (405, "GET, POST")


@pytest.mark.parametrize("guests", ["off", "see"])
async def test_guests_get_what_the_hub_allows(tmp_path, guests):
    async with hub_at(tmp_path, guests=guests) as desk, serving_card() as server:
        await desk.add(server.url)
        listed = await desk.call("GET", "/agents", by="guest")
        assert listed.status == (200 if guests == "see" else 401)
        bad = await desk.call("GET", "/agents", by="guest", X_API_Key="accord_000000000000_nope")
        assert bad.status == 401


@pytest.mark.parametrize(
    ("url", "is_public"),
    [
        ("https://hub.corp.example", True),
        ("http://10.1.2.3:8080", True),
        ("http://localhost:8080", False),
        ("http://[::1]:8080", False),
        ("", False),
    ],
)
async def test_a_hub_behind_a_proxy_of_its_own_machine_is_public(tmp_path, url, is_public):
    """It listens on loopback, and everybody comes from there: the address people use decides who
    may come without a login, and whether the hub's own machine may be called.
    """
    async with hub_at(tmp_path, url=url) as desk, serving_card() as server:
        guest = await desk.call("GET", "/agents", by="guest")
        assert guest.status == (401 if is_public else 200)
        added = await desk.call("POST", "/agents", {"url": server.url})
        assert added.status == (422 if is_public else 201)
    async with hub_at(tmp_path, url=url, guests="see", allow=("127.0.0.1",)) as desk:
        assert (await desk.call("GET", "/agents", by="guest")).status == 200  # by a setting


async def test_a_hub_with_a_proxy_in_front_is_public(tmp_path):
    """Also without a `url`: who names a proxy says that others come by it."""
    async with hub_at(tmp_path, trusted_proxy=("127.0.0.1",)) as desk, serving_card() as server:
        assert (await desk.call("GET", "/agents", by="guest")).status == 401
        assert (await desk.call("POST", "/agents", {"url": server.url})).status == 422


async def test_openapi_describes_every_route(tmp_path):
    async with hub_at(tmp_path) as desk:
        document = (await desk.call("GET", "/openapi.json", by="guest")).body
        assert document["openapi"] == "3.1.0"
        described = {
            (verb.upper(), path) for path, verbs in document["paths"].items() for verb in verbs
        }
        assert described == {(route.verb, route.path) for route in desk.hub.routes.all}
        names = [
            one["operationId"] for verbs in document["paths"].values() for one in verbs.values()
        ]
        assert len(names) == len(set(names))
        text = str(document)
        for name in re.findall(r"#/components/schemas/(\w+)", text):
            assert name in document["components"]["schemas"]


async def test_adding_an_entry_tells_nothing_of_hidden_ones(tmp_path, store):
    """Whether a name or an address is taken by what one may not see: the answer is the same."""
    async with (
        hub_at(tmp_path, **store) as desk,
        serving_card() as hidden,
        serving_card() as mine,
    ):
        await desk.key("pub", "publisher")
        await desk.add(hidden.url, name="payroll", visibility="private")
        answers = []
        for new in (
            {"url": f"{mine.url}/1", "name": "payroll"},  # a name that is taken
            {"url": f"{mine.url}/2", "name": "pension"},  # one that is free
            {"url": hidden.url, "name": "pension"},  # an address that is known
        ):
            answer = await desk.call("POST", "/agents", new, by="pub")
            assert (answer.status, answer.body["state"]) == (201, "pending"), answer.body
            wanted, _, made = answer.body["name"].rpartition("-")
            assert (wanted, len(made)) == (new["name"], 6)
            answers.append(answer.body["name"])
            if new["name"] == "pension":
                await desk.call("DELETE", f"/agents/{answers.pop()}", by="pub")
        # An admin sees both, and gives the name that is free.
        [waits] = answers
        approved = await desk.call("POST", f"/agents/{waits}/cards/1:approve")
        assert approved.body["name"] == waits  # the one it was added under is taken


async def test_an_agent_is_approved_once(tmp_path):
    """Two may have added it, who don't see each other's entries."""
    async with hub_at(tmp_path) as desk, serving_card() as server:
        for name in ("one", "two"):
            await desk.key(name, "publisher")
        entries = [await desk.add(server.url, by=name) for name in ("one", "two")]
        assert (await desk.approve(entries[0]))["name"] == "baker"
        again = await desk.call("POST", f"/agents/{entries[1]['name']}/cards/1:approve")
        assert again.status == 409
        assert "in the registry as baker" in again.body["error"]["message"]
