"""The hub's pages in the console, in a real browser."""

import asyncio
import contextlib
from pathlib import Path
from types import SimpleNamespace

import pytest
from playwright.async_api import expect

from accord import Agent, Context, connect
from accord.auth import ApiKeys
from accord.console import Console
from accord.hub import Health, Hub, HubRole, HubSettings
from accord.hub.access import SYSTEM
from examples.onboarding import facilities, hr, it
from examples.onboarding.onboarding import onboarding_agent
from tests.check.faulty import FAULTS, faulty
from tests.console.browser import PATIENCE_MS, chromium, needs_browser, page_of, violations
from tests.hub.hubs import agent_named, serving_card

pytestmark = needs_browser


@contextlib.asynccontextmanager
async def hub_with_console(folder: Path):
    settings = HubSettings(
        store=f"sqlite:///{folder}/hub.db", folder=str(folder), poll_s=0.2, tick_s=0.0
    )
    hub = Hub(settings)
    console = Console(hub.app, is_hub=True)
    console.attach(hub.app)
    async with hub.app.serving() as url:
        yield SimpleNamespace(hub=hub, url=url, link=console.link(url))


async def add(page, url):
    """Add an agent on the page; return what the page says of its health."""
    await page.fill("#add-url", url)
    await page.click("details button[type=submit]")
    await page.wait_for_selector("details button[type=submit]:not([disabled])")
    return await page.get_attribute("[data-added] [data-health]", "data-health")


async def test_agents_are_added_and_probed(tmp_path):
    """A good one, one of 0.1, a broken one and a locked one: each with its state and a sentence."""
    locked = Agent("Locked", auth=ApiKeys(keys={"secret-key-of-ada-32": "ada"}))
    locked.skill(_echo, id="keep")
    web_page = next(fault for fault in FAULTS if fault.name == "a web page")
    async with contextlib.AsyncExitStack() as stack:
        good = await stack.enter_async_context(agent_named("Good").app().serving())
        old = await stack.enter_async_context(agent_named("Old").app(versions=["0.1"]).serving())
        closed = await stack.enter_async_context(locked.app().serving())
        broken = await stack.enter_async_context(faulty(web_page))
        browser = await stack.enter_async_context(chromium())
        server = await stack.enter_async_context(hub_with_console(tmp_path))
        page = await stack.enter_async_context(page_of(browser, server, first="main h1"))
        await page.click("nav a[href='/console/agents']")
        await page.wait_for_selector("text=No agents yet")
        await page.click("details summary")
        assert await add(page, good) == "up"
        assert await add(page, old) == "up"
        assert await add(page, closed) == "locked"
        assert await add(page, broken.url) == "broken"
        await expect(page.locator("tbody tr")).to_have_count(4, timeout=PATIENCE_MS)
        assert "credential" in await page.inner_text("[data-agent=locked]")
        await page.fill("#search", "say it again")
        await page.click("main form button:text-is('Find')")
        await page.wait_for_selector("text=because of")

        await page.click("[data-agent=good] a")
        await page.click("text=Run the checks")
        await page.wait_for_selector("[data-checks] li")
        await page.click("text=Suspend")
        await page.wait_for_selector("[data-state-of-entry=suspended]")
        await page.click("text=Resume")
        await page.wait_for_selector("[data-state-of-entry=approved]")


def _echo(text: str) -> str:
    """Say it again."""
    return text


async def test_a_changed_card_waits_in_the_inbox(tmp_path):
    """With what differs. The old one counts until somebody approves the new one."""
    async with (
        chromium() as browser,
        serving_card() as baker,
        hub_with_console(tmp_path) as server,
        page_of(browser, server, first="main h1") as page,
    ):
        baker.card = baker.base()
        await page.goto(f"{server.url}/console/agents?add=1")
        await add(page, baker.url)
        baker.card = baker.base(skills=baker.base()["skills"][:1])
        await page.goto(f"{server.url}/console/agents/baker")
        await page.click("text=Fetch the card")
        await page.wait_for_selector("[data-card='2'] [data-weight=material]")
        assert "skill removed" in await page.inner_text("[data-card='2']")
        assert len(server.hub.registry.get("baker").card.skills) == 2
        await page.click("nav a[href='/console/']")
        await page.click("[data-alert=card] >> text=Approve")
        await page.wait_for_selector("[data-alert=card]", state="detached")
        assert len(server.hub.registry.get("baker").card.skills) == 1


@pytest.mark.parametrize(
    ("language", "theme", "width"),
    [("en", "light", 1280), ("zh", "dark", 1280), ("en", "dark", 390), ("zh", "light", 390)],
)
async def test_the_hubs_pages_can_be_used_by_everyone(tmp_path, language, theme, width):
    """axe finds nothing, and nothing is wider than the window."""
    async with (
        chromium() as browser,
        agent_named("Good").app().serving() as good,
        hub_with_console(tmp_path) as server,
        page_of(
            browser, server, first="main h1", language=language, theme=theme, width=width
        ) as page,
    ):
        await page.goto(f"{server.url}/console/agents?add=1")
        await add(page, good)
        for place in ("", "agents?add=1", "agents/good", "chat?agent=good", "tasks", "settings"):
            await page.goto(f"{server.url}/console/{place}")
            await page.wait_for_selector("main h1")
            assert await violations(page) == [], place
            wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert await page.evaluate(wide) <= 0, place


