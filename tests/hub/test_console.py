"""The hub's pages in the console, in a real browser."""

import asyncio
import contextlib
from pathlib import Path
from types import SimpleNamespace

import pytest
from playwright.async_api import expect

from accord import Agent, Context, File, connect
from accord.auth import ApiKeys
from accord.console import Console
from accord.hub import Health, Hub, HubRole, HubSettings
from accord.hub.access import SYSTEM
from examples.onboarding import facilities, hr, it
from examples.onboarding.onboarding import onboarding_agent
from tests.check.faulty import FAULTS, faulty
from tests.console.browser import PATIENCE_MS, chromium, needs_browser, page_of, violations
from tests.hub.hubs import agent_named, serving_card
from tests.processes import free_port

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
    await page.click("#add button[type=submit]")
    await page.wait_for_selector("#add button[type=submit]:not([disabled])")
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
        page = await stack.enter_async_context(page_of(browser, server, place=""))
        await page.click("nav a[href='/console/agents']")
        await page.wait_for_selector("text=No agents yet")
        await page.click("a:text-is('Add an agent')")
        assert await add(page, good) == "up"
        assert await add(page, old) == "up"
        assert await add(page, closed) == "locked"
        assert await add(page, broken.url) == "broken"
        await expect(page.locator("tbody tr")).to_have_count(4, timeout=PATIENCE_MS)
        assert "credential" in await page.inner_text("[data-agent=locked]")
        await page.fill("#search", "say it again")
        await page.click("main form button:text-is('Find')")
        await page.wait_for_selector("text=matches")

        await page.click("[data-agent=good] a")
        await page.click("[role=tab][data-name=settings]")
        await page.click("[data-danger] >> text=Suspend")
        await page.wait_for_selector("[data-state-of-entry=suspended]")
        await page.click("[data-danger] >> text=Resume")
        await page.wait_for_selector("[data-state-of-entry=approved]")


async def test_checks_that_fail_come_first_and_are_kept(tmp_path):
    """What fails is open, with what to change; what passes is folded."""
    fault = next(one for one in FAULTS if one.name == "an internal error")
    async with (
        chromium() as browser,
        faulty(fault) as there,
        hub_with_console(tmp_path) as server,
        page_of(browser, server, place="") as page,
    ):
        entry = await server.hub.admission.add(SYSTEM, url=there.url)
        await page.goto(f"{server.url}/console/agents/{entry.name}?tab=checks")
        await page.wait_for_selector("text=Not checked yet")
        await page.click("text=Run the checks")
        await page.wait_for_selector("[data-checks] [data-status]")
        order = await page.locator("[data-checks] [data-status]").evaluate_all(
            "all => all.map((one) => [one.dataset.status, one.open])"
        )
        assert order[0] == ["fail", True]
        assert [is_open for _, is_open in order[1:]] == [False] * (len(order) - 1)
        first = await page.inner_text("[data-status=fail] li >> nth=0")
        await page.reload()
        assert await page.inner_text("[data-status=fail] li >> nth=0") == first


def _echo(text: str) -> str:
    """Say it again."""
    return text


async def test_a_changed_card_waits_in_the_inbox(tmp_path):
    """With what differs. The old one counts until somebody approves the new one."""
    async with (
        chromium() as browser,
        serving_card() as baker,
        hub_with_console(tmp_path) as server,
        page_of(browser, server, place="") as page,
    ):
        baker.card = baker.base()
        await page.goto(f"{server.url}/console/agents?add=1")
        await add(page, baker.url)
        baker.card = baker.base(skills=baker.base()["skills"][:1])
        await page.goto(f"{server.url}/console/agents/baker?tab=cards")
        await page.click("text=Refresh card")
        await page.wait_for_selector("[data-card='2'] [data-weight=material]")
        assert "skill removed" in await page.inner_text("[data-card='2']")
        assert len(server.hub.registry.get("baker").card.skills) == 2
        await page.click("nav a[href='/console/inbox']")
        await page.click("[data-alert=card] >> text=Approve")
        await page.wait_for_selector("[data-alert=card]", state="detached")
        assert len(server.hub.registry.get("baker").card.skills) == 1


