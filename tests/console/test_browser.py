"""The console as a person uses it, in a real browser."""

import asyncio
import contextlib
import json
import re
import sys
from pathlib import Path

import pytest
from aiohttp import web
from playwright.async_api import TimeoutError as PlaywrightTimeout
from playwright.async_api import expect

from accord import connect
from accord.model import Part
from tests.console.browser import (
    PATIENCE_MS,
    chromium,
    needs_browser,
    opened,
    page_of,
    read,
    serving,
    violations,
)
from tests.processes import free_port, run

pytestmark = needs_browser
HOSTILE = Path(__file__).parent / "hostile.json"


async def say(page, text, skill=""):
    if skill:
        await page.select_option(".composer select", skill)
    await page.fill("#composer", text)
    await page.press("#composer", "Enter")


async def ended(page, state="completed"):
    await page.wait_for_selector(f"[data-announced={state}]", state="attached")


async def test_a_trip_is_planned_with_a_form_a_stream_and_a_file(tmp_path):
    async with opened() as (page, _, _):
        await say(page, "A weekend in Rome", "plan")
        await page.fill(".question input", "x")
        await page.click(".question button[type=submit]")
        await page.wait_for_selector("text=Enter a whole number.")
        await page.fill(".question input", "2")
        await page.click(".question button[type=submit]")
        await ended(page)
        shown = await page.inner_text("article:last-of-type section")
        assert "Day 1: walk\nDay 2: walk" in shown
        await expect(page.locator(".markdown strong")).to_have_count(2, timeout=PATIENCE_MS)

        await say(page, "9 euros", "approve")
        await page.click(".question button:text-is('Approve')")
        await page.wait_for_selector("text=paid")

        (tmp_path / "list.txt").write_text("one two")
        await page.set_input_files("input[type=file]", tmp_path / "list.txt")
        await say(page, "", "measure")
        await page.wait_for_selector("text=list.txt has 7 bytes")
        async with page.expect_download() as download:
            await page.click("section[aria-label=Measured] >> text=Save list.txt")
        saved = await (await download.value).path()
        assert Path(saved).read_text() == "one two"  # noqa: ASYNC240  a file of our own


async def test_a_form_is_filled_and_sent_as_typed():
    async with opened() as (page, _, _):
        await say(page, "go", "book")
        await page.fill("[data-path=city]", "Oslo")
        await page.fill("[data-path=days]", "3")
        await page.select_option("[data-path=pace]", label="busy")
        await page.click(".question >> text=JSON")
        typed = json.loads(await page.input_value("#json-value"))
        assert typed == {"city": "Oslo", "days": 3, "pace": "busy"}
        await page.click(".question >> text=Form")
        await page.click(".question button[type=submit]")
        await page.wait_for_selector("text=Oslo for 3 days, busy")


async def test_a_stream_goes_on_after_the_server_was_killed(tmp_path):
    """Nothing twice, nothing lost; also when the page is loaded again in the middle."""
    store = f"sqlite:///{tmp_path}/tasks.db"
    async with (
        chromium() as browser,
        serving(store) as server,
        page_of(browser, server, may_lose=True) as page,
    ):
        await say(page, "60", "words")
        await page.wait_for_selector("text=w5")
        await page.reload()
        await page.wait_for_selector("text=w12")
        await server.kill()
        await page.wait_for_selector(".bar")
        await server.start()
        await ended(page)
        await page.wait_for_selector(".bar", state="detached")
        text = await page.inner_text("section.card .markdown")
        assert text.split() == [f"w{n}" for n in range(60)]