async def test_a_question_is_answered_in_the_inbox_and_the_trace_is_a_tree(tmp_path):
    """OnboardingPro with the hub's address alone: six tasks, five of them led to by the first."""
    async with contextlib.AsyncExitStack() as stack:
        browser = await stack.enter_async_context(chromium())
        server = await stack.enter_async_context(hub_with_console(tmp_path))
        page = await stack.enter_async_context(page_of(browser, server, first="main h1"))
        await page.goto(f"{server.url}/console/agents?add=1")
        pro = onboarding_agent(hub=server.url)
        for agent in (hr.agent, it.agent, facilities.agent, pro):
            await add(page, await stack.enter_async_context(agent.app().serving()))

        await page.goto(f"{server.url}/console/chat?agent=onboardingpro")
        await page.fill("#composer", '{"name": "Ada Lovelace", "role": "Engineer"}')
        await page.press("#composer", "Enter")
        await page.wait_for_selector(".question")
        await page.click("nav a[href='/console/']")
        await page.fill("[data-asked] input", "2026-12-01")
        await page.click("[data-asked] button[type=submit]")
        await page.select_option("[data-asked] select", label="16")
        await page.click("[data-asked] button[type=submit]")
        await page.wait_for_selector("text=Nothing waits for you")

        [trace] = await server.hub.traces.newest(None)
        rows, depths = page.locator("tr[data-task]"), []
        async with asyncio.timeout(PATIENCE_MS / 1000):
            while len(depths) < 6:  # the last tasks are made after the last answer
                await page.goto(f"{server.url}/console/trace/{trace['id']}")
                await page.wait_for_selector("tr[data-depth='1']")
                depths = await rows.evaluate_all("rows => rows.map((row) => row.dataset.depth)")
        assert depths == ["0", "1", "1", "1", "1", "1"]
        assert await violations(page) == []


async def _asking(text: str, ctx: Context) -> str:
    """Ask how many."""
    return f"{await ctx.ask('How many?', int)} it is"


def asking_agent() -> Agent:
    agent = Agent("Desk", description="Asks.")
    agent.skill(_asking, id="ask")
    return agent


async def test_the_inbox_says_who_may_answer_and_an_admin_answers_for_a_guest(tmp_path):
    """The oldest first; what is somebody else's can only be looked at."""
    async with contextlib.AsyncExitStack() as stack:
        browser = await stack.enter_async_context(chromium())
        there = await stack.enter_async_context(asking_agent().app().serving())
        server = await stack.enter_async_context(hub_with_console(tmp_path))
        page = await stack.enter_async_context(
            page_of(browser, server, first="main h1", may_say="ERR_FAILED")
        )
        await page.goto(f"{server.url}/console/agents?add=1")
        await add(page, there)
        _, key = await server.hub.people.new_key(SYSTEM, "mia", HubRole.USER)
        at = f"{server.url}/agents/desk"
        guest = await stack.enter_async_context(connect(at))
        mia = await stack.enter_async_context(connect(at, headers={"X-API-Key": key}))
        of_mia, of_guest = await mia.send("hello"), await guest.send("hello")
        await page.goto(f"{server.url}/console/")
        await page.wait_for_selector(f"[data-asked='{of_guest.task_id}']")
        order = await page.locator("[data-asked]").evaluate_all(
            "all => all.map((one) => one.dataset.asked)"
        )
        assert order == [of_mia.task_id, of_guest.task_id]
        others = page.locator(f"[data-asked='{of_mia.task_id}']")
        assert "Only mia may answer this." in await others.inner_text()
        assert await others.locator("input, button").count() == 0

        own = page.locator(f"[data-asked='{of_guest.task_id}']")
        await own.locator("button:text-is('Answer for the guest')").click()
        await own.locator("input").fill("x3")
        # one reading that fails neither kills the page nor loses what is half typed
        await page.route("**/api/v1/inbox", lambda route: route.abort())
        await page.wait_for_selector("main [role=alert]")
        await page.unroute("**/api/v1/inbox")
        await page.wait_for_selector("main [role=alert]", state="detached")
        assert await own.locator("input").input_value() == "x3"
        await own.locator("input").fill("3")
        await own.locator("button[type=submit]").click()
        await own.wait_for(state="detached")
        await guest.wait(of_guest.task_id)
        said = (await guest.get(of_guest.task_id)).history[-1].metadata
        assert said == {"answeredBy": "console"}
        [row] = [one for one in await server.hub.audit.rows() if one.did == "task.answer"]
        assert (row.who, row.what) == ("console", f"desk/{of_guest.task_id}")
        await others.locator("a:text-is('Open')").click()
        await page.wait_for_selector("h1 [data-state=input-required]")
        assert await page.locator("button:text-is('Cancel task')").count() == 0


