"""The pages an operator looks at first: what fails, what is slow, what waits, and why."""

import json
import re
from pathlib import Path

from playwright.async_api import expect

from accord.model import Message, Part, Role, new_id
from tests.console.browser import PATIENCE_MS, needs_browser, opened, read, violations

pytestmark = needs_browser


async def test_four_questions_are_answered_in_three_clicks():
    """Why did it fail, what is slow, what is the rate of errors, what needs me."""
    async with opened() as (page, client, _):
        for n in range(4):
            await client.send(f"fine {n}", skill="show")
        await client.send("boom", skill="fail")
        slow = (await client.send("3", skill="slow")).task_id
        asked = (await client.send("9 euros", skill="approve")).task_id
        await page.click("nav a[href='/console/']")
        await expect(page.locator("[data-tile=errors] .figure")).to_have_text(
            "16.7 %", timeout=PATIENCE_MS
        )
        await page.wait_for_selector(f"[data-section=slowest] a[href*='{slow}']")
        waiting = page.locator("[data-tile=waiting] svg")
        await expect(waiting).to_have_attribute("aria-label", "Waiting for a person: at most 1")
        assert await waiting.locator("rect").count() >= 1
        await page.click("[data-section=failures] a >> text=ValueError")
        await page.wait_for_selector("[data-outcome=failed] >> text=boom is no number")
        await page.wait_for_selector(".trace-of-error >> text=agents.py")
        await page.click("nav a[href='/console/inbox']")
        await page.wait_for_selector(f"[data-group=answer] [data-asked='{asked}']")
        await page.click("[data-asked] button:text-is('Approve')")
        await page.wait_for_selector("text=Nothing waits for you")


async def test_figures_are_right_after_a_restart_and_cost_no_send_anything():
    """They are read from the tasks themselves: nothing is counted while tasks run."""
    async with opened() as (page, client, _):
        await client.send("one", skill="show")
        await client.send("boom", skill="fail")
        found = await read(page, "now?window=day")
        assert (found["ended"], found["failed"], found["isWhole"]) == (2, 1, True)
        assert sum(bucket["ended"] for bucket in found["buckets"]) == 2
        assert found["causes"][0]["cause"].startswith("ValueError: boom")
        assert (await read(page, "counts"))["failed"] == 1


async def test_streams_that_are_open_are_drawn_over_time():
    async with opened() as (page, client, server):
        stream = client.stream("600", skill="slow")
        await anext(stream)
        await page.goto(f"{server.url}/console/?window=day")
        drawn = page.locator("[data-tile=open] svg")
        await expect(drawn).to_have_attribute("aria-label", "Open streams: at most 1")
        await expect(drawn.locator("rect")).to_have_count(1)
        await expect(page.locator("[data-tile=open] .figure")).to_have_text("1")
        await expect(page.locator("[data-tile=open] .ends")).to_contain_text("max 1")
        await page.goto(f"{server.url}/console/?window=week")
        first = page.locator("[data-tile=open] .ends span").first
        await expect(first).to_have_text(re.compile(r"^\d{1,2} \w{3,4}$"))


async def test_a_search_looks_at_text_callers_skills_and_errors_and_says_how_far():
    async with opened() as (page, client, server):
        done = (await client.send("the blue whale", skill="show")).task_id
        failed = (await client.send("boom", skill="fail")).task_id
        await client.send("something else", skill="show")
        await page.goto(f"{server.url}/console/tasks?find=whale")
        await page.wait_for_selector(f"[data-task='{done}']")
        await expect(page.locator("tbody tr")).to_have_count(1, timeout=PATIENCE_MS)
        assert "Searched all 3 tasks" in await page.inner_text("#looked")
        await page.fill("#search", "ValueError")
        await page.wait_for_selector(f"[data-task='{failed}'] .why >> text=boom is no number")
        assert "find=ValueError" in page.url
        await page.fill("#search", "nothing like it")
        await page.wait_for_selector("text=No task matches these filters")


async def test_a_row_is_glanced_at_beside_the_list():
    async with opened() as (page, client, server):
        task = (await client.send("the blue whale", skill="show")).task_id
        await page.goto(f"{server.url}/console/tasks")
        await page.click(f"[data-task='{task}'] td >> nth=2")
        await page.wait_for_selector(".pane section.card >> text=the blue whale")
        await page.click(".pane button:text-is('Close')")
        await page.wait_for_selector(".pane", state="detached")


