"""The console's side of the server: its link, its cookie, and what the page reads."""

import asyncio
import contextlib
import gc
import gzip
import json
import re
import sqlite3
import sys
import time
from typing import Any

import aiohttp
import pytest

from accord import Agent, File, connect
from accord.auth import ApiKeys
from accord.console import Console, link_of
from accord.console.exchanges import BODY_BYTES, Exchanges
from accord.console.login import MOST, PERSON_MS, BrowserSessions
from accord.console.pages import Pages
from accord.model import new_id
from accord.server import HttpRequest, HttpResponse
from accord.server.request import ServerUrl, Target
from accord.store.logins import MemoryLogins
from accord.store.memory import MemoryStore
from accord.testing import Clock
from tests import postgres
from tests.console import golden
from tests.console.agents import agent
from tests.processes.waiting import PATIENCE_S
from tests.relay.relays import clerk


@contextlib.asynccontextmanager
async def served(of=agent):
    app = of.app()
    console = Console(app)
    console.attach(app)
    async with (
        app.serving() as url,
        aiohttp.ClientSession(base_url=url, cookie_jar=aiohttp.CookieJar(unsafe=True)) as client,
    ):
        yield client, console, url


async def log_in(client, link, **headers):
    """Use a link as the page does; return the answer's status, and log the client in."""
    base, _, key = link.partition("/console/?key=")
    headers = {"X-Accord-Session": "none"} | headers
    async with client.post(
        f"{base}/console/api/login", json={"key": key}, headers=headers
    ) as response:
        if response.status == 200:
            client.headers["X-Accord-Session"] = (await response.json())["secret"]
        return response.status


@contextlib.asynccontextmanager
async def opened(of=agent):
    """A browser that opened the link."""
    async with served(of) as (client, console, url):
        assert await log_in(client, console.link(url)) == 200
        yield client, console, url


async def read(client, path, **headers):
    async with client.get(f"/console/api/{path}", headers=headers) as response:
        return response.status, await response.json()


async def send(client, url, text, skill, **more):
    message = {
        "messageId": text + skill,
        "role": "ROLE_USER",
        "parts": [{"text": text}],
        "metadata": {"skill": skill},
        **more,
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    async with client.post("/", json=body, headers={"A2A-Version": "1.0"}) as response:
        return (await response.json())["result"]["task"]


async def test_the_link_opens_once():
    """Whoever only reads the address of the link, as a preview of it does, does not use it up."""
    async with served() as (client, console, url):
        link = console.link(url)
        async with client.get(link) as response:
            assert response.status == 200
            assert "set-cookie" not in response.headers
        body = {"key": link.partition("key=")[2]}
        headers = {"X-Accord-Session": "none"}
        async with client.post("/console/api/login", json=body, headers=headers) as response:
            assert response.status == 200
            cookie = response.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert f"accord-{url.rpartition(':')[2]}=" in cookie
        again = f"{url}/console/api/login"
        async with (
            aiohttp.ClientSession() as other,
            other.post(again, json=body, headers=headers) as response,
        ):
            assert response.status == 403
            assert "accord console link" in (await response.json())["error"]


async def test_of_many_browsers_that_open_a_link_at_once_one_is_let_in():
    async with served() as (_, console, url), contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(aiohttp.ClientSession()) for _ in range(8)]
        link = console.link(url)
        assert sorted(await asyncio.gather(*(log_in(one, link) for one in clients))) == (
            [200] + [403] * 7
        )


async def test_without_a_login_nothing_is_read():
    """The page itself is the same for all: what it shows it reads, and may not."""
    async with served() as (client, _, _):
        for path in ("me", "tasks", "live", "logins", "exchanges"):
            status, _ = await read(client, path, **{"X-Accord-Session": "none"})
            assert status == 403, path


