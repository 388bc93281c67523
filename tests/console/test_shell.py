"""What all pages share: they survive what fails, have a name each, and keys do what they say."""

from types import SimpleNamespace

from accord import connect
from accord.console import Console
from tests.console.agents import agent
from tests.console.browser import chromium, needs_browser, opened, page_of, serving
from tests.processes import free_port

pytestmark = needs_browser


async def test_pages_go_on_by_themselves_when_the_server_is_back(tmp_path):
    """One reading that failed left them dead."""
    store = f"sqlite:///{tmp_path}/tasks.db"
    async with (
        chromium() as browser,
        serving(store) as server,
        page_of(browser, server, may_lose=True) as page,
    ):
        pages = [page, *[await page.context.new_page() for _ in range(2)]]
        for one, place in zip(pages, ("pushes", "tasks", "settings"), strict=True):
            await one.goto(f"{server.url}/console/{place}")
            await one.wait_for_selector("main h1")
        await server.kill()
        for one in pages:
            await one.wait_for_selector(".bar")
        await page.wait_for_selector("main [role=alert]")
        await server.start()
        for one in pages:
            await one.wait_for_selector(".bar", state="detached")
            await one.wait_for_selector("main [role=alert]", state="detached")


async def test_a_piece_of_the_page_that_is_gone_after_an_upgrade_is_no_blank_page():
    async with (
        chromium() as browser,
        serving() as server,
        page_of(browser, server, may_say="404") as page,
    ):
        gone = "**/assets/tasks-*.js"
        await page.route(gone, lambda route: route.fulfill(status=404))
        await page.fill("#composer", "half a thought")
        await page.click("nav a[href='/console/tasks']")
        await page.wait_for_selector("text=The console was upgraded")
        await page.unroute(gone)
        await page.click("button:text-is('Reload')")
        await page.wait_for_selector("text=No tasks yet")
        await page.click("nav a[href='/console/chat']")
        await page.wait_for_selector("#composer")
        assert await page.input_value("#composer") == "half a thought"


async def test_what_fails_in_one_page_leaves_the_others_alone():
    async with (
        chromium() as browser,
        serving() as server,
        page_of(browser, server) as page,
    ):
        await page.route(
            "**/console/api/tasks?*",
            lambda route: route.fulfill(json={"tasks": [{"id": 1}], "total": 1, "next": ""}),
        )
        await page.click("nav a[href='/console/tasks']")
        await page.wait_for_selector("text=This page failed")
        await page.click("nav a[href='/console/settings']")
        await page.wait_for_selector("#language")