@pytest.mark.parametrize(
    ("language", "theme", "width"),
    [("en", "light", 1440), ("zh", "dark", 1440), ("en", "dark", 390), ("zh", "light", 390)],
)
async def test_the_hubs_pages_can_be_used_by_everyone(tmp_path, language, theme, width):
    """axe finds nothing, and nothing is wider than the window."""
    async with (
        chromium() as browser,
        agent_named("Good").app().serving() as good,
        hub_with_console(tmp_path) as server,
        page_of(browser, server, place="", language=language, theme=theme, width=width) as page,
    ):
        await page.goto(f"{server.url}/console/agents?add=1")
        await add(page, good)
        tabs = [f"agents/good?tab={tab}" for tab in ("checks", "cards", "settings")]
        admin = ("keys", "users", "teams", "rules", "networks", "trust", "audit")
        kept = [f"admin/{tab}" for tab in admin]
        others = ["inbox", "chat?agent=good", "tasks", "trace", "live", "pushes", "settings"]
        for place in ("", "agents?add=1", "agents/good", *tabs, *kept, *others):
            await page.goto(f"{server.url}/console/{place}")
            await page.wait_for_selector("main h1")
            assert await violations(page) == [], place
            wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert await page.evaluate(wide) <= 0, place


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_no_two_columns_of_a_table_have_one_name(tmp_path, language):
    async with (
        chromium() as browser,
        agent_named("Good").app().serving() as good,
        hub_with_console(tmp_path) as server,
        page_of(browser, server, place="", language=language) as page,
    ):
        entry = await server.hub.admission.add(SYSTEM, url=good)
        async with connect(f"{server.url}/agents/{entry.name}") as guest:
            await guest.send("one")
        [trace] = await server.hub.traces.newest(None)
        for place in ("trace", f"trace/{trace['id']}", "tasks", "agents"):
            await page.goto(f"{server.url}/console/{place}")
            await page.wait_for_selector("tbody tr")
            names = [name for name in await page.locator("th").all_inner_texts() if name]
            assert len(names) == len(set(names)), (place, names)


async def test_a_question_is_answered_in_the_inbox_and_the_trace_is_a_tree(tmp_path):
    """OnboardingPro with the hub's address alone: six tasks, five of them led to by the first."""
    async with contextlib.AsyncExitStack() as stack:
        browser = await stack.enter_async_context(chromium())
        server = await stack.enter_async_context(hub_with_console(tmp_path))
        page = await stack.enter_async_context(page_of(browser, server, place=""))
        await page.goto(f"{server.url}/console/agents?add=1")
        pro = onboarding_agent(hub=server.url)
        for agent in (hr.agent, it.agent, facilities.agent, pro):
            await add(page, await stack.enter_async_context(agent.app().serving()))

        await page.goto(f"{server.url}/console/chat?agent=onboardingpro")
        await page.fill("#composer", '{"name": "Ada Lovelace", "role": "Engineer"}')
        await page.press("#composer", "Enter")
        await page.wait_for_selector(".question")
        await page.click("nav a[href='/console/inbox']")
        await page.fill("[data-asked] input", "2026-12-01")
        await page.click("[data-asked] button[type=submit]")
        await page.select_option("[data-asked] select", label="16")
        await page.click("[data-asked] button[type=submit]")
        await page.wait_for_selector("text=Nothing waits for you")

        [trace] = await server.hub.traces.newest(None)
        assert trace["agent"] == "onboardingpro"  # it is named by the first request
        assert "Ada Lovelace" in trace["title"]
        rows, depths = page.locator("tr[data-task]"), []
        async with asyncio.timeout(PATIENCE_MS / 1000):
            while len(depths) < 6:  # the last tasks are made after the last answer
                await page.goto(f"{server.url}/console/trace/{trace['id']}")
                await page.wait_for_selector("tr[data-depth='1']")
                depths = await rows.evaluate_all("rows => rows.map((row) => row.dataset.depth)")
        assert depths == ["0", "1", "1", "1", "1", "1"]
        assert "Ada Lovelace" in await page.inner_text("main h1")
        called = await page.locator("td[data-caller]").all_inner_texts()
        assert called[1:] == ["onboardingpro"] * 5  # who delegated, not "guest"
        assert await violations(page) == []
        # the waterfall: what was led to stands within what led to it, each after the other
        bars = await page.locator(".bar-of-time rect").evaluate_all(
            "all => all.map((bar) => [bar.x.baseVal.value, bar.width.baseVal.value])"
        )
        assert bars[0] == [0, 100]
        assert bars == sorted(bars)
        assert all(start + width <= 101 for start, width in bars)
        # the same beside each of its tasks
        await page.click("tr[data-depth='1'] a >> nth=0")
        await page.click("[role=tab][data-name=trace]")
        await expect(rows).to_have_count(6, timeout=PATIENCE_MS)
        chosen = await page.get_attribute("tr[aria-selected=true]", "data-task")
        assert chosen is not None
        assert chosen in page.url
        # the map: who called whom
        await page.goto(f"{server.url}/console/")
        edges = page.locator("[data-section=map] .edge title")
        await expect(edges).to_have_count(3, timeout=PATIENCE_MS)
        said = await edges.all_text_contents()
        assert all(one.startswith("onboardingpro → ") for one in said)
        await page.click("[data-section=map] a.node text >> nth=1")
        await page.wait_for_selector("[data-state-of-entry]")


