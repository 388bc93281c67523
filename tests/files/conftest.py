"""Every file store, opened on an empty place."""

import os
import threading
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from accord.files import FileStore
from accord.files.local import LocalFiles
from tests.postgres import schema_url

KINDS = ["folder", "temporary", "postgres", "s3", "memory-objects"]


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """An S3 server on this machine: moto's."""
    server = pytest.importorskip("moto.server").ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()


@pytest.fixture(params=KINDS)
async def file_store(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[FileStore]:
    store: Any
    kind = request.param
    if kind == "postgres":
        from accord.files.postgres import PostgresFiles
        from accord.store.postgres.store import PostgresStore

        with schema_url() as url:
            database = PostgresStore(url)
            await database.open(lambda tasks: None)
            store = PostgresFiles(database.options)
            await store.open()
            yield store
            await store.close()
            await database.close()
        return
    if kind in ("s3", "memory-objects"):
        pytest.importorskip("obstore")
        from accord.files.objects import ObjectFiles

        url = "memory:///"
        if kind == "s3":
            url, variables = new_bucket(request.getfixturevalue("s3"))
            for name, value in variables.items():
                monkeypatch.setenv(name, value)
        store = ObjectFiles(url)
    else:
        store = LocalFiles(tmp_path / "files" if kind == "folder" else None)
    await store.open()
    yield store
    await store.close()


class Bucket(NamedTuple):
    """A new bucket, and what the environment has to say of it."""

    url: str
    variables: dict[str, str]


def new_bucket(endpoint: str) -> Bucket:
    """Make a bucket at the S3 server."""
    name = f"files-{os.getpid()}-{threading.get_ident() % 1000}-{next(_numbers)}"
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{name}", method="PUT")).close()
    variables = {
        "AWS_ENDPOINT": endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }
    return Bucket(f"s3://{name}/agents", variables)


_numbers = iter(range(1, 1_000_000))
