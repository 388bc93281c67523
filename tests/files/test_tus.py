"""A client of other makers, tus-js-client, uploads a file here and goes on after a cut."""

import hashlib
import os
import shutil
from pathlib import Path

import pytest

from accord import File, connect
from tests.files.test_files import MB, agent_of, fetch, served
from tests.processes import run

UPLOAD = Path(__file__).parent / "js" / "upload.mjs"

pytestmark = pytest.mark.skipif(
    shutil.which("node") is None, reason="tus-js-client needs Node.js, which is not installed"
)


@pytest.mark.parametrize("piece", [MB, 64 * MB], ids=["pieces", "one piece"])
async def test_tus_js_client_uploads_a_file(piece: int, tmp_path: Path) -> None:
    data = os.urandom(5 * MB + 3)
    (tmp_path / "film.bin").write_bytes(data)
    async with served(agent_of(auth=False)) as (_, url):
        done = await run("node", UPLOAD, f"{url}/files", tmp_path / "film.bin", str(piece))
        assert done.code == 0, done.err
        async with connect(url) as client:
            said = await client.send(File(url=done.out.strip()), skill="size")
        assert said.text.startswith(f"{len(data)} {hashlib.sha256(data).hexdigest()}")


async def test_tus_js_client_goes_on_where_it_was(tmp_path: Path) -> None:
    """Another process of it asks how much has come, and sends the rest."""
    data = os.urandom(5 * MB + 3)
    (tmp_path / "film.bin").write_bytes(data)
    async with served(agent_of(auth=False)) as (_, url):
        words = (tmp_path / "film.bin", str(MB))
        cut = await run("node", UPLOAD, f"{url}/files", *words, str(2 * MB))
        assert cut.code == 3, cut.err
        place = cut.out.strip()
        status, headers, _ = await fetch(place, None, "HEAD")
        assert (status, 2 * MB <= int(headers["upload-offset"]) < len(data)) == (204, True)
        done = await run("node", UPLOAD, place, *words)
        assert (done.code, done.out.strip()) == (0, place), done.err
        async with connect(url) as client:
            said = await client.send(File(url=place), skill="size")
        assert said.text.startswith(f"{len(data)} {hashlib.sha256(data).hexdigest()}")