async def test_the_cookie_alone_is_no_login():
    """Browsers send it to every port of the host: what listens there must not get in with it."""
    keyed = Agent("Keyed", auth=ApiKeys(keys={"hush-0123456789abcdef": "mia"}))
    keyed.skill(_echo, id="echo")
    async with opened(keyed) as (client, _, url):
        own = client.headers["X-Accord-Session"]
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "1"}]}
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
        for secret, status in ((own, 200), ("", 403), ("none", 403), (own[:-1], 403)):
            client.headers["X-Accord-Session"] = secret
            assert (await read(client, "me", Origin=url))[0] == status, secret
            headers = {"A2A-Version": "1.0", "Origin": url}
            async with client.post("/", json=body, headers=headers) as response:
                assert response.status == (200 if status == 200 else 401), secret


def _echo(text: str) -> str:
    return text


@pytest.mark.parametrize(
    "other", ['prefs={"a":1}', "a b; =; ;", 'a="' + "\\" * 500 + '"', "a=\xff"]
)
async def test_cookies_of_other_programs_of_the_host_do_not_log_out(other):
    """Browsers send us theirs too, whatever is in them."""
    async with opened() as (client, _, url):
        mine = "; ".join(f"{one.key}={one.value}" for one in client.cookie_jar)
        for cookies in (f"{other}; {mine}", f"{mine}; {other}"):
            async with aiohttp.ClientSession(base_url=url, headers=client.headers) as fresh:
                assert (await read(fresh, "me", Cookie=cookies))[0] == 200


async def test_a_key_that_no_link_has_is_refused():
    async with served() as (client, _, url):
        for key in ("", ".", "\x00.x", "x", "\u00b2.\u00b2"):
            assert await log_in(client, f"{url}/console/?key={key}") == 403


FORGED = [
    {"Host": "evil.example"},
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"X-Accord-Session": "1"},
]


@pytest.mark.parametrize("verb", ["GET", "POST"])
@pytest.mark.parametrize("headers", FORGED, ids=lambda value: json.dumps(value).replace(" ", ""))
async def test_a_request_of_another_site_is_refused(verb, headers):
    """The browser sends our cookie with it: that proves nothing."""
    async with opened() as (client, console, url):
        path = "/console/api/me" if verb == "GET" else "/console/api/link"
        async with client.request(verb, path, headers=headers) as response:
            assert response.status in (400, 403, 421)
        if "X-Accord-Session" not in headers and verb == "POST":
            key = await console.logins.new_link()
            link = f"{url}/console/?key={key}"
            assert await log_in(client, link, **headers) in (400, 403, 421)


async def test_a_request_of_our_own_page_is_answered():
    async with opened() as (client, _, url):
        headers = {"Origin": url, "Sec-Fetch-Site": "same-origin"}
        async with client.post("/console/api/link", headers=headers) as response:
            assert response.status == 200


async def test_me_says_what_is_served():
    async with opened() as (client, _, url):
        _, me = await read(client, "me")
        assert me["base"] == url
        assert me["versions"] == ["1.0", "0.3", "0.1"]
        assert me["card"]["name"] == "Planner"
        assert me["schemas"]["add"]["input"]["required"] == ["a"]


async def test_a_message_is_sent_as_calls_says_in_every_version_and_binding():
    async with opened() as (client, _, url):
        _, me = await read(client, "me")
        _, calls = await read(client, "calls")
        assert me["speaks"] in me["versions"]
        assert list(calls) == me["versions"]
        for version, bindings in calls.items():
            assert set(bindings) == set(me["bindings"][version]) - {"GRPC"}
            forms = [(name, form) for one in bindings.values() for name, form in one.items()]
            for name, form in forms:
                for kind, skill, given in (("text", "show", '"hi"'), ("data", "add", '{"a":40}')):
                    places = {'"%id%"': f'"{new_id()}"', '"%skill%"': f'"{skill}"'}
                    places |= {'"%text%"': given, '{"%data%":true}': given}
                    body = form["body"][kind]
                    for place, value in places.items():
                        body = body.replace(place, value)
                    async with client.post(
                        url + form["path"], data=body, headers=form["headers"]
                    ) as answer:
                        said = await answer.text()
                    assert answer.status == 200, (version, name, said)
                    assert answer.content_type.endswith("stream") == (name == "stream")
                    assert ("hi" if kind == "text" else "42") in said, (version, name, said)


