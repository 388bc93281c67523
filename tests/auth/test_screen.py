"""Host and Origin: requests that are for another server, or come from another site's page."""

import asyncio

import pytest

from accord import Agent
from accord.auth import ApiKeys


def echo(**more):
    agent = Agent("Echo", **more)

    @agent.skill
    async def echo(text: str) -> str:
        return text

    return agent


async def ask(client, path="/tasks", verb="GET", **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with client.http.request(verb, client.url + path, headers=named) as response:
        return response.status, await response.text(), response.headers


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example"])
async def test_a_name_that_is_not_ours_is_refused(connect_http, host):
    """DNS rebinding: to a browser it is the attacker's own site, so only the Host tells."""
    async with connect_http(echo()) as client:
        status, text, _ = await ask(client, Host=host)
        assert status == 421
        assert "--url" in text
        status, _ = await client.post("/", {}, Host=host)
        assert status == 421


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "a.localhost", "127.0.0.1", "[::1]:8", "10.0.0.7", "agent"]
)
async def test_names_nobody_else_can_own_are_ours(connect_rest, host):
    async with connect_rest(echo()) as client:
        assert (await ask(client, Host=host))[0] == 200


@pytest.mark.parametrize(
    "host",
    ["localhost:80@evil.example", "[::1]@evil.example", "localhost:x", "localhost/evil", "a b"],
)
async def test_a_host_that_is_more_than_a_name_and_a_port_is_refused(connect_rest, host):
    """In a URL of the card it would be another address, and a signed card would vouch for it."""
    async with connect_rest(echo()) as client:
        assert (await ask(client, Host=host))[0] == 421
        status, text, _ = await ask(client, "/.well-known/agent-card.json", Host=host)
        assert status == 200
        assert "evil" not in text
        assert f'"{client.url}' in text


async def test_the_configured_url_is_ours(connect_rest):
    async with connect_rest(echo(), url="https://agents.example.com/echo") as client:
        assert (await ask(client, Host="agents.example.com"))[0] == 200
        assert (await ask(client, Host="evil.example"))[0] == 421


async def test_the_card_and_health_are_for_everyone(connect_rest):
    """They hold nothing that only some may see, and probes name hosts as they like."""
    async with connect_rest(echo()) as client:
        for path in ("/.well-known/agent-card.json", "/healthz", "/readyz"):
            status, text, _ = await ask(client, path, Host="evil.example")
            assert status == 200
            assert "evil" not in text


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:1"])
async def test_a_page_of_another_site_is_refused(connect_rest, origin):
    async with connect_rest(echo()) as client:
        assert (await ask(client, Origin=origin))[0] == 403
        preflight = await ask(
            client, verb="OPTIONS", Origin=origin, Access_Control_Request_Method="POST"
        )
        assert preflight[0] == 403
        assert "access-control-allow-origin" not in preflight[2]


async def test_a_browser_that_sends_no_origin_says_where_it_comes_from(connect_rest):
    async with connect_rest(echo()) as client:
        assert (await ask(client, Sec_Fetch_Site="cross-site"))[0] == 403
        assert (await ask(client, Sec_Fetch_Site="same-origin"))[0] == 200


async def test_a_page_of_our_own_is_let_in(connect_rest):
    async with connect_rest(echo()) as client:
        assert (await ask(client, Origin=client.url))[0] == 200


async def test_a_page_of_an_allowed_origin_is_let_in(connect_rest):
    """The browser asks first, and is told so with every answer, also with a refusal."""
    page = "https://app.example.com"
    auth = ApiKeys(keys={"a-key-of-sixteen-letters": "ada"})
    async with connect_rest(echo(auth=auth), cors_origins=[page]) as client:
        status, _, headers = await ask(
            client, verb="OPTIONS", Origin=page, Access_Control_Request_Method="POST"
        )
        assert (status, headers["access-control-allow-origin"]) == (204, page)
        assert "x-api-key" in headers["access-control-allow-headers"].lower()
        for key, expected in (("a-key-of-sixteen-letters", 200), ("wrong", 401)):
            status, _, headers = await ask(client, Origin=page, X_API_Key=key)
            assert (status, headers["access-control-allow-origin"]) == (expected, page)
        assert (await ask(client, Origin="https://evil.example"))[0] == 403


@pytest.mark.parametrize("headers", [{}, {"Host": "evil.example"}])
async def test_who_is_refused_need_not_send_a_body(connect_http, headers):
    """Nothing of it is read: 401 or 421 comes while the body is still to come."""
    async with connect_http(echo(auth=ApiKeys())) as client:
        host, _, port = client.url.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        name = headers.get("Host", "localhost")
        writer.write(
            f"POST / HTTP/1.1\r\nHost: {name}\r\nContent-Type: application/json\r\n"
            "Content-Length: 3000000\r\nExpect: 100-continue\r\n\r\n".encode()
        )
        async with asyncio.timeout(10):
            answer = await reader.readline()
        assert int(answer.split()[1]) == (421 if headers else 401)
        writer.close()


async def test_a_mounted_app_does_not_read_it_either():
    """The same behind any ASGI server."""
    app = echo(auth=ApiKeys()).app()
    sent = []

    async def receive():
        raise AssertionError("the body was read")

    async def send(event):
        sent.append(event)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/",
        "raw_path": b"/",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
        "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 1),
        "query_string": b"",
        "scheme": "http",
    }
    try:
        await app(scope, receive, send)
    finally:
        await app.close()
    assert sent[0]["status"] == 401


async def test_answers_are_taken_for_nothing_else_and_kept_by_nobody(connect_rest):
    """Headers for browsers and caches: of tasks, of refusals, and of the card, which is public."""
    async with connect_rest(echo()) as client:
        for path, kept in (("/tasks", "no-store"), ("/.well-known/agent-card.json", "public")):
            _, _, headers = await ask(client, path)
            assert headers["x-content-type-options"] == "nosniff"
            assert kept in headers["cache-control"]
        status, _, headers = await ask(client, Host="evil.example")
        assert (status, headers["x-content-type-options"]) == (421, "nosniff")
