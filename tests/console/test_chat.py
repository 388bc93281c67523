"""Chat in a real browser: turns belong to tasks, text is shown as it is, what is typed is kept."""

import asyncio
import random
import struct
import zlib
from typing import Any

from playwright.async_api import FilePayload, expect

from accord import connect
from accord.model import Part
from tests.console.browser import (
    PATIENCE_MS,
    chromium,
    needs_browser,
    opened,
    page_of,
    serving,
)
from tests.console.test_browser import ended, say

pytestmark = needs_browser


async def test_two_messages_at_once_keep_their_answers_apart():
    """Events were written to the last turn, whichever task they were of."""
    async with opened() as (page, _, _):
        await say(page, "12", "slow")
        await page.wait_for_selector("text=w1")
        await say(page, "3", "slow")
        first, second = page.locator("article >> nth=0"), page.locator("article >> nth=1")
        for turn, count in ((second, 3), (first, 12)):
            await turn.locator("[data-state=completed]").wait_for()
            text = await turn.locator(".markdown").inner_text()
            assert text.split() == [f"w{n}" for n in range(count)]


async def test_one_of_two_tasks_is_stopped_and_the_other_goes_on():
    async with opened() as (page, _, _):
        await say(page, "600", "slow")
        await say(page, "5", "slow")
        await page.locator("article >> nth=0").locator("[data-stops]").click()
        await page.locator("article >> nth=0").locator("[data-state=canceled]").wait_for()
        await page.locator("article >> nth=1").locator("[data-state=completed]").wait_for()


async def test_many_tasks_at_once_leave_the_page_usable():
    """A browser has six connections to a server, and each open stream took one."""
    async with opened() as (page, _, _):
        for n in range(7):
            await say(page, "9000", "slow")
            await expect(page.locator("[data-stops]")).to_have_count(n + 1, timeout=PATIENCE_MS)
        for n in range(7):
            turn = page.locator(f"article >> nth={n}")
            await turn.locator("text=w2").first.wait_for()
            await turn.locator("[data-stops]").click()
            await turn.locator("[data-state=canceled]").wait_for()


async def test_conversations_that_were_left_hold_no_connections():
    """With three streams of one and three of another no request of the page was sent any more."""
    async with opened() as (page, client, _):
        first = await client.send("9000", skill="slow", wait=False)
        for _ in range(2):
            await client.send("9000", skill="slow", wait=False, context_id=first.context_id)
        for n in range(3):
            await say(page, "9000", "slow")
            await expect(page.locator("[data-stops]")).to_have_count(n + 1, timeout=PATIENCE_MS)
        await page.click("nav a[href='/console/tasks']")
        await page.click(f"[data-task='{first.task_id}'] a >> nth=0")
        await page.click("main a.button")
        await expect(page.locator("article")).to_have_count(3, timeout=PATIENCE_MS)
        await page.locator("article >> nth=2").locator("text=w2").first.wait_for()
        await page.click("nav a[href='/console/tasks']")
        await expect(page.locator("[data-task]")).to_have_count(6, timeout=PATIENCE_MS)


async def test_what_a_person_types_is_shown_as_typed():
    async with opened() as (page, _, _):
        await say(page, "a*b*c and **d** # e", "show")
        await ended(page)
        assert "a*b*c and **d** # e" in await page.inner_text(".bubble.you")
        await page.click("nav a[href='/console/tasks']")
        await page.click("tbody a >> nth=0")
        await page.wait_for_selector("[data-fold] .users")
        assert "a*b*c and **d** # e" in await page.inner_text("[data-fold] .users >> nth=0")


async def test_an_agents_text_is_markdown_only_if_it_may_be():
    async with opened() as (page, client, server):
        shown = page.locator("section.card")
        for kind in ("text/plain", "", "text/markdown"):
            reply = await client.send("a*b*c", skill="show", metadata={"as": kind})
            await page.goto(f"{server.url}/console/chat?task={reply.task_id}")
            if kind == "text/plain":
                await shown.locator("pre:text-is('a*b*c')").wait_for()
                assert await shown.locator(".markdown").count() == 0
                continue
            assert await shown.locator(".markdown").inner_text() == "abc"
            await shown.locator("button:text-is('Raw')").click()
            assert await shown.locator("pre").inner_text() == "a*b*c"


NESTED = {
    "lists": "- " * 15_000 + "x",
    "quotations": ">" * 30_000 + "x",
    "stairs": "\n".join("  " * n + "- a" for n in range(200)),
    "brackets": "[" * 30_000,
    "stars": "**a *b " * 5_000,
}


