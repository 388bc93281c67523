"""A person with a browser: follows redirects, keeps cookies, fills in forms and agrees to all."""

from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin

import aiohttp

PERSON = {"login": "mia", "password": "anything"}
_STEPS = 20


class _Forms(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.forms: list[tuple[str, dict[str, str]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given: dict[str, Any] = dict(attrs)
        if tag == "form":
            self.forms.append((given.get("action") or "", {}))
        elif tag == "input" and self.forms and given.get("name"):
            self.forms[-1][1][given["name"]] = given.get("value") or ""


def browser() -> aiohttp.ClientSession:
    """A browser, which keeps cookies of 127.0.0.1 too."""
    return aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))


async def agree(url: str, code: str = "", person: dict[str, str] = PERSON) -> str:
    """Open a page, do what its forms ask for, and return the text of the last one."""
    async with browser() as session:
        return (await agree_in(session, url, code, person))[0]


async def agree_in(
    session: aiohttp.ClientSession, url: str, code: str = "", person: dict[str, str] = PERSON
) -> tuple[str, str]:
    """Do the same in a browser that is there; return the address of the last page too."""
    async with session.get(url) as response:
        page, at = await response.text(), str(response.url)
    for _ in range(_STEPS):
        found = _Forms()
        found.feed(page)
        if not found.forms:
            return page, at
        action, fields = found.forms[0]
        fields |= {name: text for name, text in person.items() if name in fields}
        if code and "user_code" in fields:
            fields["user_code"] = code
        async with session.post(urljoin(at, action), data=fields) as response:
            page, at = await response.text(), str(response.url)
    raise AssertionError(f"no end of forms at {url}")
