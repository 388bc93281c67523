"""Links to the console: `accord console link`, `accord open`, and what servers print."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from tests.cli.shell import accord, found, served
from tests.console.browser import STATIC, chromium, needs_browser, page_of
from tests.console.test_server import log_in
from tests.postgres import schema_url
from tests.processes import free_port, run_sync, start, until

HELLO = """
from accord import Agent

agent = Agent("{name}")

@agent.skill
async def hello(name: str) -> str:
    return f"{name} says hello, {{name}}"
"""
needs_page = pytest.mark.skipif(
    not (STATIC / "index.html").exists(), reason="there is no Node.js to build the page with"
)
TYPED = ("serve", "hello.py", "--port", "0", "--store", "memory://")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("Hello", "Other"):
        (tmp_path / f"{name.lower()}.py").write_text(HELLO.format(name=name))
    return tmp_path


async def status_of(link: str) -> int:
    """What a browser is answered that opens a link."""
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as client:
        return int(await log_in(client, link))


@pytest.fixture(params=["SQLite", "PostgreSQL"])
def store(request: pytest.FixtureRequest) -> Iterator[tuple[str, ...]]:
    """The option that names a store; none for a file in the folder."""
    if request.param == "SQLite":
        yield ()
    else:
        with schema_url() as url:
            yield ("--store", url)


@needs_page
async def test_a_new_link_opens_the_console_of_a_running_server_once(
    folder: Path, store: tuple[str, ...]
) -> None:
    """The link a server prints at its start is used up by the first browser."""
    with served("hello.py", *store, cwd=folder) as (process, url):
        first = await printed_link(process)
        assert await status_of(first) == 200
        assert await status_of(first) == 403
        made = accord("console", "link", url, *store, cwd=folder)
        assert made.code == 0, made.err
        assert made.out.startswith(f"{url}/console/?key=")
        assert await status_of(made.out.strip()) == 200
        assert await status_of(made.out.strip()) == 403
        again = accord("console", "link", url, *store, "-o", "json", cwd=folder)
        assert await status_of(json.loads(again.out)["link"]) == 200


@needs_page
async def test_open_gives_a_new_link_to_the_browser(folder: Path) -> None:
    browser = folder / "browser"
    browser.write_text(
        f'#!/bin/sh\necho "$1" > {folder}/opened.tmp; mv {folder}/opened.tmp {folder}/opened\n'
    )
    browser.chmod(0o755)
    env = os.environ | {"BROWSER": str(browser)}
    with served("hello.py", cwd=folder) as (_, url):
        command = (sys.executable, "-m", "accord", "open", url, "--agent", "hello.py")
        done = run_sync(*command, cwd=folder, env=env)
        assert done.code == 0, done.err
        await until((folder / "opened").exists)
        assert await status_of((folder / "opened").read_text().strip()) == 200


@needs_page
async def test_a_hub_has_links_too(folder: Path) -> None:
    port = str(free_port())
    with start(sys.executable, "-m", "accord", "hub", "--port", port, cwd=folder) as process:
        await process.line()
        made = accord("console", "link", f"http://127.0.0.1:{port}", "--hub", cwd=folder)
        assert made.code == 0, made.err
        assert await status_of(made.out.strip()) == 200
        for words in (("--hub",), ("--hub", f"http://127.0.0.1:{port}")):  # it runs in this folder
            made = accord("console", "link", *words, "-o", "json", cwd=folder)
            assert made.code == 0, made.out
            assert await status_of(json.loads(made.out)["link"]) == 200


@needs_page
def test_why_there_is_no_link_is_said(folder: Path) -> None:
    nobody = accord("console", "link", f"http://127.0.0.1:{free_port()}", cwd=folder)
    assert nobody.code == 1
    assert "no server answers at" in nobody.err
    with served("hello.py", "--store", "memory://", cwd=folder) as (_, url):
        volatile = accord("console", "link", url, "--store", "memory://", cwd=folder)
        assert "keeps its logins in memory" in volatile.err
    with served("hello.py", "--no-console", cwd=folder) as (_, url):
        assert "has no console" in accord("console", "link", url, cwd=folder).err


async def test_a_server_without_a_page_prints_no_link(folder: Path) -> None:
    """The page is built with Node: where there was none, a link would open nothing."""
    script = f"""
import sys
from pathlib import Path
from accord.console import pages
pages.STATIC = Path("nothing")
sys.argv[1:] = {TYPED}
from accord.cli import main
main()
"""
    with start(sys.executable, "-c", script, cwd=folder) as process:
        lines = [await process.line()]
        while "  console  " not in lines[-1]:
            lines.append(await process.line())
    assert "?key=" not in "".join(lines)
    assert "not built" in lines[-1]


async def printed_link(process) -> str:
    while "console" not in (line := await process.line()):
        pass
    return found(r"http\S+", line)


class Several:
    """`accord serve` of two agents, for a page."""

    def __init__(self, url: str, link: str) -> None:
        self.url = url
        self.link = link


@needs_browser
async def test_several_agents_have_one_console(folder: Path) -> None:
    """Chat talks to the one that is chosen, and the tasks of all are listed."""
    with served("hello.py", "other.py", "--store", "memory://", cwd=folder) as (process, url):
        server = Several(url, await printed_link(process))
        async with chromium() as browser, page_of(browser, server) as page:
            for name in ("Hello", "Other"):
                await page.select_option(".rail select", name)
                await page.wait_for_selector(f"h1:text-is('{name}')")
                await page.fill("#composer", "Ada")
                await page.press("#composer", "Enter")
                await page.wait_for_selector(f"text={name} says hello, Ada")
            await page.click("text=Timeline")
            await page.wait_for_selector("text=Other says hello, Ada")
            await page.click(".rail >> text=Tasks")
            await page.wait_for_selector("table tbody tr:nth-child(2)")
            await page.click("table tbody tr:nth-child(2) a")  # the older: of the other agent
            await page.wait_for_selector("text=Hello says hello, Ada")