async def test_a_large_file_goes_through_the_hub_and_back(tmp_path):
    """The page uploads it in pieces to the hub, and the agent behind the hub reads it."""
    agent = Agent("Scales", description="Weighs files.")

    @agent.skill
    async def weigh(file: File) -> str:
        """Say how many bytes a file has."""
        return f"{file.name} has {len(await file.read())} bytes"

    large = tmp_path / "large.bin"
    large.write_bytes(b"x" * 700_000)
    async with (
        chromium() as browser,
        agent.app().serving() as url,
        hub_with_console(tmp_path / "hub") as server,
        page_of(browser, server, place="") as page,
    ):
        await page.goto(f"{server.url}/console/agents?add=1")
        await add(page, url)
        await page.goto(f"{server.url}/console/chat?agent=scales")
        await page.set_input_files("input[type=file]", large)
        await page.click(".composer button:text-is('Send')")
        await page.wait_for_selector("text=large.bin has 700000 bytes")


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
            page_of(browser, server, place="", may_say="ERR_FAILED")
        )
        await page.goto(f"{server.url}/console/agents?add=1")
        await add(page, there)
        _, key = await server.hub.principals.new_key(SYSTEM, "mia", HubRole.USER)
        at = f"{server.url}/agents/desk"
        guest = await stack.enter_async_context(connect(at))
        mia = await stack.enter_async_context(connect(at, headers={"X-API-Key": key}))
        of_mia, of_guest = await mia.send("hello"), await guest.send("hello")
        await page.goto(f"{server.url}/console/inbox")
        await page.wait_for_selector(f"[data-asked='{of_guest.task_id}']")
        order = await page.locator("[data-asked]").evaluate_all(
            "all => all.map((one) => one.dataset.asked)"
        )
        assert order == [of_guest.task_id, of_mia.task_id]  # what one can do comes first
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
        await page.wait_for_selector(".facts [data-state=input-required]")
        assert await page.locator("button:text-is('Cancel task')").count() == 0


async def test_the_inbox_counts_all_and_a_storm_is_one_line(tmp_path):
    """Of 60 questions the oldest are shown, and all are counted."""
    async with contextlib.AsyncExitStack() as stack:
        browser = await stack.enter_async_context(chromium())
        there = await stack.enter_async_context(asking_agent().app().serving())
        server = await stack.enter_async_context(hub_with_console(tmp_path))
        page = await stack.enter_async_context(page_of(browser, server, place=""))
        await page.goto(f"{server.url}/console/agents?add=1")
        await add(page, there)
        async with connect(f"{server.url}/agents/desk") as guest:
            asked = [(await guest.send(f"{n}")).task_id for n in range(60)]
        cards = [serving_card() for _ in range(4)]
        for n, card in enumerate(cards):
            one = await stack.enter_async_context(card)
            one.card = one.base(name=f"Baker{n}")
            await server.hub.admission.add(SYSTEM, url=one.url, name=f"baker{n}")
            for state in ("up", "degraded"):
                await server.hub.health.set_health(f"baker{n}", Health(state=state))
        await page.goto(f"{server.url}/console/inbox")
        await page.wait_for_selector("h1:has-text('Inbox 64')")
        assert await page.locator("[data-alert=health]").count() == 1
        assert "4: baker0, baker1, baker2 …" in await page.inner_text("[data-alert=health]")
        first = await page.locator("[data-asked]").first.get_attribute("data-asked")
        assert first == asked[0]
        await page.wait_for_selector("text=The oldest 54 of 64 are shown")
        for n in range(300):  # more than are listed
            await server.hub.inbox.add("health", f"baker{n % 4}", "degraded")
        await page.click("[data-alert=health] >> text=Dismiss all 304")
        await page.wait_for_selector("h1:has-text('Inbox 60')")


