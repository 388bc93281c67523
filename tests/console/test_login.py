"""Logging in to the console, in a real browser: who gets in, where, and for how long."""

import aiohttp
from aiohttp import web

from tests.console.browser import chromium, needs_browser, page_of, read, serving
from tests.postgres import schema_url
from tests.processes import free_port

pytestmark = needs_browser


async def test_another_port_of_the_host_gets_a_cookie_that_opens_nothing():
    """Browsers send cookies to every port. Whoever listens there has it, and can say any header."""
    got: list[str] = []

    async def listen(request: web.Request) -> web.Response:
        got.append(request.headers.get("Cookie", ""))
        return web.Response(text="hello")

    other = web.Application()
    other.router.add_get("/{any:.*}", listen)
    runner = web.AppRunner(other)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    async with (
        chromium() as browser,
        serving() as server,
        page_of(browser, server) as page,
        aiohttp.ClientSession() as thief,
    ):
        tab = await page.context.new_page()
        await tab.goto(f"http://127.0.0.1:{port}/")
        assert f"accord-{server.port}=" in got[0]
        for secret in ("", "1", "none", got[0].partition("=")[2]):
            headers = {"Cookie": got[0], "Origin": server.url, "X-Accord": "1"}
            headers |= {"X-Accord-Session": secret, "Sec-Fetch-Site": "same-origin"}
            async with thief.get(f"{server.url}/console/api/tasks", headers=headers) as answer:
                assert answer.status == 403, secret
        assert "tasks" in await read(page, "tasks")
    await runner.cleanup()


async def test_a_link_that_was_used_says_how_to_get_another():
    async with (
        chromium() as browser,
        serving() as server,
        page_of(browser, server),
    ):
        context = await browser.new_context()
        page = await context.new_page()
        await page.goto(server.link)
        await page.wait_for_selector("text=This browser is not logged in")
        assert "accord console link" in await page.inner_text("main")
        assert "key=" not in page.url
        await context.close()


async def test_a_browser_stays_logged_in_when_the_server_starts_again(tmp_path):
    store = f"sqlite:///{tmp_path}/tasks.db"
    async with (
        chromium() as browser,
        serving(store) as server,
        page_of(browser, server, may_lose=True) as page,
    ):
        await server.kill()
        await server.start()
        await page.goto(f"{server.url}/console/tasks")
        await page.wait_for_selector("text=No tasks yet")


async def test_all_processes_of_a_server_know_a_browser_that_is_logged_in():
    """Each request may come to another worker: so does the one that opens the link."""
    with schema_url() as store:
        async with (
            chromium() as browser,
            serving(store, workers=3) as server,
            page_of(browser, server) as page,
        ):
            script = """async () => {
                const own = localStorage.getItem("accord.session");
                const said = [];
                for (let n = 0; n < 30; n++) {
                    const answer = await fetch("/console/api/me", {
                        cache: "no-store", headers: {"X-Accord-Session": own},
                    });
                    said.push(answer.status);
                }
                return said;
            }"""
            assert set(await page.evaluate(script)) == {200}
            # one connection each, so that every worker is asked
            cookies = {one["name"]: one["value"] for one in await page.context.cookies()}
            own = await page.evaluate("localStorage.getItem('accord.session')")
            for _ in range(24):
                async with (
                    aiohttp.ClientSession(cookies=cookies) as client,
                    client.get(
                        f"{server.url}/console/api/me", headers={"X-Accord-Session": own}
                    ) as answer,
                ):
                    assert answer.status == 200
            await page.click("nav a[href='/console/live']")
            await page.wait_for_selector("text=several processes")
