"""A hub that is killed while admins write: what was answered is there, and the log is whole."""

import asyncio
import os
import random
from typing import Any

import aiohttp

from tests.hub.hubs import serving_card
from tests.hub.test_cli import hub_served
from tests.processes import until

KILLS = 20 if os.environ.get("ACCORD_SOAK") else 3
WRITERS = 4


class Writer:
    """Makes teams, keys and entries one after the other; remembers what was answered."""

    def __init__(self, http: aiohttp.ClientSession, url: str, card: Any, name: str) -> None:
        self._http, self._url, self._card, self._name = http, f"{url}/api/v1", card, name
        self.made: list[tuple[str, str]] = []  # the kind, and the name or id

    async def write(self) -> None:
        for n in range(10_000):
            name = f"{self._name}-{n}"
            card = self._card | {"name": name}
            await self._post("teams", name, {"name": name})
            key = await self._post("keys", name, {"name": name, "role": "user", "teams": [name]})
            await self._post("agents", name, {"card": card})
            if n % 2:
                await self._call("DELETE", f"/keys/{key['id']}")
                self.made.append(("revoked", name))

    async def _post(self, kind: str, name: str, body: Any) -> Any:
        answer = await self._call("POST", f"/{kind}", body)
        self.made.append((kind, name))
        return answer

    async def _call(self, verb: str, path: str, body: Any = None) -> Any:
        async with self._http.request(verb, self._url + path, json=body) as answer:
            assert answer.status < 300, await answer.text()
            return await answer.json() if answer.status != 204 else None


async def everything(http: aiohttp.ClientSession, url: str) -> dict[str, set[str]]:
    """What a hub has, by kind."""
    found: dict[str, set[str]] = {}
    for kind in ("teams", "keys"):
        async with http.get(f"{url}/api/v1/{kind}") as answer:
            found[kind] = {one["name"] for one in (await answer.json())[kind]}
    async with http.get(f"{url}/api/v1/keys") as answer:
        keys = (await answer.json())["keys"]
    found["revoked"] = {key["name"] for key in keys if key["revoked_ms"]}
    found["agents"], cursor = set(), ""
    while True:
        async with http.get(f"{url}/api/v1/agents?limit=200&cursor={cursor}") as answer:
            page = await answer.json()
        found["agents"] |= {one["name"] for one in page["agents"]}
        if not (cursor := page["next"]):
            return found


async def test_what_was_answered_survives_a_kill(tmp_path):
    made: list[tuple[str, str]] = []
    async with serving_card() as server:
        for life in range(KILLS + 1):
            with hub_served(tmp_path) as (process, url):
                key = (tmp_path / ".accord" / "hub.admin").read_text().strip()
                async with aiohttp.ClientSession(headers={"X-API-Key": key}) as http:
                    found = await everything(http, url)
                    lost = [one for one in made if one[1] not in found[one[0]]]
                    assert not lost, lost[:5]
                    async with http.get(f"{url}/api/v1/audit:verify") as answer:
                        assert (await answer.json())["trouble"] == ""
                    if life == KILLS:
                        break
                    card = server.base()
                    some = [Writer(http, url, card, f"w{life}-{n}") for n in range(WRITERS)]
                    writing = [asyncio.create_task(one.write()) for one in some]
                    enough = random.randrange(20, 80)  # below the limit of one caller's calls
                    await until(lambda: sum(len(one.made) for one in some) >= enough)  # noqa: B023
                    process.kill()
                    ends = await asyncio.gather(*writing, return_exceptions=True)
                    for end in ends:
                        assert isinstance(end, aiohttp.ClientError | OSError), end
                    made += [one for writer in some for one in writer.made]
    print(f"\n{len(made)} answered writes, {KILLS} kills: none lost")
    assert made