async def test_tasks_are_found_by_state_and_page_by_page():
    async with opened() as (client, _, url):
        for n in range(5):
            await send(client, url, f"{n}", "show")
        await send(client, url, "Rome", "plan")
        assert (await read(client, "tasks?limit=0"))[0] == 400
        _, page = await read(client, "tasks?limit=4")
        assert [task["title"] for task in page["tasks"]] == ["Rome", "4", "3", "2"]
        assert page["total"] == 6
        _, rest = await read(client, f"tasks?limit=4&cursor={page['next']}")
        assert [task["title"] for task in rest["tasks"]] == ["1", "0"]
        _, asked = await read(client, "tasks?state=input-required")
        assert [task["skill"] for task in asked["tasks"]] == ["plan"]
        assert (await read(client, "tasks?state=nonsense"))[0] == 400


async def test_events_are_the_log_with_what_is_private():
    async with opened() as (client, _, url):
        task = await send(client, url, "go", "steps")
        _, log = await read(client, f"tasks/{task['id']}/events")
        kinds = [event["kind"] for event in log["events"]]
        assert kinds[0] == "Created"
        assert kinds.count("StepEnded") == 2
        assert [event["pos"] for event in log["events"]] == list(range(1, log["last"] + 1))
        assert '"one"' not in json.dumps([e for e in log["events"] if e["kind"] == "StepEnded"])
        assert (await read(client, "tasks/no-such-task/events"))[0] == 404


async def test_events_of_a_relay_name_its_private_record_by_its_size():
    """A relay records what the other agent asks; the page gets the size, not the record."""
    async with clerk().app().serving() as there:
        relay = await asyncio.to_thread(Agent.proxy, there)
        async with opened(relay) as (client, _, url):
            task = await send(client, url, "ask", "work")
            status, log = await read(client, f"tasks/{task['id']}/events")
            assert status == 200
            [noted] = [one for one in log["events"] if one["kind"] == "Noted"]
            assert list(noted["data"]) == ["bytes"]


@pytest.mark.parametrize(("version", "method", "headers"), [
    ("1.0", "SubscribeToTask", {"A2A-Version": "1.0"}),
    ("0.3", "tasks/resubscribe", {}),
])  # fmt: skip
async def test_an_event_is_shown_as_clients_of_a_version_get_it(version, method, headers):
    """Read from the server's own stream of that version, from the first event on."""
    async with opened() as (client, _, url):
        task = await send(client, url, "4", "slow")
        _, log = await read(client, f"tasks/{task['id']}/events")
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"id": task["id"]}}
        resumed = {
            "Last-Event-ID": "0",
            "A2A-Extensions": "urn:accord:resume:1",
            "X-A2A-Extensions": "urn:accord:resume:1",
            **headers,
        }
        async with client.post("/", json=body, headers=resumed) as response:
            text = await response.text()
        sent: dict[int, list] = {}
        for event in re.split(r"\n\n", text.strip()):
            number = re.search(r"^id: (\d+)", event, re.MULTILINE)
            datas = re.findall(r"^data: (.*)", event, re.MULTILINE)
            if number:
                sent[int(number[1])] = [json.loads(data)["result"] for data in datas]
        assert len(sent) > 3
        for seq, frames in sent.items():
            _, wire = await read(client, f"tasks/{task['id']}/events/{seq}/wire")
            assert wire[version]["frames"] == frames, seq
        assert max(sent) == log["events"][-1]["seq"]


async def test_what_older_clients_do_not_get_is_named():
    """Over each binding that a version has; 1.0 loses nothing."""
    async with opened() as (client, _, url):
        task = (await send(client, url, "Rome", "plan"))["id"]
        lost = {}
        for version, binding in (
            ("1.0", "JSONRPC"),
            ("1.0", "HTTP%2BJSON"),
            ("1.0", "GRPC"),
            ("0.3", "JSONRPC"),
            ("0.3", "HTTP%2BJSON"),
            ("0.3", "GRPC"),
            ("0.1", "JSONRPC"),
        ):
            path = f"tasks/{task}/lens?version={version}&binding={binding}"
            status, found = await read(client, path)
            assert (status, found["isAll"]) == (200, True)
            lost[version, binding] = {name for names in found["lost"].values() for name in names}
        assert all(not names for (version, _), names in lost.items() if version == "1.0"), lost
        assert lost["0.3", "JSONRPC"] == set()
        assert "task.history[].messageId" in lost["0.1", "JSONRPC"]
        status, wrong = await read(client, f"tasks/{task}/lens?version=0.9")
        assert (status, wrong["error"]) == (400, "version '0.9' is not one of 1.0, 0.3, 0.1")
        status, wrong = await read(client, f"tasks/{task}/lens?version=0.1&binding=GRPC")
        assert (status, wrong["error"]) == (400, "binding 'GRPC' is not one of JSONRPC")


