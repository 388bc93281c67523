"""What every file store promises: a folder, PostgreSQL, S3 (moto's server) and obstore's own."""

import itertools

import pytest

from accord.files import PIECE_BYTES, FileStore
from accord.files.files import new_id
from accord.model import A2AError

MB = 1 << 20


async def read(store: FileStore, id_: str, start: int, stop: int) -> bytes:
    pieces = [piece async for piece in store.read(id_, start, stop)]
    assert all(0 < len(piece) <= PIECE_BYTES for piece in pieces)
    return b"".join(pieces)


def pattern(size: int, seed: int = 7) -> bytes:
    return (bytes(range(seed, 256)) * (size // (256 - seed) + 1))[:size]


async def test_what_is_written_is_read_whole_and_in_ranges(file_store: FileStore) -> None:
    """Batches make one file, whatever their sizes."""
    id_, data = new_id(), pattern(3 * MB + 17)
    cuts = [0, 5, MB, MB + 1, len(data)]
    for start, stop in itertools.pairwise(cuts):
        await file_store.write(id_, start, data[start:stop])
    assert await read(file_store, id_, 0, len(data)) == data
    for start, stop in ((0, 1), (4, 7), (MB - 3, MB + 3), (len(data) - 1, len(data)), (9, 9)):
        assert await read(file_store, id_, start, stop) == data[start:stop]


async def test_a_writer_begins_where_the_index_says(file_store: FileStore) -> None:
    """What a process that died had written behind it is gone."""
    id_ = new_id()
    await file_store.write(id_, 0, b"a" * 10)
    await file_store.write(id_, 10, b"left behind by a dead process")
    await file_store.write(id_, 10, b"b" * 5)
    assert await read(file_store, id_, 0, 15) == b"a" * 10 + b"b" * 5
    with pytest.raises(A2AError, match="not in the file store"):
        await read(file_store, id_, 0, 16)


async def test_a_deleted_file_is_gone_and_may_be_deleted_again(file_store: FileStore) -> None:
    kept, gone = new_id(), new_id()
    for id_ in (kept, gone):
        await file_store.write(id_, 0, b"x" * 100)
    for _ in range(2):
        await file_store.delete(gone)
    with pytest.raises(A2AError, match="not in the file store"):
        await read(file_store, gone, 0, 1)
    assert await read(file_store, kept, 0, 100) == b"x" * 100


async def test_nothing_is_read_far_behind_the_end(file_store: FileStore) -> None:
    """A place that no file reaches is missing, as the byte behind the last one is."""
    id_ = new_id()
    await file_store.write(id_, 0, b"x" * 100)
    with pytest.raises(A2AError, match="not in the file store"):
        await read(file_store, id_, 999_999_999_999_999, 999_999_999_999_999 + 5)