async def test_tasks_are_filtered_and_change_while_one_looks():
    async with opened() as (page, client, _):
        for n in range(60):
            await client.send(f"text {n}", skill="show")
        await client.send("Rome", skill="plan")
        await page.click("nav a[href='/console/tasks']")
        await page.wait_for_selector("tbody tr")
        await expect(page.locator("tbody tr")).to_have_count(50, timeout=PATIENCE_MS)
        await page.click("text=Older")
        await page.wait_for_selector("text=11 of 61")
        await page.select_option("select >> nth=0", "input-required")
        await page.wait_for_selector("text=1 of 1")
        await page.select_option("select >> nth=0", "")
        await page.wait_for_selector("text=50 of 61")
        await client.send("a new one", skill="show")
        await page.click("text=Show 1 new")
        await page.wait_for_selector("tbody >> text=a new one")
        await page.fill("#search", "a new")
        await expect(page.locator("tbody tr")).to_have_count(1, timeout=PATIENCE_MS)
        # by keyboard alone
        await page.fill("#search", "")
        await page.locator("h1").click()
        await page.keyboard.press("j")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("#event-number")


async def test_a_list_that_comes_late_does_not_replace_a_newer_one():
    """The filter said one thing and the list another."""
    async with opened() as (page, client, server):
        await client.send("5", skill="approve")
        done = (await client.send("ada", skill="show")).task_id
        late = asyncio.Event()

        async def hold(route):
            await late.wait()
            await route.continue_()

        await page.route("**/console/api/tasks?state=input-required*", hold)
        await page.goto(f"{server.url}/console/tasks")
        await page.wait_for_selector(f"[data-task='{done}']")
        await page.select_option("select >> nth=0", "input-required")
        await page.select_option("select >> nth=0", "completed")
        await expect(page.locator("[data-task]")).to_have_count(1)
        async with page.expect_response("**/tasks?state=input-required*") as came:
            late.set()
        await (await came.value).finished()
        await page.wait_for_function("() => new Promise(requestAnimationFrame)")
        assert await page.locator(f"[data-task='{done}']").count() == 1


async def test_a_task_is_cancelled_after_a_question():
    async with opened() as (page, client, server):
        reply = await client.send("Rome", skill="plan")
        await page.goto(f"{server.url}/console/tasks/{reply.task_id}")
        await page.wait_for_selector("#event-number")
        await page.keyboard.press("c")
        await page.click("dialog >> text=Cancel the task")
        await page.wait_for_selector(".facts [data-state=canceled]")
        assert (await client.get(reply.task_id)).status.state.word == "canceled"


async def test_a_task_is_shown_event_by_event():
    """The list is the log; the task at an event is the server's fold; private entries are there."""
    async with opened() as (page, client, server):
        reply = await client.send("go", skill="steps")
        await page.goto(f"{server.url}/console/tasks/{reply.task_id}")
        await page.wait_for_selector("[data-lane=steps] rect")
        log = await read(page, f"tasks/{reply.task_id}/events")
        count = log["events"][-1]["seq"]
        await page.wait_for_selector(f"text=Event {count} of {count}")
        await page.click("[role=tab][data-name=events]")
        listed = await page.locator(".events [role=option]").all_inner_texts()
        assert len(listed) == len(log["events"])
        numbers = [text.split()[0] for text in listed]
        events = [str(one["seq"]) for one in log["events"] if "event" in one]
        assert [n for n in numbers if "." not in n] == events  # as streams and --at count
        assert len(set(numbers)) == len(numbers)
        await page.keyboard.press("Shift+ArrowLeft")
        await page.wait_for_selector(f"text=Event 1 of {count}")
        await page.click("[role=tab][data-name=story]")
        await page.wait_for_selector("[data-fold] [data-state=submitted]")
        for _ in range(len(listed) - 1):
            await page.keyboard.press("]")
        await page.wait_for_selector("[data-outcome=completed]")
        await page.click("[role=tab][data-name=wire]")
        for version, member in (("1.0", "statusUpdate"), ("0.3", "kind"), ("0.1", "final")):
            await page.click(f".segments button:text-is('{version}')")
            await page.wait_for_selector(f"[data-tab='{version}'] >> text={member}")
        await page.wait_for_selector("[data-lens] >> text=/A 0.1 client over JSONRPC does not get/")
        await page.click("[data-number='1']")
        await page.wait_for_selector("[data-lost] >> text=task.history[].messageId")
        await page.click(".segments button:text-is('0.3')")
        await page.wait_for_selector("[data-lens] >> text=A 0.3 or 0.2 client over JSONRPC gets")
        await page.click(".segments button:text-is('GRPC')")
        await page.wait_for_selector("[data-tab='0.3'] >> text=contextId")