async def test_a_changed_card_is_approved_only_with_its_difference_in_view(tmp_path):
    async with (
        chromium() as browser,
        serving_card() as baker,
        hub_with_console(tmp_path) as server,
        page_of(browser, server, place="", may_say="ERR_FAILED") as page,
    ):
        baker.card = baker.base()
        await page.goto(f"{server.url}/console/agents?add=1")
        await add(page, baker.url)
        baker.card = baker.base(skills=baker.base()["skills"][:1])
        await page.goto(f"{server.url}/console/agents/baker?tab=cards")
        await page.click("text=Refresh card")
        await page.wait_for_selector("[data-card='2']")
        await page.route("**/cards/2", lambda route: route.abort())
        await page.click("nav a[href='/console/inbox']")
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


async def test_a_changed_card_says_whose_calls_of_the_last_week_it_is_about(tmp_path):
    """Who removes a skill that people use is seen to do so, before it is approved."""

    async def answer(text: str) -> str:
        """Answer."""
        return text

    def shop(*skills: str) -> Agent:
        agent = Agent("Shop", description="Sells.")
        for skill in skills:
            agent.skill(answer, id=skill)
        return agent

    port = free_port()
    async with contextlib.AsyncExitStack() as stack:
        browser = await stack.enter_async_context(chromium())
        server = await stack.enter_async_context(hub_with_console(tmp_path))
        async with shop("pay", "ask", "old").app().serving(port) as there:
            await server.hub.admission.add(SYSTEM, url=there)
            for name, count in (("mia", 2), ("ben", 1)):
                _, api_key = await server.hub.principals.new_key(SYSTEM, name, HubRole.USER)
                where = f"{server.url}/agents/shop"
                async with connect(where, headers={"X-API-Key": api_key}) as client:
                    for n in range(count):
                        await client.send(f"{n}", skill="pay")
                    await client.send("hello", skill="ask")
        await stack.enter_async_context(shop("ask").app().serving(port))
        page = await stack.enter_async_context(page_of(browser, server, place=""))
        await page.goto(f"{server.url}/console/agents/shop?tab=cards")
        await page.click("text=Refresh card")
        for sentence, callers, text in (
            ("skill removed: pay", "2", "2 callers used this, in 3 calls"),
            ("skill removed: old", "0", "Nobody used this last week"),
        ):
            line = page.locator(f"[data-card='2'] li:has-text('{sentence}') [data-affected]")
            await expect(line).to_contain_text(text, timeout=PATIENCE_MS)
            assert await line.get_attribute("data-affected") == callers
        await page.goto(f"{server.url}/console/inbox")
        await page.wait_for_selector("[data-alert=card] [data-affected='2']")