async def test_a_link_opens_a_task_as_it_stood_at_an_event():
    async with opened() as (page, client, server):
        reply = await client.send("Rome", skill="plan")
        await reply.answer("2")
        log = await read(page, f"tasks/{reply.task_id}/events")
        asked = next(
            one["seq"]
            for one in log["events"]
            if "INPUT_REQUIRED" in json.dumps(one.get("event", {}))
        )
        await page.goto(f"{server.url}/console/tasks/{reply.task_id}#e={asked}")
        await page.wait_for_selector("[data-past]")
        await page.wait_for_selector("[data-fold] [data-state=input-required]")
        link = await page.get_attribute("[data-past] button", "data-copies")
        assert link is not None
        assert link.endswith(f"#e={asked}")
        await page.click("text=Back to now")
        await page.wait_for_selector("[data-outcome=completed]")


# What an exported file shows at each event, on the way to the last one and back.
STEPPED = """() => {
  const range = document.querySelector("input[type=range]");
  const shown = (n) => {
    range.value = String(n);
    range.oninput();
    return document.body.innerText;
  };
  const all = [...Array(Number(range.max) + 1).keys()];
  shown(0);
  return [all.map(shown), all.reverse().map(shown)];
}"""


async def test_an_exported_task_replays_without_a_server(tmp_path):
    async with opened() as (page, client, server):
        task = (await client.send("my password=hunter22 <b>", skill="show")).task_id
        await page.goto(f"{server.url}/console/tasks/{task}")
        await page.wait_for_selector("[data-outcome]")
        async with page.expect_download() as download:
            await page.click("button:text-is('Export')")
        saved = tmp_path / "task.html"
        await (await download.value).save_as(saved)
        assert "hunter22" not in Path(saved).read_text()  # noqa: ASYNC240  a file of our own
        other = await page.context.new_page()
        await other.goto(saved.as_uri())
        await other.wait_for_selector("text=my password=[removed] <b>")
        await other.wait_for_selector("text=/completed · event \\d+ of \\d+/")
        forth, back = await other.evaluate(STEPPED)
        assert forth == back[::-1]
        assert len(set(forth)) > 2
        twins = (await client.send("whale", skill="twins")).task_id
        await page.goto(f"{server.url}/console/tasks/{twins}")
        await page.wait_for_selector("[data-outcome]")
        async with page.expect_download() as download:
            await page.click("button:text-is('Export')")
        await (await download.value).save_as(saved)
        await other.goto(saved.as_uri())
        for text in ("whale 1", "whale 2"):
            await other.wait_for_selector(f"pre:text-is('{text}')")
        await other.close()


async def test_two_tasks_are_compared_event_by_event():
    async with opened() as (page, client, server):
        first = (await client.send("same", skill="show")).task_id
        other = (await client.send("go", skill="steps")).task_id
        await page.goto(f"{server.url}/console/tasks/{first}")
        await page.click("a:text-is('Compare')")
        await page.click("button:text-is('go')")
        await page.wait_for_selector("[data-pair=differs]")
        await page.wait_for_selector("[data-pair=same]")
        assert f"right={other}" in page.url


async def test_the_palette_finds_pages_tasks_and_actions():
    async with opened() as (page, client, _):
        task = (await client.send("the blue whale", skill="show")).task_id
        await page.keyboard.press("Control+k")
        await page.fill(".palette input", "push")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("h1:text-is('Push notifications')")
        await page.keyboard.press("Control+k")
        await page.fill(".palette input", "blue whale")
        await page.click(".palette [role=option] >> text=the blue whale")
        await page.wait_for_selector("[data-outcome=completed]")
        assert task in page.url


async def test_back_returns_to_the_place_in_the_list():
    async with opened() as (page, client, server):
        for n in range(45):
            await client.send(f"text {n}", skill="show")
        await page.goto(f"{server.url}/console/tasks?state=completed")
        await page.wait_for_selector("tbody tr")
        await page.locator("tbody tr td.first a").nth(40).scroll_into_view_if_needed()
        was = await page.evaluate("scrollY")
        await page.locator("tbody tr td.first a").nth(40).click()
        await page.wait_for_selector("#event-number")
        await page.go_back()
        await page.wait_for_selector("tbody tr")
        await page.wait_for_function(f"() => Math.abs(scrollY - {was}) < 120")
        assert "state=completed" in page.url


