"""What every store promises of the index of files."""

from ...store import MADE, Ages, FileUse, Namespace, StoredFile
from .box import COMPLETED, ME, OTHER, Box, check, key


def file(
    id_: str = "f1", *, namespace: Namespace = ME, length: int = 0, size: int = -1
) -> StoredFile:
    return StoredFile(id_, namespace, "a.txt", "text/plain", 5, length, size)


@check
async def a_file_is_found_as_it_was_added(box: Box) -> None:
    await box.store.files.add(file())
    assert await box.store.files.find("f1") == file()
    assert await box.store.files.find("f2") is None
    await box.restart()
    assert await box.store.files.find("f1") == file()


@check
async def a_file_grows_from_where_it_is(box: Box) -> None:
    """Two that write the same file can't both go on; a finished one grows no more."""
    files = box.store.files
    await files.add(file())
    assert await files.grow("f1", 0, 10, b"", 6)
    assert not await files.grow("f1", 0, 12, b"", 7)
    assert await files.grow("f1", 10, 15, b"d" * 32, 8)
    assert not await files.grow("f1", 15, 16, b"e" * 32, 9)
    found = await files.find("f1")
    assert (found.length, found.sha256, found.used_ms) == (15, b"d" * 32, 8)


@check
async def one_writer_at_a_time_adds_to_a_file(box: Box) -> None:
    """Who comes second finds it longer; who gives up leaves it as it was."""
    files = box.store.files
    await files.add(file())
    async with files.growing("f1", 0) as grow:
        assert grow is not None
        assert await grow(10, b"", 6)
    for before in (0, 11):
        async with files.growing("f1", before) as grow:
            assert grow is None
    async with files.growing("f1", 10) as grow:
        assert grow is not None
    assert (await files.find("f1")).length == 10
    async with files.growing("gone", 0) as grow:
        assert grow is None


@check
async def a_reference_is_stored_with_its_item_or_not_at_all(box: Box) -> None:
    files = box.store.files
    for id_ in ("f1", "f2"):
        await files.add(file(id_))
    first = box.create(files=(FileUse("f1", 7, b"d" * 32),), idempotency=key("k"))
    twin = box.create("t2", files=(FileUse("f2", 7),), idempotency=key("k"))
    assert await box.commit(first, twin) == [True, False]
    assert await files.unused(10**15, 10) == ["f2"]
    assert (await files.find("f1")).length == 7
    assert (await files.find("f1")).sha256 == b"d" * 32
    assert await box.commit(box.append(first, files=(FileUse("f2", 9),))) == [True]
    assert await files.unused(10**15, 10) == []
    assert (await files.find("f2")).length == 9


@check
async def only_a_file_without_references_that_was_not_used_is_deleted(box: Box) -> None:
    files = box.store.files
    for id_ in ("free", "held", "used"):
        await files.add(file(id_))
    await box.commit(box.create(files=(FileUse("held", 1),)))
    assert await files.hold("used", -7, 100)
    await files.release("used", -7)
    assert await files.unused(50, 10) == ["free"]
    assert [await files.doom(id_, 50) for id_ in ("free", "held", "used", "none")] == [
        True,
        False,
        False,
        False,
    ]
    assert await files.find("free") is None
    assert not await files.hold("free", -7, 200)
    assert not await files.grow("free", 0, 1, b"", 200)
    assert await files.unused(50, 10) == ["free"], "until its bytes are deleted"
    await files.remove("free")
    assert await files.unused(50, 10) == []


@check
async def a_file_that_is_held_is_not_deleted(box: Box) -> None:
    """Two messages may be about to refer to one file. A hold that nobody released expires."""
    files = box.store.files
    await files.add(file())
    assert await files.hold("f1", -1, 6)
    assert await files.hold("f1", -2, 7)
    await box.restart()
    files = box.store.files
    await files.release("f1", -1)
    assert await files.unused(10**15, 10) == []
    assert not await files.doom("f1", 10**15)
    await files.expire_holds(7)
    assert not await files.doom("f1", 10**15), "it was used at 7"
    await files.expire_holds(8)
    assert await files.unused(10**15, 10) == ["f1"]
    assert await files.hold("f1", -3, 9)
    await files.release("f1", -3)
    assert await files.doom("f1", 10**15)