async def test_exchanges_are_kept_without_secrets():
    async with opened() as (client, _, _):
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "1"}]}
        body = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "SendMessage",
            "params": {"message": message, "token": "hush-1"},
        }
        headers = {"Authorization": "Bearer hush-2", "A2A-Version": "1.0"}
        async with client.post("/", json=body, headers=headers):
            pass
        _, found = await read(client, "exchanges")
        call = found["exchanges"][-1]
        assert call["operation"] == "SendMessage"
        _, whole = await read(client, f"exchanges/{call['n']}")
        assert "SendMessage" in whole["requestBody"]["text"]
        assert "hush" not in json.dumps(whole)


async def test_credentials_by_other_names_are_removed_too():
    keyed = Agent("Keyed", auth=ApiKeys(header="X-Acme", keys={"hush-0123456789abcdef": "mia"}))

    @keyed.skill
    async def echo(text: str) -> str:
        return text

    sent = {
        "X-Acme": "hush-0123456789abcdef",
        "X-Session": "hush-1",
        "X-Auth-Token": "hush-2",
        "Idempotency-Key": "shown",
    }
    async with opened(keyed) as (client, _, _):
        # the last value is cut in its middle
        body = b'{"method": "No", "x": "%b", "credentials": "hush-3' % (b"x" * (BODY_BYTES - 48))
        async with client.post("/", data=body + b'-and-more"}', headers=sent):
            pass
        _, found = await read(client, "exchanges")
        _, whole = await read(client, f"exchanges/{found['exchanges'][-1]['n']}")
    assert whole["requestBody"]["text"].endswith('"credentials": "(removed)"')
    assert ["idempotency-key", "shown"] in [[n.lower(), v] for n, v in whole["requestHeaders"]]
    assert "hush" not in json.dumps(whole)


def held(thing):
    """How many bytes are reachable from it."""
    seen, todo, size = set(), [thing], 0
    while todo:
        one = todo.pop()
        if id(one) in seen or isinstance(one, type):
            continue
        seen.add(id(one))
        size += sys.getsizeof(one)
        todo += gc.get_referents(one)
    return size


async def test_exchanges_hold_no_whole_bodies():
    """Nobody has to prove anything to send a large body to a public path."""
    exchanges = Exchanges()
    large = b"x" * (1 << 20)
    target = Target("POST", "/healthz", "/healthz")
    request = HttpRequest(target, {}, [], lambda: ServerUrl("http", ("", 80)), body=large)
    exchanges.add(request, HttpResponse(200, large), 0.0)
    assert held(exchanges) < 4 * BODY_BYTES
    shown = exchanges.one(1)
    assert (shown["bytesIn"], shown["bytesOut"]) == (len(large), len(large))
    for body in (shown["requestBody"], shown["answerBody"]):
        assert body == {"text": "x" * BODY_BYTES, "isCut": True}


def frame(url):
    """What asks as a frame of the page does: it can't send the page's header."""
    return aiohttp.ClientSession(base_url=url)


async def ticket_of(client, address):
    async with client.post("/console/api/ticket", params={"of": address}) as response:
        return (await response.json())["ticket"]


