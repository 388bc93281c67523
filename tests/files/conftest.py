"""Every file store, opened on an empty place."""

import os
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

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
async def file_store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[FileStore]:
    kind = request.param
    if kind == "postgres":
        from accord.files.postgres import PostgresFiles
        from accord.store.postgres.store import PostgresStore

        with schema_url() as url:
            database = PostgresStore(url)
            await database.open(lambda tasks: None)
            store: Any = PostgresFiles(database.options)
            await store.open()
            yield store
            await store.close()
            await database.close()
        return
    if kind == "s3":
        store = bucket(request.getfixturevalue("s3"))
    elif kind == "memory-objects":
        pytest.importorskip("obstore")
        from accord.files.objects import ObjectFiles

        store = ObjectFiles("memory:///")
    else:
        store = LocalFiles(tmp_path / "files" if kind == "folder" else None)
    await store.open()
    yield store
    await store.close()


def bucket(endpoint: str) -> Any:
    """A new bucket of the S3 server."""
    import urllib.request

    from accord.files.objects import ObjectFiles

    name = f"files-{os.getpid()}-{threading.get_ident() % 1000}-{next(_numbers)}"
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{name}", method="PUT")).close()
    return ObjectFiles(
        f"s3://{name}/agents",
        config={
            "endpoint": endpoint,
            "access_key_id": "test",
            "secret_access_key": "test",
            "region": "us-east-1",
        },
        client_options={"allow_http": True},
    )


_numbers = iter(range(1, 1_000_000))