HIDE = """hidden => {
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


async def test_many_tabs_load_and_one_that_is_shown_again_is_current():
    """A browser has six connections to a server for all tabs, so a hidden tab holds none. What
    changed meanwhile is read when it is shown again.
    """
    async with chromium() as browser, serving() as server, page_of(browser, server) as first:
        await first.goto(f"{server.url}/console/tasks")
        await first.wait_for_selector("text=No tasks yet")
        await first.evaluate(HIDE, True)
        for _ in range(7):
            page = await first.context.new_page()
            await page.goto(f"{server.url}/console/settings")
            await page.wait_for_selector("#language")
            await page.evaluate(HIDE, True)
        async with connect(server.url) as client:
            reply = await client.send("hello")
        await first.evaluate(HIDE, False)
        await first.wait_for_selector(f"a[href*='{reply.task_id}']")


UNKNOWN = ("nowhere", "live/more", "tasks/a/b", "tasks/%E0%A4%A", "agents", "trace/1")


async def test_an_unknown_address_says_so():
    async with opened() as (page, _, server):
        for place in UNKNOWN:
            await page.goto(f"{server.url}/console/{place}")
            await page.wait_for_selector("h1:text-is('Page not found')")
            await page.wait_for_function("document.title.startsWith('Page not found')")
        await page.click("main a[href='/console/tasks']")
        await page.wait_for_selector("text=No tasks yet")


async def test_every_page_has_a_title_of_its_own():
    async with opened() as (page, client, server):
        reply = await client.send("Rome", skill="plan")
        titles = {}
        places = [
            "",
            "inbox",
            "chat",
            "tasks",
            "agent",
            "live",
            "pushes",
            "settings",
            f"tasks/{reply.task_id}",
        ]
        for place in places:
            await page.goto(f"{server.url}/console/{place}")
            await page.wait_for_selector("main h1")
            await page.wait_for_function("document.title.endsWith('· Planner · Accord')")
            titles[place] = await page.title()
        assert titles["tasks"] == "Tasks · Planner · Accord"
        assert titles[f"tasks/{reply.task_id}"] == "Rome · Planner · Accord"
        assert len(set(titles.values())) == len(places)


async def test_enter_and_space_belong_to_what_has_the_focus():
    """They opened the chosen row, or played the events, instead of pressing the button."""
    async with opened() as (page, client, server):
        reply = await client.send("go", skill="steps")
        await page.goto(f"{server.url}/console/tasks")
        await page.wait_for_selector("tbody tr")
        await page.keyboard.press("j")
        await page.focus("nav a[href='/console/live']")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("h1:text-is('Live')")
        await page.goto(f"{server.url}/console/tasks/{reply.task_id}")
        await page.wait_for_selector("text=/Event \\d+ of \\d+/")
        await page.focus("main button:text-is('Send again')")
        await page.keyboard.press("Space")
        await page.wait_for_selector("#composer")
        assert await page.input_value("#composer") == "go"


BIDI = "photo\u202egpj.exe"


async def test_a_name_with_an_override_of_direction_shows_it():
    """Else a file called so looks like a picture."""
    async with opened() as (page, client, server):
        await client.send(BIDI, skill="show")
        await page.goto(f"{server.url}/console/tasks")
        await page.wait_for_selector("tbody tr")
        assert "photo⟨U+202E⟩gpj.exe" in await page.inner_text("tbody")
        await page.click("tbody a >> nth=0")
        await page.wait_for_selector("section.card")
        for selector in ("main h1", "section.card strong"):
            assert "photo⟨U+202E⟩gpj.exe" in await page.inner_text(selector)
        assert "\u202e" not in await page.title()
        await client.send("a picture", skill="pick")
        await page.goto(f"{server.url}/console/inbox")
        assert "photo⟨U+202E⟩gpj.exe" in await page.inner_text("[data-asked] select")


LONG = "Llanfairpwllgwyngyllgogerychwyrndrobwllllantysiliogogogoch" * 2


async def test_a_long_name_without_a_blank_wraps():
    """Also on a telephone: nothing is cut off, and no page is wider than the window."""
    fits = "(all) => all.every((one) => one.scrollWidth <= one.clientWidth)"
    async with (
        chromium() as browser,
        serving() as server,
        page_of(browser, server, width=390) as page,
        connect(server.url) as client,
    ):
        reply = await client.send(LONG, skill="show")
        for place, name in (("tasks", "tbody td"), (f"tasks/{reply.task_id}", "h1, .card strong")):
            await page.goto(f"{server.url}/console/{place}")
            await page.wait_for_selector(f"text={LONG[:40]}")
            assert await page.locator(name).evaluate_all(fits), place
            assert await page.locator("html").evaluate_all(fits), place


async def test_html_of_an_agent_is_previewed_in_a_frame_without_rights():
    """The frame can't send what the page sends: its address has a ticket in it."""
    async with (
        chromium() as browser,
        serving() as server,
        page_of(browser, server, may_say="Blocked script execution") as page,
        connect(server.url) as client,
    ):
        html = "<b id=bold>bold</b><script>document.body.textContent = 'ran'</script>"
        reply = await client.send(html, skill="show", metadata={"as": "text/html"})
        await page.goto(f"{server.url}/console/tasks/{reply.task_id}")
        await page.click("section.card >> text=Preview")
        frame = page.frame_locator("iframe.preview")
        assert await frame.locator("#bold").inner_text() == "bold"
        await page.click("section.card >> text=Source")
        await page.wait_for_selector("pre >> text=<b id=bold>")


async def test_the_page_works_at_a_host_without_tls():
    """Browsers give ids and the clipboard to pages of this machine and of `https://` alone."""
    port = free_port()
    url = f"http://agent.test:{port}"
    app = agent.app(url=url)
    console = Console(app)
    console.attach(app)
    async with (
        chromium("--host-resolver-rules=MAP agent.test 127.0.0.1") as browser,
        app.serving(port),
        page_of(
            browser,
            SimpleNamespace(url=url, link=console.link(url)),
            may_say="Cross-Origin-Opener",
        ) as page,
    ):
        assert not await page.evaluate("isSecureContext")
        await page.select_option(".composer select", "show")
        await page.fill("#composer", "hello")
        await page.press("#composer", "Enter")
        await page.wait_for_selector("[data-state=completed]")
        await page.click("section button:text-is('Copy')")
        await page.wait_for_selector("section button:text-is('Copied')")
        await page.focus("#composer")
        await page.keyboard.press("Control+v")
        assert await page.input_value("#composer") == "hello"


async def test_events_that_two_readings_bring_are_shown_once():
    """Both went on after the same event: the answer was doubled."""
    async with opened() as (page, client, server):
        task = (await client.send("30", skill="slow", wait=False)).task_id
        await page.goto(f"{server.url}/console/tasks/{task}")
        await page.wait_for_selector("[data-fold] .markdown >> text=w0")
        held = []

        async def hold(route):
            held.append((route, await route.fetch()))
            if len(held) == 2:  # the second was asked for before the first was answered
                for one, answer in held:
                    await one.fulfill(response=answer)

        await page.route("**/events?*", hold, times=2)
        await page.wait_for_selector(".facts [data-state=completed]")
        shown = page.locator("[data-outcome] .markdown")
        await shown.locator("text=w29").wait_for()
        assert (await shown.inner_text()).split() == [f"w{n}" for n in range(30)]
