"""A real Chromium on a real server. Whatever the page should not do fails the test."""

import contextlib
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from playwright.async_api import Browser, Page, async_playwright

from accord.client import Client, connect
from tests.processes import free_port, start

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
STATIC = Path(__file__).parents[2] / "src" / "accord" / "console" / "static"
AXE = Path(__file__).parents[2] / "console" / "node_modules" / "axe-core" / "axe.min.js"

needs_browser = pytest.mark.skipif(
    CHROMIUM is None or not (STATIC / "index.html").exists(),
    reason="there is no Chromium here, or no Node.js to build the page with",
)

PATIENCE_MS = 60_000

_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


class Opened(Protocol):
    """A server with a console."""

    url: str
    link: str


class Serving:
    """A server process of the test's agent, which can be killed and started again."""

    def __init__(self, store: str, workers: int = 1) -> None:
        self._workers = workers
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._store = store
        self._stack = contextlib.ExitStack()
        self.link = ""

    async def start(self) -> None:
        env = {**os.environ, "PYTHONUNBUFFERED": "1"}
        self._process = self._stack.enter_context(
            start(
                sys.executable,
                "-m",
                "tests.console.agents",
                str(self.port),
                self._store,
                str(self._workers),
                env=env,
            )
        )
        await self._process.line()
        found = re.search(r"(http://\S+key=\S+)", await self._process.line())
        assert found is not None
        self.link = found[1]

    async def kill(self) -> None:
        self._process.kill()
        await self._process.wait()

    def close(self) -> None:
        self._stack.close()


@contextlib.asynccontextmanager
async def serving(store: str = "memory://", workers: int = 1) -> AsyncIterator[Serving]:
    server = Serving(store, workers)
    try:
        await server.start()
        yield server
    finally:
        server.close()


@contextlib.asynccontextmanager
async def chromium(*flags: str) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=[*_FLAGS, *flags])
        try:
            yield browser
        finally:
            await browser.close()


@contextlib.asynccontextmanager
async def page_of(
    browser: Browser,
    server: Opened,
    *,
    language: str = "en",
    theme: str = "light",
    width: int = 1280,
    may_lose: bool = False,
    may_say: str = "",
    place: str = "chat",
) -> AsyncIterator[Page]:
    """A page that opened the link. Errors, policy reports and requests elsewhere fail the test.

    Args:
        may_lose: The test cuts connections.
        may_say: A warning of the browser that the test brings about.
        place: The page of the console that is opened then.
    """
    context = await browser.new_context(viewport={"width": width, "height": 800})
    context.set_default_timeout(PATIENCE_MS)
    await context.add_init_script(
        "if (self === top) {"  # a frame of a preview has no storage
        f"localStorage.setItem('accord.language', '{language}');"
        f"localStorage.setItem('accord.theme', '{theme}');"
        "}"
        "addEventListener('securitypolicyviolation', (e) => console.error('CSP ' + e.blockedURI));"
    )
    wrong: list[str] = []
    page = await context.new_page()
    page.on("pageerror", lambda error: wrong.append(f"error: {error}"))

    def on_console(message) -> None:
        is_lost = "ERR_CONNECTION" in message.text or "ERR_INCOMPLETE" in message.text
        is_expected = (may_lose and is_lost) or (may_say and may_say in message.text)
        if message.type in ("error", "warning") and not is_expected:
            wrong.append(f"console: {message.text}")

    def on_request(request) -> None:
        if not request.url.startswith((server.url, "data:", "blob:")):
            wrong.append(f"request: {request.url}")

    page.on("console", on_console)
    page.on("request", on_request)
    await page.goto(server.link)
    await page.wait_for_selector("main h1")
    if place:
        await page.click(f"nav a[href='/console/{place}']")
        await page.wait_for_selector("#composer" if place == "chat" else "main h1")
    yield page
    await context.close()
    assert not wrong, wrong


@contextlib.asynccontextmanager
async def opened() -> AsyncIterator[tuple[Page, Client, Serving]]:
    """A page in a browser, a client of its own, and the server of both."""
    async with (
        chromium() as browser,
        serving() as server,
        page_of(browser, server) as page,
        connect(server.url) as client,
    ):
        yield page, client, server


async def read(page: Page, path: str) -> Any:
    """What the page would read, with the login of its browser."""
    script = """(path) => fetch("/console/api/" + path, {
        headers: {"X-Accord-Session": localStorage.getItem("accord.session")},
    }).then((answer) => answer.json())"""
    return await page.evaluate(script, path)


async def violations(page: Page) -> list[str]:
    """What axe finds wrong for people who can't see or can't use a mouse."""
    await page.evaluate(AXE.read_text())
    found = await page.evaluate(
        "async () => (await axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa']}))"
        ".violations.map((v) => v.id + ': ' + v.nodes.map((n) => n.html).join(' | '))"
    )
    return list(found)