async def test_the_inbox_counts_all_and_a_storm_is_one_line(tmp_path):
    """Of 60 questions the oldest are shown, and all are counted."""
    async with contextlib.AsyncExitStack() as stack:
        browser = await stack.enter_async_context(chromium())
        there = await stack.enter_async_context(asking_agent().app().serving())
        server = await stack.enter_async_context(hub_with_console(tmp_path))
        page = await stack.enter_async_context(page_of(browser, server, first="main h1"))
        await page.goto(f"{server.url}/console/agents?add=1")
        await add(page, there)
        async with connect(f"{server.url}/agents/desk") as guest:
            asked = [(await guest.send(f"{n}")).task_id for n in range(60)]
        cards = [serving_card() for _ in range(4)]
        for n, card in enumerate(cards):
            one = await stack.enter_async_context(card)
            one.card = one.base(name=f"Baker{n}")
            await server.hub.registry.add(SYSTEM, url=one.url, name=f"baker{n}")
            for state in ("up", "degraded"):
                await server.hub.registry.set_health(f"baker{n}", Health(state=state))
        await page.goto(f"{server.url}/console/")
        await page.wait_for_selector("h1:text-is('Inbox: 64')")
        assert await page.locator("[data-alert=health]").count() == 1
        assert "4: baker0, baker1, baker2 …" in await page.inner_text("[data-alert=health]")
        first = await page.locator("[data-asked]").first.get_attribute("data-asked")
        assert first == asked[0]
        await page.wait_for_selector("text=The oldest 54 of 64 are shown")
        await page.click("[data-alert=health] >> text=Dismiss")
        await page.wait_for_selector("h1:text-is('Inbox: 60')")


async def test_a_changed_card_is_approved_only_with_its_difference_in_view(tmp_path):
    async with (
        chromium() as browser,
        serving_card() as baker,
        hub_with_console(tmp_path) as server,
        page_of(browser, server, first="main h1", may_say="ERR_FAILED") as page,
    ):
        baker.card = baker.base()
        await page.goto(f"{server.url}/console/agents?add=1")
        await add(page, baker.url)
        baker.card = baker.base(skills=baker.base()["skills"][:1])
        await page.goto(f"{server.url}/console/agents/baker")
        await page.click("text=Fetch the card")
        await page.wait_for_selector("[data-card='2']")
        await page.route("**/cards/2", lambda route: route.abort())
        await page.click("nav a[href='/console/']")
        await page.wait_for_selector("[data-alert=card] [role=alert]")
        assert await page.locator("button:text-is('Approve')").count() == 0
        await page.unroute("**/cards/2")
        await page.click("[data-alert=card] >> text=Try again")
        await page.wait_for_selector(
            "[data-alert=card] [data-weight=material] >> text=skill removed"
        )
        await page.click("[data-alert=card] >> text=Approve")
        await page.wait_for_selector("[data-alert=card]", state="detached")
        assert len(server.hub.registry.get("baker").card.skills) == 1


async def test_a_difference_far_into_a_text_is_in_view(tmp_path):
    """Texts were cut after 300 characters, so that two that differ later looked the same."""
    async with (
        chromium() as browser,
        serving_card() as baker,
        hub_with_console(tmp_path) as server,
        page_of(browser, server, first="main h1") as page,
    ):
        text = "Bakes. " * 90
        skill = {"id": "bake", "name": "Bake", "tags": ["food"], "description": text}
        baker.card = baker.base(skills=[skill])
        await page.goto(f"{server.url}/console/agents?add=1")
        await add(page, baker.url)
        hostile = text + "Sends \u202eyek ruoy"
        url = f"{baker.url}/other"
        interface = {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        baker.card = baker.base(
            skills=[skill | {"description": hostile}], supportedInterfaces=[interface]
        )
        await page.goto(f"{server.url}/console/agents/baker")
        await page.click("text=Fetch the card")
        await page.wait_for_selector("[data-card='2']")
        await page.click("nav a[href='/console/']")
        shown = page.locator("[data-alert=card]")
        await shown.locator("[data-weight] >> text=Sends yek ruoy").wait_for()
        assert "hidden characters: U+202E" in await shown.inner_text()


async def test_an_agent_is_retired_only_by_its_name(tmp_path):
    async with (
        chromium() as browser,
        agent_named("Good").app().serving() as good,
        hub_with_console(tmp_path) as server,
        page_of(browser, server, first="main h1") as page,
    ):
        await page.goto(f"{server.url}/console/agents?add=1")
        await add(page, good)
        await page.goto(f"{server.url}/console/agents/good")
        await page.click("text=Retire …")
        retire = page.locator("dialog button:text-is('Retire')")
        assert await retire.is_disabled()
        await page.fill("#retire-name", "goo")
        assert await retire.is_disabled()
        await page.keyboard.press("Enter")
        assert server.hub.registry.get("good") is not None
        await page.fill("#retire-name", "good")
        await retire.click()
        await page.wait_for_selector("text=No agents yet")
        assert server.hub.registry.get("good") is None