TRIES = [
    ("1.0", "JSONRPC"),
    ("1.0", "HTTP+JSON"),
    ("0.3", "JSONRPC"),
    ("0.3", "HTTP+JSON"),
    ("0.1", "JSONRPC"),
]


LONGEST = """
new Promise((done) => {
  let longest = 0;
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) longest = Math.max(longest, entry.duration);
  }).observe({ type: "longtask" });
  const list = document.querySelector(".events");
  let n = 0;
  const step = () => {
    list.scrollTop = (list.scrollHeight * n) / 100;
    if (n++ < 100) requestAnimationFrame(step);
    else setTimeout(() => done([longest, list.querySelectorAll("[role=option]").length]), 300);
  };
  step();
})
"""


async def test_a_log_of_ten_thousand_events_is_drawn_row_by_row():
    """Only what is seen is drawn; how long the longest pause was is printed, not judged."""
    async with opened() as (page, client, server):
        reply = await client.send("10000", skill="many", timeout_s=60)
        await page.goto(f"{server.url}/console/tasks/{reply.task_id}?tab=events")
        await page.wait_for_selector("text=/Event 1000\\d of 1000\\d/")
        longest, drawn = await page.evaluate(LONGEST)
        print(f"10,000 events: longest task while scrolling {longest:.0f} ms, {drawn} rows drawn")
        assert drawn <= 40


async def test_a_question_is_answered_and_a_task_looked_at_by_keyboard_alone():
    async with opened() as (page, _, _):
        keys = page.keyboard

        async def tab_to(selector: str) -> None:
            for _ in range(60):
                if await page.evaluate(f"document.activeElement.matches({selector!r})"):
                    return
                await keys.press("Tab")
            raise AssertionError(f"Tab does not reach {selector}")

        await tab_to("#composer")
        await keys.type("A weekend in Rome")
        await keys.press("Enter")
        await page.wait_for_selector(".question input")
        await page.evaluate("document.activeElement.blur()")
        await tab_to(".question input")
        await keys.type("2")
        await keys.press("Enter")
        await ended(page)
        await page.evaluate("document.activeElement.blur()")
        await keys.press("g")
        await keys.press("t")
        await page.wait_for_selector("tbody tr")
        await keys.press("j")
        await keys.press("Enter")
        await page.wait_for_selector("text=/Event \\d+ of \\d+/")
        await keys.press("Shift+ArrowLeft")
        await page.wait_for_selector("text=/Event 1 of /")
        for _ in range(4):  # entries that are no events are stepped through too
            await keys.press("]")
            with contextlib.suppress(PlaywrightTimeout):
                await page.wait_for_selector("text=/Event 2 of /", timeout=2000)
                break
        await page.wait_for_selector("text=/Event 2 of /", timeout=2000)
        await keys.press("?")
        await page.wait_for_selector("dialog >> text=Keyboard shortcuts")
        await keys.press("Escape")
        await page.wait_for_selector("dialog", state="hidden")