async def test_conversations_are_listed_and_opened_again():
    async with opened() as (page, _, _):
        for text in ("the blue whale", "the red fox"):
            await page.select_option(".composer select", "show")
            await page.fill("#composer", text)
            await page.press("#composer", "Enter")
            await page.wait_for_selector("[data-announced=completed]", state="attached")
            await page.wait_for_selector(f"[data-talks] >> text={text}")
            await page.click(".talks button:text-is('New conversation')")
            await page.wait_for_selector("[data-choose=show]")
        await page.click("[data-talks] >> text=the blue whale")
        await page.wait_for_selector("[data-turn] >> text=the blue whale")
        assert await page.locator("[data-turn]").count() == 1
        current = page.locator("[data-talks] [aria-current=page]")
        await expect(current).to_contain_text("the blue whale", timeout=PATIENCE_MS)


async def test_deadlines_timers_and_progress_are_shown_while_they_last():
    """On the task, in the list and in the inbox; a deadline counts down by itself."""
    async with opened() as (page, client, server):
        asked = (await client.send("9 euros", skill="soon")).task_id
        sleeping = (await client.send("audit", skill="remind", wait=False)).task_id
        loading = (await client.send("rows", skill="load", wait=False)).task_id
        await page.goto(f"{server.url}/console/tasks")
        await page.wait_for_selector(f"[data-task='{asked}'] time >> text=answer within")
        await page.wait_for_selector(f"[data-task='{sleeping}'] time >> text=sleeps for another")
        await page.wait_for_selector(f"[data-task='{loading}'] progress[value='0.4']")
        for task in (asked, sleeping):
            await page.goto(f"{server.url}/console/tasks/{task}")
            await page.wait_for_selector("main time")
        await page.goto(f"{server.url}/console/tasks/{loading}")
        await page.wait_for_selector("main progress[value='0.4']")
        await page.goto(f"{server.url}/console/inbox")
        left = page.locator(f"[data-asked='{asked}'] time")
        before = await left.inner_text()
        await expect(left).not_to_have_text(before, timeout=PATIENCE_MS)
        # the answer names the question it is for
        await page.click(f"[data-asked='{asked}'] button:text-is('Approve')")
        await page.wait_for_selector("text=Nothing waits for you")
        said = (await client.get(asked)).history[-1].metadata
        assert said is not None
        assert said["urn:accord:question:1"]["id"]


async def test_code_charts_and_tables_are_drawn_saved_and_shown_raw():
    chart = {
        "mark": "bar",
        "data": {"values": [{"area": "tax", "amount": 3}, {"area": "travel", "amount": 5}]},
        "encoding": {"x": {"field": "area"}, "y": {"field": "amount", "type": "quantitative"}},
    }
    kinds = {
        "text/x-python": "def f():\n    return 1",
        "text/csv": "item,2024,2023,2023\nlaptop,1200,900,1,more\ndesk,340,2,3\n",
        "application/vnd.vegalite.v5+json": json.dumps(chart),
        "": "```python\nimport os\n```",
    }
    async with opened() as (page, client, server):
        for kind, text in kinds.items():
            message = Message(
                message_id=new_id(),
                role=Role.USER,
                parts=[Part(text=text)],
                metadata={"skill": "show", "as": kind},
            )
            task = (await client.send(message)).task_id
            await page.goto(f"{server.url}/console/tasks/{task}")
            made = page.locator("[data-outcome]")
            if kind == "text/csv":
                await made.locator("td >> text=laptop").wait_for()
                async with page.expect_download() as download:
                    await made.locator("[data-saves-table]").click()
                saved = await (await download.value).path()
                # in the order it came, with both columns of one name and what has none
                lines = ["item,2024,2023,2023,", "laptop,1200,900,1,more", "desk,340,2,3,"]
                assert saved.read_text().splitlines() == lines
            elif "vegalite" in kind:
                await expect(made.locator("[data-chart=bar] rect")).to_have_count(2)
            else:
                await made.locator(".code[data-language=python] .is-word").first.wait_for()
            assert await violations(page) == [], kind
            if kind:
                await made.locator("button:text-is('Raw')").click()
                await expect(made.locator("pre.plain")).to_contain_text(text.split("\n")[0])
            async with page.expect_download() as download:
                await made.locator("[data-saves]").click()
            saved = await (await download.value).path()
            assert saved.read_text() == text