async def test_a_preview_has_no_rights():
    """It is read with a ticket, which is good for that address alone."""
    async with opened() as (client, _, url):
        task = await send(client, url, "<script>alert(1)</script>", "show")
        path = f"/console/api/tasks/{task['id']}/artifacts/shown/0"
        ticket = await ticket_of(client, f"tasks/{task['id']}/artifacts/shown/0?preview=1")
        async with frame(url) as other:
            async with other.get(f"{path}?preview=1&ticket={ticket}") as response:
                assert response.status == 200
            for wrong in (f"{path}?ticket={ticket}", f"{path}?preview=1&ticket={ticket[:-1]}0x",
                          f"{path}?preview=1", f"/console/api/me?ticket={ticket}",
                          f"{path}?preview=1&ticket={ticket}.&caller=other",
                          f"{path}?preview=1&ticket={ticket}&caller=other"):  # fmt: skip
                async with other.get(wrong) as response:
                    assert response.status == 403, wrong
        async with client.get(f"{path}?preview=1") as response:
            policy = response.headers["content-security-policy"]
            assert policy.startswith("sandbox; default-src 'none'")
            assert response.headers["x-content-type-options"] == "nosniff"
        async with client.get(path) as response:
            assert response.headers["content-disposition"].startswith("attachment")


async def test_what_a_caller_wrote_can_not_split_an_answer():
    """The media type and the name of a file become headers."""
    evil = "text/html\r\nX-Evil: 1\r\n\r\n<script>"
    file = {"raw": "aGk=", "mediaType": evil, "filename": 'a\r\nX-Evil: 1"\\'}
    async with opened() as (client, _, url):
        task = await send(client, url, "", "measure", parts=[file])
        path = f"/console/api/tasks/{task['id']}/artifacts/measured/1"
        async with client.get(f"{path}?preview=1") as response:
            assert response.headers["content-type"] == "application/octet-stream"
            assert response.headers["content-security-policy"].startswith("sandbox")
            assert "x-evil" not in response.headers
            assert await response.read() == b"hi"
        async with client.get(path) as response:
            disposition = response.headers["content-disposition"]
            assert disposition == 'attachment; filename="aX-Evil: 1"'
            assert "x-evil" not in response.headers


async def test_browsers_are_listed_and_logged_out():
    async with opened() as (client, console, url):
        async with client.get("/console/api/logins") as response:
            (own,) = (await response.json())["logins"]
        assert own["own"]
        async with client.post(f"/console/api/logins/{own['id']}/close"):
            pass
        assert (await read(client, "me"))[0] == 403
        key = await console.logins.new_link()
        assert await log_in(client, f"{url}/console/?key={key}") == 200


async def test_a_browser_that_is_logged_out_hears_no_more_of_what_happens():
    """Its stream ends."""
    async with opened() as (client, _, _):
        _, found = await read(client, "logins")
        async with client.get("/console/api/live") as stream:
            assert (await stream.content.readline()).startswith(b":")
            async with client.post(f"/console/api/logins/{found['logins'][0]['id']}/close"):
                pass
            await stream.content.read()


async def test_live_tells_of_changes():
    async with opened() as (client, _, url), client.get("/console/api/live") as stream:
        assert (await stream.content.readline()).startswith(b":")
        async with client.get("/console/api/tasks") as response:
            assert (await response.json())["total"] == 0
        told = None
        n = 0
        while told is None:
            await send(client, url, f"{n}", "show")
            n += 1
            line = await stream.content.readline()
            if line.startswith(b"data: ") and b'"tasks"' in line:
                told = json.loads(line[6:])
        assert told["tasks"][0]["skill"] == "show"


async def test_a_page_that_is_open_when_the_server_stops_is_no_fault(caplog):
    """Its stream ends, and nothing is logged."""
    app = agent.app()
    console = Console(app)
    console.attach(app)
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as client:
        async with app.serving() as url:
            assert await log_in(client, console.link(url)) == 200
            stream = await client.get(f"{url}/console/api/live")
            assert (await stream.content.readline()).startswith(b":")
        with contextlib.suppress(aiohttp.ClientPayloadError):
            await stream.content.read()
        stream.close()
    assert [record.getMessage() for record in caplog.records] == []