async def test_every_skill_is_tried_in_every_version_and_copied_as_a_line(tmp_path):
    async with opened() as (page, _, _):
        await page.click("nav a[href='/console/agent']")
        skill = page.locator("[data-skill=add]")
        await skill.locator("text=Try").click()
        await skill.locator("[data-path=a]").fill("40")
        for n, (version, binding) in enumerate(TRIES, 1):
            await skill.locator("select >> nth=0").select_option(version)
            if version != "0.1":
                await skill.locator("select >> nth=1").select_option(binding)
            await skill.locator("button[type=submit]").click()
            answer = skill.locator(f"[data-answer=add][data-count='{n}']")
            await answer.wait_for()
            assert "HTTP 200" in await answer.inner_text(), (version, binding)
            assert "42" in await answer.inner_text(), (version, binding)
        await skill.locator("select >> nth=0").select_option("1.0")
        curl = await skill.locator("button:text-is('curl')").get_attribute("data-copies")
        done = await run("sh", "-c", curl)
        assert "42" in done.out, done.err
        program = await skill.locator("button:text-is('Python')").get_attribute("data-copies")
        assert program is not None
        (tmp_path / "call.py").write_text(program.replace(".text)", ".data)"))
        done = await run(sys.executable, tmp_path / "call.py")
        assert done.out == "42\n", done.err


async def test_calls_are_shown_as_they_come():
    async with opened() as (page, _, server):
        await page.click("nav a[href='/console/live']")
        async with connect(server.url) as client:
            await client.send("hello", skill="show")
            await page.click("tbody >> text=SendMessage")
            await page.wait_for_selector("pre >> text=hello")


async def test_a_stream_in_live_gets_its_end_and_the_details_are_beside_the_list():
    """With many calls the details were below them all."""
    async with opened() as (page, client, _):
        await page.click("nav a[href='/console/live']")
        for n in range(40):
            await client.send(f"{n}", skill="show")
        row = page.locator("tr:has-text('SendStreamingMessage')")
        async with client.stream("8", skill="slow") as events:
            async for _event in events:
                await row.locator("[data-open=true]").wait_for()
                await row.locator("button").click()
                break
            async for _event in events:
                pass
        await row.locator("[data-open=false] >> text=200 stream").wait_for()
        cells = await row.locator("td").all_inner_texts()
        assert re.fullmatch(r"\d+(\.\d)?", cells[3].replace(",", "")), cells
        assert re.search(r"→ [\d,]+ (B|KiB)$", cells[4]), cells
        details = page.locator("[data-details]")
        await expect(details.locator("pre >> nth=1")).to_contain_text("w7", timeout=PATIENCE_MS)
        box, table = await details.bounding_box(), await page.locator("table").bounding_box()
        assert box is not None
        assert table is not None
        assert box["y"] < 800 - 100  # in the window
        assert box["x"] >= table["x"] + table["width"]


async def test_a_webhook_that_refuses_is_seen_and_served_again():
    """Each attempt is there with request and answer, without credentials. The dead letter is sent
    once more when somebody asks for it, and so is a test.
    """
    got: list[str] = []

    async def hook(request: web.Request) -> web.Response:
        got.append(await request.text())
        return web.Response(status=422 if len(got) == 1 else 200, text="not like this")

    app = web.Application()
    app.router.add_post("/hook", hook)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", free_port())
    await site.start()
    try:
        async with opened() as (page, client, server):
            reply = await client.send("Rome", skill="plan")
            await client.create_push_config(reply.task_id, f"{site.name}/hook", token="hunter22")
            await reply.answer("1")
            await page.goto(f"{server.url}/console/tasks/{reply.task_id}?tab=pushes")
            await page.click("[data-push] button")
            await page.click("[data-attempt=refused] button")
            sent, answered = page.locator("[data-attempt=refused] pre"), "HTTP 422"
            await expect(sent.nth(1)).to_contain_text(answered, timeout=PATIENCE_MS)
            await expect(sent.nth(1)).to_contain_text("not like this")
            await expect(sent.nth(0)).to_contain_text("webhook-id")
            assert "hunter22" not in await page.content()
            await page.click("[data-letter] button")
            await page.wait_for_selector("[data-push] >> text=delivered")
            await page.wait_for_selector("[data-letter]", state="detached")
            await page.click("nav a[href='/console/pushes']")
            await page.click("[data-endpoint] a")
            await page.click("[data-push] button")
            await page.wait_for_selector("[data-attempt=delivered]")
            before = len(got)
            await page.click("button:text-is('Send a test')")
            await page.wait_for_selector("text=The newest event was sent again and accepted.")
            assert got[before:] == [got[before - 1]]
    finally:
        await runner.cleanup()