FLOW = """flowchart TD
  A[Order arrives] --> B{Over 4,000 euros?}
  B -->|yes| C([Ask a person])
  B -->|no| D[Pay]
  C -- approved --> D
  C -. denied .-> E((End))
  D ==> E
  E --> A
"""
SEQUENCE = """sequenceDiagram
  participant H as Hub
  H->>IT: orderHardware
  loop until somebody answers
    IT-->>H: Which laptop?
  end
  Note over H,IT: a person answered
  IT->>IT: place the order
"""
# Whatever could be a script, a link, markup, an address or an override of the direction.
HOSTILE_FLOW = """flowchart TD
  A["<img src=x onerror=hit()><script>hit()</script>"] -->|"<a href='javascript:hit()'>go</a>"| B
  B["</text></svg><iframe src='https://evil.example'></iframe>"] --> C["\u202egnp.exe"]
  click A "javascript:hit()" "tip"
  click B href "https://evil.example" _blank
  click C call hit()
  style A fill:url(https://evil.example/x.png)
  classDef bad background:url(https://evil.example)
"""
HOSTILE_SEQUENCE = """sequenceDiagram
  participant A as <script>hit()</script>
  A->>B: <img src=https://evil.example/x.png onerror=hit()>
  link A: Open @ javascript:hit()
  links B: {"Open": "https://evil.example"}
"""


async def made_of(client, page, server, text: str, kind: str):
    """Show what an agent made of this text and media type."""
    reply = await client.send([Part(text=text)], skill="show", metadata={"as": kind})
    await page.goto(f"{server.url}/console/tasks/{reply.task_id}")
    return page.locator("[data-outcome]")


async def test_diagrams_are_drawn_and_their_source_is_shown():
    async with opened() as (page, client, server):
        made = await made_of(client, page, server, FLOW, "text/vnd.mermaid")
        drawn = made.locator("[data-diagram=flow]")
        await expect(drawn.locator("[data-node]")).to_have_count(5)
        await expect(drawn.locator("g.edge")).to_have_count(7)
        assert await violations(page) == []
        await drawn.locator("button:text-is('Source')").click()
        await expect(drawn.locator("pre")).to_contain_text("A[Order arrives]")
        made = await made_of(client, page, server, f"Plan:\n```mermaid\n{SEQUENCE}```\n", "")
        drawn = made.locator("[data-diagram=sequence]")
        await expect(drawn.locator("[data-person]")).to_have_count(2)
        await expect(drawn.locator("[data-message]")).to_have_count(3)
        assert await violations(page) == []
        made = await made_of(client, page, server, "gantt\n  title Plan", "text/x-mermaid")
        await expect(made.locator(".code")).to_contain_text("title Plan")
        await expect(made).to_contain_text("can't draw this diagram")


async def test_a_hostile_diagram_is_words():
    """Nothing of it runs, loads or leads elsewhere. `opened` fails on a report of the policy."""
    async with opened() as (page, client, server):
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        await page.add_init_script("window.hit = () => { document.title = 'HIT'; }")
        for text, words in ((HOSTILE_FLOW, "<script>hit()"), (HOSTILE_SEQUENCE, "<script>hit()")):
            made = await made_of(client, page, server, text, "text/vnd.mermaid")
            drawn = made.locator("[data-diagram] svg")
            await expect(drawn).to_contain_text(words)
            inside = (
                "a, image, img, script, style, iframe, foreignObject, [href], [onclick], [style]"
            )
            await expect(drawn.locator(inside)).to_have_count(0)
            await expect(made.locator("figcaption")).to_contain_text("links of the source")
            for node in await drawn.locator("rect, text").all():
                await node.dispatch_event("click")
        await made_of(client, page, server, HOSTILE_FLOW, "text/vnd.mermaid")
        await expect(made.locator("svg")).to_contain_text("⟨U+202E⟩")
        big = "flowchart TD\n" + "\n".join(f"a{n} --> b{n}" for n in range(5_000))
        made = await made_of(client, page, server, big, "text/vnd.mermaid")
        await expect(made).to_contain_text("can't draw this diagram")
        assert "HIT" not in await page.title()
        assert [url for url in asked if not url.startswith(server.url)] == []


async def test_live_calls_are_filtered_by_words_and_by_kind():
    async with opened() as (page, client, server):
        await client.send("the blue whale", skill="show")
        async for _ in client.stream("3", skill="many"):
            pass
        await page.goto(f"{server.url}/console/live")
        rows = page.locator("tr[data-exchange]")
        await expect(rows.filter(has_text="SendStreamingMessage")).to_have_count(1)
        await page.fill("main input[type=search]", "sendmessage")
        await expect(rows).to_have_count(1)
        await page.click("main button:has-text('streams')")
        await page.wait_for_selector("text=No call matches.")
        await page.fill("main input[type=search]", "")
        await expect(rows).to_have_count(1)
        await expect(rows).to_contain_text("SendStreamingMessage")