async def test_no_text_of_an_agent_freezes_the_page():
    """Some 4 KB kept the browser busy for seconds, 30 KB for ever."""
    async with opened() as (page, client, server):
        for text in NESTED.values():
            reply = await client.send(text, skill="show", metadata={"as": "text/markdown"})
            await page.goto(f"{server.url}/console/chat?task={reply.task_id}")
            await page.wait_for_selector("section.card .markdown")
            await page.click("nav a[href='/console/settings']")
            await page.wait_for_selector("#language")


async def test_a_conversation_is_whole_after_a_reload():
    """With replies without a task, with questions and what was answered; and a task that was
    answered elsewhere.
    """
    async with opened() as (page, _, server):
        await say(page, "Ada", "greet")
        await page.wait_for_selector("text=hello Ada")
        await say(page, "A weekend in Rome", "plan")
        await page.fill(".question input", "2")
        await page.click(".question button[type=submit]")
        await ended(page)
        await say(page, "9 euros", "approve")
        await page.wait_for_selector("article:last-of-type .question")
        await page.reload()
        await page.wait_for_selector("article:last-of-type .question")
        said = await page.inner_text(".chat")
        order = [
            "hello Ada",
            "A weekend in Rome",
            "How many days?",
            "2",
            "Day 1: walk",
            "completed",
        ]
        order += ["9 euros", "Pay 9 euros?"]
        places = []
        for words in order:
            places.append(said.index(words, places[-1] + 1 if places else 0))
        assert await page.locator("article").count() == 3

        task = page.url.rpartition("task=")[2]
        async with connect(server.url) as other:
            await other.send([Part(data=True)], task_id=task)
        await page.wait_for_selector("article:last-of-type [data-state=completed]")
        assert await page.locator(".question").count() == 0


async def test_the_end_of_a_stream_is_in_sight_until_somebody_scrolls_away():
    at_end = "innerHeight + scrollY >= document.documentElement.scrollHeight - 2"
    async with opened() as (page, _, _):
        await say(page, "50", "lines")
        await ended(page)
        await page.wait_for_function(f"scrollY > 200 && {at_end}")
        await say(page, "50", "lines")
        await page.wait_for_selector("article:last-of-type >> text=line 5")
        await page.mouse.move(600, 300)
        await page.mouse.wheel(0, -20_000)
        await page.wait_for_selector("button:text-is('Newest ↓')")
        await page.wait_for_selector("article:last-of-type [data-state=completed]")
        assert await page.evaluate("scrollY") == 0
        await page.click("button:text-is('Newest ↓')")
        await page.wait_for_function(at_end)


async def test_the_form_of_a_question_has_the_focus_and_keeps_what_is_half_typed():
    """Over a reload, and over a look at another page."""
    async with opened() as (page, _, _):
        await say(page, "go", "book")
        await page.wait_for_selector("[data-path=city]:focus")
        await page.keyboard.type("Osl")
        await page.click("nav a[href='/console/tasks']")
        await page.wait_for_selector("tbody tr")
        await page.click("nav a[href='/console/chat']")
        await expect(page.locator("[data-path=city]")).to_have_value("Osl", timeout=PATIENCE_MS)
        await page.reload()
        await expect(page.locator("[data-path=city]")).to_have_value("Osl", timeout=PATIENCE_MS)
        await page.fill("[data-path=city]", "Oslo")
        await page.click(".question button[type=submit]")
        await page.wait_for_selector("text=Oslo for 2 days, calm")


async def test_a_question_does_not_take_the_focus_from_who_is_typing():
    """Nor does a yes-or-no question ever focus a button: a key would answer it."""
    async with opened() as (page, _, _):
        await say(page, "half", "late")
        await page.fill("#composer", "half a th")
        await page.wait_for_selector(".question")
        assert await page.evaluate("document.activeElement.id") == "composer"
        await page.click(".question button:text-is('Deny')")
        await page.wait_for_selector("text=not paid")
        assert await page.input_value("#composer") == "half a th"


async def test_a_waiting_question_is_cancelled_in_the_chat():
    async with opened() as (page, client, _):
        await say(page, "Rome", "plan")
        await page.click(".question >> text=Cancel task")
        await page.wait_for_selector("article [data-state=canceled]")
        task = page.url.rpartition("task=")[2]
        assert (await client.get(task)).status.state.word == "canceled"