@pytest.mark.parametrize("place", ["sqlite", "postgres"])
async def test_a_link_that_can_not_be_stored_keeps_nobody_from_being_served(
    tmp_path, place, caplog
):
    """The disk may be full. The agent is there all the same, and a link can be made later."""
    with contextlib.ExitStack() as ends:
        if place == "sqlite":
            url, break_, mend = _full_file(tmp_path / "tasks.db")
        else:
            url = ends.enter_context(postgres.schema_url())
            break_, mend = _full_table(url)
        clerk_ = Agent("Clerk")

        @clerk_.skill
        async def echo(text: str) -> str:
            return text

        first = clerk_.app(store=url, push=False)
        await first.open()  # makes the tables
        await first.close()
        await asyncio.to_thread(break_)
        app = clerk_.app(store=url, push=False)
        console = Console(app)
        console.attach(app)
        async with (
            app.serving() as served_at,
            aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as client,
            connect(served_at) as caller,
        ):
            assert (await caller.send("hello")).text == "hello"
            assert console.link(served_at) == ""
            assert "there is no link to the console now" in caplog.text
            assert "accord console link" in caplog.text
            await asyncio.to_thread(mend)
            link = link_of(served_at, await console.logins.new_link())
            assert await log_in(client, link) == 200


def _full_file(path):
    """A SQLite file, how to have it store no login, and how to let it again."""

    def change(sql):
        with contextlib.closing(sqlite3.connect(path)) as db:
            db.execute(sql)

    full = "CREATE TRIGGER full BEFORE INSERT ON logins BEGIN SELECT RAISE(ABORT, 'disk full'); END"
    return f"sqlite:///{path}", lambda: change(full), lambda: change("DROP TRIGGER full")


def _full_table(url):
    """The same of a PostgreSQL database."""
    schema = url.partition("schema=")[2].partition("&")[0]

    def fill():
        postgres.execute(
            f"CREATE FUNCTION {schema}.no_room() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'disk full' USING ERRCODE = '53100'; END $$"
        )
        postgres.execute(
            f"CREATE TRIGGER full_ BEFORE INSERT ON {schema}.logins FOR EACH STATEMENT "
            f"EXECUTE FUNCTION {schema}.no_room()"
        )

    return fill, lambda: postgres.execute(f"DROP TRIGGER full_ ON {schema}.logins")


def test_a_page_that_was_not_built_says_how(tmp_path):
    page = Pages(tmp_path).index(_request())
    assert b"make console" in page.body


def test_files_are_packed_and_known_by_their_tag(tmp_path):
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "a-1.js").write_text("let a = 1;" * 100)
    pages = Pages(tmp_path)
    packed = pages.file("assets/a-1.js", _request(**{"accept-encoding": "gzip"}))
    assert packed is not None
    headers = dict(packed.headers)
    assert gzip.decompress(packed.body) == b"let a = 1;" * 100
    assert b"immutable" in headers[b"cache-control"]
    again = pages.file("assets/a-1.js", _request(**{"if-none-match": headers[b"etag"].decode()}))
    assert again is not None
    assert again.status == 304
    assert pages.file("../secret", _request()) is None


async def test_links_and_sessions_are_bounded():
    """Each start of a server makes a link that perhaps nobody opens."""
    store = MemoryLogins()
    logins = BrowserSessions(store)
    keys = [await logins.new_link() for _ in range(MOST + 5)]
    assert len(await store.list()) == MOST
    assert await logins.open("wrong", _request()) is None
    assert await logins.open(keys[-1], _request()) is not None


async def test_the_link_of_somebody_who_logged_in_is_good_for_minutes():
    """Their provider has sent them to it: whoever finds it later must not get in as they."""
    now = [1_000_000_000_000]
    store = MemoryLogins(lambda: now[0])
    logins = BrowserSessions(store)
    for caller, minutes in (('{"name":"ada"}', 10), ("", 24 * 60)):
        for age_ms, is_good in ((minutes * 60_000 - 1, True), (minutes * 60_000, False)):
            key = await logins.new_link(caller)
            now[0] += age_ms
            assert (await logins.open(key, _request()) is not None) == is_good
    # One that was made late ends with the login that it is of.
    key = await logins.new_link('{"name":"ada"}', since_ms=now[0] - PERSON_MS)
    assert await logins.open(key, _request()) is None


def _request(**headers):
    from accord.server.request import HttpRequest, ServerUrl, Target

    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    return HttpRequest(
        Target("GET", "/console/", "/console/"),
        dict(pairs),
        pairs,
        lambda: ServerUrl("http", ("127.0.0.1", 8000)),
    )


