"""The console's side of the server: its link, its cookie, and what the page reads."""

import asyncio
import contextlib
import gc
import gzip
import json
import re
import sys

import aiohttp
import pytest

from accord import Agent
from accord.auth import ApiKeys
from accord.console import Console
from accord.console.exchanges import BODY_BYTES, Exchanges
from accord.console.login import BrowserSessions
from accord.console.pages import Pages
from accord.server import HttpRequest, HttpResponse
from accord.server.request import ServerUrl, Target
from tests.console import golden
from tests.console.agents import agent
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


@contextlib.asynccontextmanager
async def opened(of=agent):
    """A browser that opened the link."""
    async with served(of) as (client, console, url):
        async with client.get(console.link(url)) as response:
            assert response.status == 200
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
    async with served() as (client, console, url):
        link = console.link(url)
        async with client.get(link) as response:
            assert response.status == 200
            cookie = response.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert f"accord-{url.rpartition(':')[2]}=" in cookie
        async with aiohttp.ClientSession() as other, other.get(link) as response:
            assert response.status == 403
            assert "opens the console once" in await response.text()


async def test_without_the_cookie_nothing_is_shown():
    async with served() as (client, _, _):
        assert (await read(client, "me"))[0] == 403
        async with client.get("/console/tasks") as response:
            assert response.status == 403


FORGED = [
    ("GET", {"Host": "evil.example"}),
    ("GET", {"Origin": "http://evil.example"}),
    ("GET", {"Sec-Fetch-Site": "cross-site"}),
    ("GET", {"Sec-Fetch-Site": "same-site"}),
    ("POST", {}),
    ("POST", {"X-Accord": "0"}),
    ("POST", {"X-Accord": "1", "Origin": "http://evil.example"}),
    ("POST", {"X-Accord": "1", "Origin": "null"}),
    ("POST", {"X-Accord": "1", "Sec-Fetch-Site": "cross-site"}),
    ("POST", {"X-Accord": "1", "Sec-Fetch-Site": "same-site"}),
    ("POST", {"X-Accord": "1", "Host": "evil.example"}),
    ("POST", {"Content-Type": "text/plain"}),
]


@pytest.mark.parametrize(
    ("verb", "headers"), FORGED, ids=lambda value: json.dumps(value).replace(" ", "")
)
async def test_a_request_of_another_site_is_refused(verb, headers):
    """The browser sends our cookie with it: that proves nothing."""
    async with opened() as (client, _, _):
        path = "/console/api/me" if verb == "GET" else "/console/api/link"
        async with client.request(verb, path, headers=headers) as response:
            assert response.status in (400, 403, 421)


async def test_a_request_of_our_own_page_is_answered():
    async with opened() as (client, _, url):
        headers = {"X-Accord": "1", "Origin": url, "Sec-Fetch-Site": "same-origin"}
        async with client.post("/console/api/link", headers=headers) as response:
            assert response.status == 200


async def test_me_says_what_is_served():
    async with opened() as (client, _, url):
        _, me = await read(client, "me")
        assert me["base"] == url
        assert me["versions"] == ["1.0", "0.3", "0.1"]
        assert me["card"]["name"] == "Planner"
        assert me["schemas"]["add"]["input"]["required"] == ["a"]


async def test_tasks_are_found_by_state_and_page_by_page():
    async with opened() as (client, _, url):
        for n in range(5):
            await send(client, url, f"{n}", "show")
        await send(client, url, "Rome", "plan")
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
            assert wire[version] == frames, seq
        assert max(sent) == log["events"][-1]["seq"]


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


async def test_a_preview_has_no_rights():
    async with opened() as (client, _, url):
        task = await send(client, url, "<script>alert(1)</script>", "show")
        path = f"/console/api/tasks/{task['id']}/artifacts/shown/0"
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
        headers = {"X-Accord": "1"}
        async with client.post(f"/console/api/logins/{own['id']}/close", headers=headers):
            pass
        assert (await read(client, "me"))[0] == 403
        console.logins.renew()
        async with client.get(console.link(url)) as response:
            assert response.status == 200


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
            async with client.get(console.link(url)) as response:
                assert response.status == 200
            stream = await client.get(f"{url}/console/api/live")
            assert (await stream.content.readline()).startswith(b":")
        with contextlib.suppress(aiohttp.ClientPayloadError):
            await stream.content.read()
        stream.close()
    assert [record.getMessage() for record in caplog.records] == []


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


def test_a_link_is_renewed():
    logins = BrowserSessions()
    first = logins.key
    assert logins.open("wrong", _request()) is None
    assert logins.open(first, _request()) is not None
    assert logins.key == ""
    assert logins.renew() not in ("", first)


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