async def test_a_difference_far_into_a_text_is_in_view(tmp_path):
    """Texts were cut after 300 characters, so that two that differ later looked the same."""
    async with (
        chromium() as browser,
        serving_card() as baker,
        hub_with_console(tmp_path) as server,
        page_of(browser, server, place="") as page,
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
        await page.goto(f"{server.url}/console/agents/baker?tab=cards")
        await page.click("text=Refresh card")
        await page.wait_for_selector("[data-card='2']")
        await page.click("nav a[href='/console/inbox']")
        shown = page.locator("[data-alert=card]")
        await shown.locator("[data-weight] >> text=Sends yek ruoy").wait_for()
        assert "hidden characters: U+202E" in await shown.inner_text()


async def test_an_agent_is_retired_only_by_its_name(tmp_path):
    async with (
        chromium() as browser,
        agent_named("Good").app().serving() as good,
        hub_with_console(tmp_path) as server,
        page_of(browser, server, place="") as page,
    ):
        await page.goto(f"{server.url}/console/agents?add=1")
        await add(page, good)
        await page.goto(f"{server.url}/console/agents/good?tab=settings")
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


async def test_four_questions_are_answered_in_three_clicks_at_a_hub(tmp_path):
    """Why did it fail, what is slow, what is the rate of errors, what needs me."""

    async def mixed(text: str, ctx: Context) -> str:
        """Do what the text says."""
        if text == "fail":
            raise ValueError("no such invoice")
        return "yes" if text == "ask" and await ctx.ask("Pay?", bool) else text

    agent = Agent("Desk", description="Mixed.")
    agent.skill(mixed, id="mixed")
    async with contextlib.AsyncExitStack() as stack:
        there = await stack.enter_async_context(agent.app().serving())
        browser = await stack.enter_async_context(chromium())
        server = await stack.enter_async_context(hub_with_console(tmp_path))
        page = await stack.enter_async_context(page_of(browser, server, place=""))
        await server.hub.admission.add(SYSTEM, url=there)
        guest = await stack.enter_async_context(connect(f"{server.url}/agents/desk"))
        for text in ("one", "two", "three", "fail", "ask"):
            await guest.send(text)
        await page.goto(f"{server.url}/console/")
        errors = page.locator("[data-tile=errors] .figure")
        await expect(errors).to_have_text("25 %", timeout=PATIENCE_MS)
        await page.wait_for_selector("[data-section=slowest] a")
        waiting = page.locator("[data-tile=waiting] svg")
        await expect(waiting).to_have_attribute("aria-label", "Waiting for a person: at most 1")
        await page.click("[data-section=failures] a")
        outcome = page.locator("[data-outcome=failed]")
        await expect(outcome).to_contain_text("Reference: ", timeout=PATIENCE_MS)
        reference = (await outcome.inner_text()).partition("Reference: ")[2].split()[0]
        hint = outcome.locator("[data-cause]")
        await expect(hint).to_contain_text(f"in the agent's log, under the reference {reference}.")
        assert await hint.locator("a").get_attribute("href") == "/console/agents/desk"
        failed = page.locator("nav .count.bad")
        await expect(failed).to_have_attribute("title", "failed or rejected in the last 24 hours")
        await page.click("nav a[href='/console/']")
        await page.click("[data-section=oldest] a")
        await page.click("button:text-is('Answer for the guest')")
        await page.click("button:text-is('Approve')")
        await page.wait_for_selector("text=Nothing waits for you")


async def test_failures_whose_cause_is_hidden_are_one_line(tmp_path):
    """Agents keep to themselves what they raised. All send the same words, with a reference."""

    async def fail(text: str) -> str:
        """Fail."""
        raise ValueError(text)

    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(hub_with_console(tmp_path))
        for name, count in (("Desk", 2), ("Shop", 3)):
            agent = Agent(name, description="Fails.")
            agent.skill(fail, id="fail")
            there = await stack.enter_async_context(agent.app().serving())
            entry = await server.hub.admission.add(SYSTEM, url=there)
            where = f"{server.url}/agents/{entry.name}"
            guest = await stack.enter_async_context(connect(where))
            for _ in range(count):
                await guest.send("one")
        browser = await stack.enter_async_context(chromium())
        page = await stack.enter_async_context(page_of(browser, server, place=""))
        lines = page.locator("[data-section=failures] li")
        await expect(lines).to_have_count(1, timeout=PATIENCE_MS)
        await expect(lines.locator("a")).to_have_text("The agent failed.")
        assert (await lines.locator(".numbers").inner_text()).startswith("5")
        await expect(lines.locator(".soft")).to_contain_text("2 agents: shop, desk")


async def test_an_admin_keeps_keys_teams_and_rules_and_the_log_says_so(tmp_path):
    async with (
        chromium() as browser,
        hub_with_console(tmp_path) as server,
        page_of(browser, server, place="", may_say="status of 400") as page,
    ):
        await page.goto(f"{server.url}/console/admin/teams")
        await page.fill("[name=name]", "finance")
        await page.click("main form button[type=submit]")
        await page.wait_for_selector("td >> text=finance")
        await page.click("[role=tab][data-name=keys]")
        await page.fill("[name=name]", "ci")
        await page.select_option("[name=role]", "publisher")
        await page.fill("[name=teams]", "finance")
        await page.click("main form button[type=submit]")
        key = await page.inner_text("[data-made]")
        async with connect(server.url, headers={"X-API-Key": key}) as client:
            await client.send("hello", skill="list_agents")
        await page.reload()
        await page.wait_for_selector("td >> text=ci")
        assert key not in await page.content()  # it is shown once
        await page.click("tr:has(td:text-is('ci')) button")
        await page.click("dialog button.danger")
        await page.wait_for_selector("text=ci was removed.")
        await page.click("[role=tab][data-name=rules]")
        await page.fill("[name=who]", "nobody in particular")
        await page.fill("[name=what]", "*")
        await page.click("main form button[type=submit]")
        await page.wait_for_selector("main form [role=alert] >> text=who")
        await page.fill("[name=who]", "team:finance")
        await page.click("main form button[type=submit]")
        await page.wait_for_selector("td >> text=team:finance")
        await page.click("[role=tab][data-name=audit]")
        for did in ("team.add", "key.new", "key.revoke", "policy.add"):
            await page.wait_for_selector(f"[data-kind=audit] td:text-is('{did}')")
        await page.click("button:text-is('Verify')")
        await page.wait_for_selector("text=The log is intact.")