@check
async def a_reference_takes_the_place_of_a_hold(box: Box) -> None:
    files = box.store.files
    await files.add(file())
    assert await files.hold("f1", -1, 6)
    await box.commit(box.create(state=COMPLETED, files=(FileUse("f1", 1),)))
    await files.release("f1", -1)
    assert not await files.doom("f1", 10**15)
    assert await files.hold("f1", -2, 7)
    await box.commit(box.create("t2", state=COMPLETED, files=(FileUse("f1", 1),)))
    for _ in range(2):
        await box.store.purge(Ages(tasks_ms=9_000, events_ms=9_000, keys_ms=0), 10)
    assert await files.doom("f1", 10**15)


_STRANGERS = {
    "caller": OTHER,
    "agent": Namespace("another", ME.tenant, ME.caller),
    "tenant": Namespace(ME.agent, "acme", ME.caller),
}


@check
async def a_task_refers_only_to_files_of_its_own_caller(box: Box) -> None:
    """A stranger who knows the id of a file neither keeps it nor changes it."""
    files = box.store.files
    for id_, namespace in _STRANGERS.items():
        await files.add(file(id_, namespace=namespace))
        assert await files.hold(id_, -1, 6)
    tenant = Namespace(ME.agent, "other", ME.caller)
    uses = tuple(FileUse(id_, 7, b"d" * 32) for id_ in (*_STRANGERS, "none"))
    await files.add(file("own", namespace=tenant))
    first = box.create(namespace=tenant, files=uses)
    theirs = box.create("t3", namespace=OTHER, files=(FileUse("own", 7),))
    second = box.create("t4", namespace=tenant, files=(FileUse("own", 3),))
    assert await box.commit(first, theirs, second) == [True] * 3
    assert (await files.find("own")).length == 3
    assert await box.commit(box.append(first, files=uses)) == [True]
    for id_, namespace in _STRANGERS.items():
        found = await files.find(id_)
        assert (found.namespace, found.length, found.sha256) == (namespace, 0, b"")
        assert not await files.doom(id_, 10**15), "its own caller's hold is still there"
        await files.release(id_, -1)
    assert sorted(await files.unused(10**15, 10)) == sorted(_STRANGERS)
    mine = (FileUse("tenant", 7),)  # who has no tenant sees the files of all of its own
    assert await box.commit(box.create("t2", files=mine)) == [True]
    assert "tenant" not in await files.unused(10**15, 10)


@check
async def references_go_with_their_task(box: Box) -> None:
    files = box.store.files
    await files.add(file())
    await box.commit(box.create(state=COMPLETED, files=(FileUse("f1", 1),)))
    for _ in range(2):
        await box.store.purge(Ages(tasks_ms=9_000, events_ms=9_000, keys_ms=0), 10)
    assert await files.unused(10**15, 10) == ["f1"]


@check
async def the_files_of_a_caller_are_counted(box: Box) -> None:
    files = box.store.files
    await files.add(file("a", length=3))
    await files.add(file("b", namespace=Namespace("agent", "acme", "me"), length=4))
    await files.add(file("c", namespace=OTHER, length=50))
    assert await files.total("agent", "me") == (7, 2)
    assert await files.grow("a", 3, 5, b"d" * 32, 9)
    assert await files.total("agent", "me") == (9, 1)
    assert await files.total("agent", "nobody") == (0, 0)
    assert await files.ids("a", 10) == ["b", "c"]
    assert await files.sums() == (3, 59)


@check
async def an_upload_counts_with_the_size_it_was_announced_with(box: Box) -> None:
    """A file that an agent makes is no upload."""
    files = box.store.files
    await files.add(file("announced", length=3, size=1000))
    await files.add(file("made", length=4, size=MADE))
    assert await files.total("agent", "me") == (1004, 1)