def test_the_golden_logs_are_what_our_fold_makes_of_them():
    """The page's fold is compared with the same file: same log, same task."""
    for case in json.loads(golden.FILE.read_text()):
        assert golden.folded(case["entries"]) == case["tasks"]


async def test_a_large_file_is_shown_by_an_address_that_works():
    """What lies in the file store has an internal name, which no browser could open."""
    files = Agent("Files")

    @files.skill
    async def big(text: str) -> File:
        return File(data=b"x" * 300_000, name="big.bin", media_type="application/octet-stream")

    async with opened(files) as (client, _, url):
        task = (await send(client, url, "go", "big"))["id"]
        for path in (f"tasks/{task}", f"tasks/{task}/events"):
            _, shown = await read(client, path)
            text = json.dumps(shown)
            assert "accord-file:" not in text
            found = re.search(r'"url": "(http[^"]*/files/[^"]*)"', text)
            assert found is not None
            async with client.get(found[1]) as response:
                assert len(await response.read()) == 300_000


async def test_how_things_go_is_asked_for_an_hour_a_day_or_a_week():
    async with opened() as (client, _, _):
        status, answer = await read(client, "now?window=year")
        assert (status, answer["error"]) == (400, "window 'year' is not one of hour, day, week")
        for window in ("hour", "day", "week"):
            status, answer = await read(client, f"now?window={window}")
            assert (status, answer["ended"], answer["p50"]) == (200, 0, None)


@pytest.mark.parametrize("scheme", ["sqlite", "postgresql"])
async def test_figures_are_the_same_after_a_restart_and_at_each_replica(tmp_path, scheme):
    """They are read from what is stored of tasks; no process counts anything."""
    with contextlib.ExitStack() as stack:
        is_shared = scheme == "postgresql"
        store = (
            stack.enter_context(postgres.schema_url())
            if is_shared
            else f"sqlite:///{tmp_path}/tasks.db"
        )
        keys = str(tmp_path / "keys")

        async def figures() -> Any:
            app = agent.app(store=store, key_file=keys)
            console = Console(app)
            console.attach(app)
            async with (
                app.serving() as url,
                aiohttp.ClientSession(
                    base_url=url, cookie_jar=aiohttp.CookieJar(unsafe=True)
                ) as client,
            ):
                assert await log_in(client, console.link(url)) == 200
                _, now = await read(client, "now?window=day")
                return now

        app = agent.app(store=store, key_file=keys)
        async with app.serving() as url, connect(url) as client:
            for n in range(3):
                await client.send(f"{n}", skill="show")
            await client.send("boom", skill="fail")
            await client.send("7 euros", skill="approve")
            if is_shared:
                beside = await figures()  # of a replica that did none of the work
                assert (beside["ended"], beside["failed"], beside["waiting"]) == (4, 1, 1)
        after = await figures()
        assert (after["ended"], after["failed"], after["waiting"]) == (4, 1, 1)
        assert after["isWhole"]
        assert after["causes"][0]["cause"].startswith("ValueError: boom")


