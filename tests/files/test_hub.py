"""Files through a hub: in and out by addresses of the hub."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from accord import File, connect
from tests.files.test_files import MB, agent_of, fetch, pattern, served
from tests.hub.hubs import Desk, hub_at


async def joined(desk: Desk, behind: str) -> str:
    """Register an agent; return its address at the hub."""
    entry: Any = await desk.approve(await desk.add(behind))
    return f"{desk.url}/agents/{entry['name']}"


@pytest.mark.parametrize("size", [100_000, 6 * MB + 1], ids=["in the message", "uploaded"])
async def test_a_file_goes_in_and_out_through_a_hub(size: int, tmp_path: Path) -> None:
    """A caller needs no way to the agent, and the agent's address is nowhere in the answers."""
    data = pattern(size)
    (tmp_path / "film.mp4").write_bytes(data)
    async with served(agent_of(auth=False)) as (_, behind), hub_at(tmp_path / "hub") as desk:
        url = await joined(desk, behind)
        mia = {"X-API-Key": await desk.key("mia")}
        bob = {"X-API-Key": await desk.key("bob")}
        async with connect(url, headers=mia) as client:
            said = await client.send(File.path(tmp_path / "film.mp4"), skill="size")
            assert said.text.startswith(f"{size} {hashlib.sha256(data).hexdigest()} film.mp4")
            reply = await client.send(File.path(tmp_path / "film.mp4"), skill="echo")
            assert await reply.files[0].read() == data
            if reply.files[0].url:
                assert reply.files[0].url.startswith(f"{url}/files/")
            grown = await client.send("9", skill="chunks")
            [whole] = grown.files
            assert await whole.read() == b"".join(bytes([n]) * 50_000 for n in range(9))
            raw = await fetch(f"{url}/tasks/{reply.task_id}", mia | {"A2A-Version": "1.0"})
            assert (raw[0], behind.encode() in raw[2]) == (200, False)
        place = whole.url.partition("?")[0]
        nobodys = f"{url}/files/{'A' * 22}"
        refused = [await fetch(one, bob) for one in (place, nobodys)]
        assert [status for status, _, _ in refused] == [404, 404]
        assert refused[0][2] == refused[1][2], "somebody else's file is as good as none"


async def test_files_of_an_agent_that_is_away_can_still_be_read(tmp_path: Path) -> None:
    """The hub has brought them with the event that named them."""
    async with hub_at(tmp_path / "hub") as desk:
        mia = {"X-API-Key": await desk.key("mia")}
        async with served(agent_of(auth=False)) as (_, behind):
            url = await joined(desk, behind)
            async with connect(url, headers=mia) as client:
                reply = await client.send(File(pattern(3 * MB), name="a.bin"), skill="echo")
        status, headers, body = await fetch(reply.files[0].url, mia)
        assert (status, body == pattern(3 * MB)) == (200, True)
        digest = hashlib.sha256(pattern(3 * MB)).hexdigest()
        assert headers["etag"] == f'"{digest}"'
        async with connect(url, headers=mia) as client:
            again = (await client.get(reply.task_id)).artifacts[0].parts[0]
            assert str(again.url).partition("?")[0] == reply.files[0].url.partition("?")[0]


async def test_only_who_may_call_an_agent_may_upload_to_it(tmp_path: Path) -> None:
    """To see an agent is not enough: an upload is for a message to it."""
    async with (
        served(agent_of(auth=False)) as (_, behind),
        hub_at(tmp_path / "hub", guests="see") as desk,
    ):
        url = await joined(desk, behind)
        people = {name: {"X-API-Key": await desk.key(name)} for name in ("mia", "bob", "eva")}
        for who, what in (("mia", "*"), ("bob", "skill:*/echo")):
            rule = {"effect": "deny", "who": f"user:{who}", "may": "call", "what": what}
            assert (await desk.call("POST", "/policies", rule)).status == 201
        assert (await fetch(f"{url}/files", {}, "POST", b"x"))[0] == 403
        status, _, said = await fetch(f"{url}/files", people["mia"], "POST", b"x")
        assert (status, b"rule: deny user:mia call *" in said) == (403, True)
        # Bob may call other skills, and names one with his message.
        for who in ("bob", "eva"):
            assert (await fetch(f"{url}/files", people[who], "POST", b"x"))[0] == 201