async def test_a_draft_is_kept_with_its_skill_and_files(tmp_path):
    (tmp_path / "list.txt").write_text("one two")
    async with opened() as (page, _, _):
        await page.fill("#composer", "half a thought")
        await page.select_option(".composer select", "count")
        await page.set_input_files("input[type=file]", tmp_path / "list.txt")
        await page.wait_for_selector("[data-attached]")
        await page.click("nav a[href='/console/live']")
        await page.wait_for_selector("h1:text-is('Live')")
        await page.click("nav a[href='/console/chat']")
        for _ in range(2):
            await page.wait_for_selector("[data-attached] >> text=list.txt")
            assert await page.input_value("#composer") == "half a thought"
            assert await page.input_value(".composer select") == "count"
            await page.reload()
        await page.wait_for_selector("[data-attached]")
        await page.click(".composer button[type=submit]")
        await page.wait_for_selector("text=text raw")
        assert await page.input_value("#composer") == ""


async def test_send_again_carries_everything():
    async with opened() as (page, client, server):
        file = Part(raw=b"one two", filename="list.txt", media_type="text/plain")
        parts = [Part(text="look"), file, Part(data={"a": [1]})]
        reply = await client.send(parts, skill="count")
        await page.goto(f"{server.url}/console/tasks/{reply.task_id}")
        await page.click("button:text-is('Send again')")
        await expect(page.locator("[data-attached]")).to_have_count(2, timeout=PATIENCE_MS)
        assert await page.input_value("#composer") == "look"
        assert await page.input_value(".composer select") == "count"
        await page.click(".composer button[type=submit]")
        await page.wait_for_selector("text=text raw data")
        again = await client.get(page.url.rpartition("task=")[2])
        assert again.id != reply.task_id
        assert [part.data for part in again.history[0].parts[2:]] == [{"a": [1]}]
        assert again.history[0].parts[1].raw == b"one two"


def picture(size: int) -> bytes:
    """A picture of noise, which nothing makes smaller."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        whole = kind + data
        return struct.pack(">I", len(data)) + whole + struct.pack(">I", zlib.crc32(whole))

    rows = b"".join(b"\0" + random.Random(n).randbytes(size * 3) for n in range(size))
    head = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 0)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


async def test_a_large_file_is_uploaded_goes_on_after_a_break_and_is_previewed(tmp_path):
    """Its bytes do not go with the message; what comes back is shown and saved."""
    data = picture(1000)  # three pieces
    sent = 0

    async def broken(route) -> None:
        nonlocal sent
        sent += route.request.method == "PATCH"
        await (
            route.abort() if sent == 2 and route.request.method == "PATCH" else route.continue_()
        )

    async with (
        chromium() as browser,
        serving() as server,
        page_of(browser, server, may_say="ERR_FAILED") as page,
    ):
        await page.route("**/files/*", broken)
        await page.select_option(".composer select", "keep")
        files: list[FilePayload] = [{"name": "noise.png", "mimeType": "image/png", "buffer": data}]
        seen = page.wait_for_selector("[data-upload] progress", state="attached")
        await asyncio.gather(seen, page.set_input_files(".composer input[type=file]", files))
        await page.wait_for_selector("[data-attached]")
        assert sent == 4  # three pieces, one of them twice
        await page.click(".composer button[type=submit]")
        await page.wait_for_selector("[data-announced=completed]", state="attached")
        made = page.locator("section.card [data-stored='noise.png']")
        await made.locator("button:text-is('Preview')").click()
        width = "img => img.decode().then(() => img.naturalWidth)"
        assert await made.locator("img").evaluate(width) == 1000
        async with page.expect_download() as download:
            await made.locator("button >> text=noise.png").click()
        saved = tmp_path / "noise.png"
        await (await download.value).save_as(saved)
        assert saved.read_bytes() == data


async def test_an_upload_is_canceled():
    async with (
        chromium() as browser,
        serving() as server,
        page_of(browser, server, may_say="ERR_FAILED") as page,
    ):
        held: list[Any] = []
        await page.route("**/files/*", lambda route: held.append(route))  # no piece ever arrives
        kind = "application/octet-stream"
        files: list[FilePayload] = [{"name": "big.bin", "mimeType": kind, "buffer": b"x" * 600_000}]
        await page.set_input_files(".composer input[type=file]", files)
        await expect(page.locator(".composer button[type=submit]")).to_be_disabled()
        await page.click("[data-upload] button")
        await page.wait_for_selector("[data-upload]", state="detached")
        assert await page.locator("[data-attached], .composer [role=alert]").count() == 0
        await expect(page.locator(".composer button[type=submit]")).to_be_enabled()