async def test_hostile_text_runs_nothing_and_loads_nothing():
    """Whatever an agent says is text: in a message, an artifact, a title and an error."""
    async with opened() as (page, _, server):
        await page.evaluate("window.hit = () => { document.title = 'HIT'; }")
        texts = json.loads(HOSTILE.read_text())
        kinds = ("", "text/html", "image/svg+xml", "text/markdown", "text/csv")
        async with connect(server.url) as client:
            for text in texts:
                await client.send(text, skill="show")  # a title in the list
            for n, kind in enumerate(kinds):
                parts = [Part(text=text) for text in texts[n :: len(kinds)]]
                reply = await client.send(parts, skill="show", metadata={"as": kind})
                await page.goto(f"{server.url}/console/chat?task={reply.task_id}")
                await ended(page)
                await page.wait_for_selector("section.card")
        await page.click("nav a[href='/console/tasks']")
        await page.wait_for_selector("tbody tr")
        await page.wait_for_timeout(200)  # what would run, would run now
        assert "HIT" not in await page.title()
        await page.click("nav a[href='/console/settings']")
        await page.wait_for_selector("#language")


PAGES = ("", "inbox", "chat", "tasks", "compare", "agent", "live", "pushes", "settings")
LOOKS = (  # each language in each theme and width
    ("en", "light", 1440),
    ("en", "dark", 390),
    ("zh", "dark", 1440),
    ("zh", "light", 390),
)


@pytest.mark.parametrize(("language", "theme", "width"), LOOKS)
async def test_every_page_can_be_used_by_everyone(language, theme, width):
    """axe finds nothing, and nothing is wider than the window."""
    async with (
        chromium() as browser,
        serving() as server,
        page_of(browser, server, language=language, theme=theme, width=width) as page,
    ):
        async with connect(server.url) as client:
            await client.send("Rome", skill="plan")
            asked = await client.send("go", skill="book")
            done = await client.send("3", skill="slow")
            failed = await client.send("boom", skill="fail")
        done_at = f"tasks/{done.task_id}"
        tabs = [f"{done_at}?tab={name}" for name in ("events", "wire", "pushes")]
        failed_at = f"tasks/{failed.task_id}"
        places = [*PAGES, f"chat?task={asked.task_id}", done_at, *tabs, failed_at, "nowhere"]
        for place in places:
            await page.goto(f"{server.url}/console/{place}")
            await page.wait_for_selector("main h1")
            if place.startswith("tasks/"):
                await page.wait_for_selector("[data-lane=state] rect")
                if place.endswith("wire"):
                    await page.wait_for_selector("[data-lens]")
                    await page.wait_for_selector("[data-tab] pre")
            elif place.startswith("chat?task"):
                await page.wait_for_selector(".question form")
            elif place == "tasks":
                await page.wait_for_selector("tbody tr")
            assert await violations(page) == [], place
            wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert await page.evaluate(wide) <= 0, place


async def test_no_text_was_forgotten_by_the_translators():
    """In a language that marks its words, what is not marked is not translated."""
    async with (
        chromium() as browser,
        serving() as server,
        page_of(browser, server, language="pseudo") as page,
    ):
        for place in PAGES:
            await page.goto(f"{server.url}/console/{place}")
            await page.wait_for_selector("main h1")
            # skills are named by the agent
            ours = "nav a, main button:not([data-choose]), main label, main th"
            labels = await page.locator(ours).all_inner_texts()
            own = {"A weekend in Rome", "ms", "ListTasks"}
            plain = [text for text in labels if text.strip() and "⟦" not in text]
            assert [text for text in plain if text not in own] == [], place