@contextlib.asynccontextmanager
async def replica(store, tmp_path):
    """A server on a store, a browser that is logged in, and a client of the agent."""
    app = agent.app(store=store, key_file=str(tmp_path / "keys"))
    console = Console(app)
    console.attach(app)
    async with (
        app.serving() as url,
        aiohttp.ClientSession(base_url=url, cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser,
        connect(url) as client,
    ):
        assert await log_in(browser, console.link(url)) == 200
        yield browser, client


async def opened_at(browser, *ages: int, of: str = "hour") -> list[tuple[int, int]]:
    """Return the streams and the waiting tasks of pieces of time, so many before the last."""
    _, now = await read(browser, f"now?window={of}")
    assert (now["streams"], now["waiting"]) <= tuple(
        now["buckets"][-1][name] for name in ("streams", "waiting")
    )
    pieces = [now["buckets"][-1 - age] for age in ages]
    return [(piece["streams"], piece["waiting"]) for piece in pieces]


async def becomes(ask, expected) -> None:
    """Wait until a question has this answer: figures are kept for two seconds."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := await ask()) != expected and time.monotonic() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    assert found == expected


async def streaming(browser, stack) -> None:
    """Open a stream that goes on."""
    message = {"messageId": new_id(), "role": "ROLE_USER", "parts": [{"text": "x"}]}
    params = {"message": message | {"metadata": {"skill": "load"}}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": params}
    sent = browser.post("/", json=body, headers={"A2A-Version": "1.0"})
    response = await stack.enter_async_context(sent)
    assert (await response.content.readline()).startswith(b"id:")


async def test_what_was_open_is_known_by_the_minute_also_after_a_restart(tmp_path):
    clock = Clock(1_800_000_000_000)  # a full hour: nothing here is in two of them
    path = f"sqlite:///{tmp_path}/tasks.db"
    async with (
        replica(clock.store(path), tmp_path) as (browser, client),
        contextlib.AsyncExitStack() as stack,
    ):
        assert await opened_at(browser, 0, 1) == [(0, 0), (0, 0)]
        await client.send("7 euros", skill="approve")
        await streaming(browser, stack)
        await streaming(browser, stack)
        clock.advance(60)
        await becomes(lambda: opened_at(browser, 0, 1), [(2, 1), (0, 0)])
        asked = await client.send("8 euros", skill="approve")
        clock.advance(60)
        await becomes(lambda: opened_at(browser, 0, 1, 2), [(2, 2), (2, 1), (0, 0)])
    clock.advance(600)
    async with replica(clock.store(path), tmp_path) as (browser, client):
        # while no process ran there was no stream, and questions went on waiting
        ages = (0, 1, 9, 10, 11, 12)
        found = [(0, 2), (0, 2), (0, 2), (2, 2), (2, 1), (0, 0)]
        assert await opened_at(browser, *ages) == found
        assert await opened_at(browser, 0, of="week") == [(2, 2)]
        await client.send("yes", task_id=asked.task_id)
        clock.advance(60)
        await becomes(lambda: opened_at(browser, 0, 1), [(0, 2), (0, 2)])
        clock.advance(60)
        await becomes(lambda: opened_at(browser, 0, 1, 2), [(0, 1), (0, 2), (0, 2)])


async def test_what_is_open_at_several_replicas_is_added_up(tmp_path):
    clock = Clock()
    first = MemoryStore(clock=clock)
    second = first.another()
    async with (
        replica(first, tmp_path) as (one, client),
        contextlib.AsyncExitStack() as stack,
    ):
        async with (
            replica(second, tmp_path) as (two, _),
            contextlib.AsyncExitStack() as later,
        ):
            await client.send("7 euros", skill="approve")
            for _ in range(2):
                await streaming(one, stack)
            for _ in range(3):
                await streaming(two, later)
            clock.advance(60)
            for browser in (one, two):
                await becomes(lambda of=browser: opened_at(of, 0, 1), [(5, 1), (0, 0)])
            await streaming(one, stack)  # this process knows at once, others with the minute
            await becomes(lambda: opened_at(one, 0), [(6, 1)])
        # a process that has ended has no streams any more
        clock.advance(120)
        await becomes(lambda: opened_at(one, 0, 1, 2), [(3, 1), (0, 1), (5, 1)])


async def test_a_server_without_streams_and_questions_adds_no_samples(tmp_path):
    clock = Clock()
    store = clock.store(f"sqlite:///{tmp_path}/tasks.db")
    async with replica(store, tmp_path) as (browser, _):
        for _ in range(5):
            clock.advance(60)
            await read(browser, "now?window=hour")
    with contextlib.closing(sqlite3.connect(tmp_path / "tasks.db")) as db:
        assert db.execute("SELECT count(*) FROM samples").fetchone()[0] <= 1


async def test_failures_of_one_kind_are_one_line():
    """Ids, references and numbers in a cause make no new kind."""
    async with opened() as (client, _, url):
        async with connect(url) as caller:
            for n in (17, 18, 19):
                await caller.send(f"{n}", skill="fail")
            await caller.send("words", skill="fail")
        _, now = await read(client, "now?window=hour")
        assert [(one["cause"], one["count"]) for one in now["causes"]] == [
            ("ValueError: … is no number", 3),
            ("ValueError: words is no number", 1),
        ]
