"""What only PostgreSQL can do wrong: several replicas, connections that break, bad plans."""

import asyncio
import itertools
import random
import re
import sys
import time
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import quote

import pytest

from accord.store import FileUse, StoredFile, open_store
from accord.store.contract import Can, CommitFailed, Fenced, Leaves, Namespace
from accord.store.migrations import newest, runner
from accord.store.parts import TASKS
from accord.store.postgres import Lease, PostgresStore, wake, writer
from accord.store.postgres.commit import statement
from accord.store.postgres.connect import connect, connected
from accord.store.postgres.heartbeat import declare_dead
from accord.store.postgres.options import parse
from accord.store.postgres.schema import migrate_database, versions
from tests.postgres import BEAT_S, LEASE_S, add, base_url, execute, schema_url
from tests.proxy import Proxy, proxied

from .conftest import COMPLETED, INPUT_REQUIRED, ME, Box, key, kill, opened


async def until(condition: Callable[[], Any], seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  there is no event to wait for
            await asyncio.sleep(0.01)


def rows(box: Box, sql: str) -> list[Any]:
    """What the tables hold, asked beside the store."""
    assert isinstance(box.store, PostgresStore)
    return [tuple(row) for row in execute(sql.replace("{s}", box.store.options.schema))]


async def commit(store: Any, items: list[Any]) -> list[bool]:
    """Commit as the engine does: the same again until it works."""
    async with asyncio.timeout(30):
        while True:
            try:
                found: list[bool] = await store.commit(items)
                return found
            except CommitFailed as error:
                if isinstance(error, Fenced):
                    raise
                await asyncio.sleep(0.01)


# Fencing


async def test_nothing_of_a_replica_is_stored_after_its_death_certificate(
    postgres_url: str,
) -> None:
    """Whatever was on its way then: it is stored before, or not at all, and its sender knows."""
    async with opened(postgres_url) as box:
        for n in range(15):
            store = await box.another()
            assert isinstance(store, PostgresStore)
            items = [box.create(f"{n}-{i}") for i in range(5)]
            async with box.store.reading() as db:
                outcome, buried = await asyncio.gather(
                    store.commit(items),
                    declare_dead(db, store.options, store.replica),
                    return_exceptions=True,
                )
            there = [await box.store.load(ME, item.id) is not None for item in items]
            assert buried is True
            assert there == ([False] * 5 if isinstance(outcome, Fenced) else outcome)
            with pytest.raises(Fenced):
                await store.commit([box.create(f"late-{n}")])
            assert await box.store.load(ME, f"late-{n}") is None


async def test_a_database_that_went_back_to_an_earlier_state_is_noticed(postgres_box: Box) -> None:
    """A failover may lose commits. What comes after them must not be stored as if they were
    there.
    """
    first = postgres_box.create()
    await postgres_box.commit(first)
    rows(postgres_box, "DELETE FROM {s}.batches RETURNING 1")
    with pytest.raises(Fenced, match="the store went back"):
        await postgres_box.commit(postgres_box.append(first))
    assert rows(postgres_box, "SELECT died IS NOT NULL FROM {s}.replicas") == [(True,)]


async def test_a_number_that_is_used_again_is_another_replica(postgres_box: Box) -> None:
    """A sequence may go back with the database: the nonce tells two replicas of one number
    apart.
    """
    rows(postgres_box, "UPDATE {s}.replicas SET nonce = nonce + 1 RETURNING 1")
    with pytest.raises(Fenced):
        await postgres_box.commit(postgres_box.create())
    with pytest.raises(Fenced):
        await postgres_box.store.beat()


async def test_a_fenced_store_takes_a_new_number(postgres_box: Box) -> None:
    """And its old tasks are orphans like any others."""
    store = postgres_box.store
    assert isinstance(store, PostgresStore)
    first = postgres_box.create()
    await postgres_box.commit(first)
    before = store.replica
    await kill(store)
    with pytest.raises(Fenced):
        await postgres_box.commit(postgres_box.append(first))
    assert not store.is_sure
    await store.rejoin()
    assert store.is_sure
    assert store.replica > before
    assert await postgres_box.commit(postgres_box.append(first)) == [False]
    assert [r.id for r in await store.orphans(9, Can({"agent": {"echo"}}, 2))] == ["t1"]
    assert await postgres_box.commit(postgres_box.append(first)) == [True]


async def test_a_claim_that_ends_after_a_new_number_was_taken_is_that_of_the_old_one(
    postgres_box: Box,
) -> None:
    """The row names the old number, and others may take the task from it. Who believed to own it
    would lose what it wrote.
    """
    store = postgres_box.store
    assert isinstance(store, PostgresStore)
    await postgres_box.commit(postgres_box.create())
    rows(postgres_box, "UPDATE {s}.tasks SET owner = NULL RETURNING 1")
    before, schema = store.replica, store.options.schema
    waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE $1"
    async with connected(store.options) as db, db.transaction():
        await db.execute(f"SELECT 1 FROM {schema}.tasks FOR UPDATE")
        claiming = asyncio.create_task(store.claim(ME, "t1"))
        await until(lambda: execute(waiting, f"%{schema}.tasks t SET owner%"))
        await kill(store)
        await store.rejoin()
    record = await claiming
    assert record is not None
    assert rows(postgres_box, "SELECT owner FROM {s}.tasks") == [(before,)]
    assert record.owner == before != store.replica


# Outcomes that are not known


@pytest.fixture
async def cut_box(postgres_url: str) -> AsyncIterator[tuple[Box, Proxy]]:
    """A store whose connections go through a proxy; its heart's do not."""
    async with (
        proxied(postgres_url) as proxy,
        opened(add(proxy.url, listen=quote(base_url(), safe=""))) as box,
    ):
        yield box, proxy


async def test_a_batch_whose_answer_was_lost_is_stored_once_and_told_right(
    cut_box: tuple[Box, Proxy],
) -> None:
    """Connections are cut before a batch reaches the database and after it was stored; each is sent
    again with its number. Good items and bad ones beside each other.
    """
    box, proxy = cut_box
    dice = random.Random(7)
    last: dict[int, Any] = {}
    taken = box.create("taken")
    await box.commit(taken)
    for n in range(60):
        proxy.cut(dice.choice(["before", "after"]), size=dice.choice([1, 300]))
        fresh = box.create(f"t{n}", data=b"x" * 400, idempotency=key(f"k{n}"))
        grown = [box.append(item, data=b"y" * 200) for item in last.values()]
        items = [fresh, box.create("taken"), *grown, box.post(taken.key), key(f"k{n - 1}")]
        expected = [True, False, *[True] * len(grown), n < 64, n == 0]
        dice.shuffle(order := list(range(len(items))))
        outcomes = await commit(box.store, [items[i] for i in order])
        assert outcomes == [expected[i] for i in order]
        last |= {item.key: item for item in grown} | {fresh.key: fresh}
        last = dict(itertools.islice(last.items(), 5))
    assert proxy.count > 30
    for item in last.values():
        positions = [row.pos for row in await box.store.read({item.key: 0})]
        assert positions == list(range(1, item.pos + 1))
    assert len(rows(box, "SELECT 1 FROM {s}.posts")) == 60
    assert len(rows(box, "SELECT 1 FROM {s}.tasks")) == 61
    assert len(rows(box, "SELECT 1 FROM {s}.keys")) == 61


async def test_a_batch_that_is_given_up_does_not_come_back(cut_box: tuple[Box, Proxy]) -> None:
    """A process that stops gives up what it could not store. Its next batch has another number,
    whether or not the first got through.
    """
    box, proxy = cut_box
    await box.commit(box.create("first"))
    for how in ("before", "after"):
        proxy.cut(how, size=200)
        with pytest.raises(CommitFailed):
            await box.commit(box.create(how, data=b"x" * 400))
        assert await box.commit(box.create(f"{how} next")) == [True]
    assert await box.store.load(ME, "before") is None
    assert await box.store.load(ME, "after") is not None


async def test_an_outage_is_waited_for_and_nobody_is_taken_for_dead(postgres_url: str) -> None:
    """No heartbeat moves while the database can't be reached: so nobody judges. What was to be
    stored is stored when it is back.
    """
    async with proxied(postgres_url) as proxy, opened(proxy.url) as box:
        other = await box.another()
        first, second = box.create(), box.create("t2")
        await box.commit(first)
        await other.commit([second])
        proxy.stall()
        await until(lambda: not box.store.is_sure and not other.is_sure)
        await asyncio.sleep(LEASE_S)
        proxy.resume()
        proxy.cut_all()
        assert await commit(box.store, [box.append(first)]) == [True]
        assert await commit(other, [box.append(second)]) == [True]
        await until(lambda: box.store.is_sure and other.is_sure)
        assert rows(box, "SELECT id FROM {s}.replicas WHERE died IS NOT NULL") == []


# Hearts


async def test_who_stands_still_is_taken_for_dead_and_others_are_not(postgres_box: Box) -> None:
    """After a lease, by who watched it. Before that it knows itself that it may be."""
    quiet = await postgres_box.another()
    assert isinstance(quiet, PostgresStore)
    first = postgres_box.create()
    await quiet.commit([first])
    await asyncio.to_thread(quiet._heartbeat.stop)
    begun_s = time.monotonic()
    await until(lambda: not quiet.is_sure)
    dead = "SELECT id FROM {s}.replicas WHERE died IS NOT NULL"
    await until(lambda: rows(postgres_box, dead) == [(quiet.replica,)])
    assert time.monotonic() - begun_s >= LEASE_S - BEAT_S
    with pytest.raises(Fenced):
        await quiet.commit([postgres_box.append(first)])
    assert postgres_box.store.is_sure
    can = Can({"agent": {"echo"}}, 2)
    assert [record.id for record in await postgres_box.store.orphans(9, can)] == ["t1"]


async def test_a_loop_that_is_blocked_for_a_while_is_not_dead(postgres_box: Box) -> None:
    """The heart has a thread of its own."""
    other = await postgres_box.another()
    time.sleep(2 * LEASE_S)  # noqa: ASYNC251  that is what is tested
    assert other.is_sure
    assert postgres_box.store.is_sure
    assert await postgres_box.commit(postgres_box.create()) == [True]


async def test_a_loop_that_stands_for_good_stops_its_heart(
    postgres_box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await postgres_box.another()
    assert isinstance(other, PostgresStore)
    other._heartbeat.moved_s -= 1_000
    for pump in other._pumps:
        pump.cancel()  # nothing tells the heart any more that the loop moves
    await until(lambda: rows(postgres_box, "SELECT 1 FROM {s}.replicas WHERE died IS NOT NULL"))


def test_a_lease_is_at_least_three_heartbeats() -> None:
    with pytest.raises(ValueError, match="three heartbeats"):
        Lease(beat_s=5, lease_s=10)


# Wake-ups


async def test_without_wake_ups_polling_finds_posts_and_rows() -> None:
    with schema_url(notify="off") as url:
        async with opened(url) as box:
            woken: list[Any] = []
            other = await box.another(woken.append)
            first = box.create()
            await box.commit(first)
            mine = box.create("mine")
            await other.commit([mine])
            await other.load(ME, "t1", watch=True)
            await box.commit(box.append(first), box.post(mine.key))
            await until(lambda: {k for keys in woken for k in keys or ()} == {first.key, mine.key})


async def test_a_listener_that_was_cut_off_listens_again(
    postgres_box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, without a ping. And everything watched is looked at: what was not heard meanwhile
    is found.
    """
    monkeypatch.setattr(wake, "PING_S", 3600)
    woken: list[Any] = []
    other = await postgres_box.another(woken.append)
    assert isinstance(other, PostgresStore)
    await until(lambda: other._wakes.is_notified)
    rows(
        postgres_box,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        f"WHERE pid = {other._wakes._db.get_server_pid()}",
    )
    await until(lambda: not other._wakes.is_notified)
    await until(lambda: other._wakes.is_notified)
    mine = postgres_box.create()
    await other.commit([mine])
    woken.clear()
    await postgres_box.commit(postgres_box.post(mine.key))
    await until(lambda: woken)


async def test_a_claim_counts_the_posts_that_came_while_it_waited(postgres_box: Box) -> None:
    """Its owner read them no more, and the next one looks for them only if it knows of them."""
    dead = await postgres_box.another()
    assert isinstance(dead, PostgresStore)
    mine = postgres_box.create()
    await dead.commit([mine])
    await kill(dead)
    schema = dead.options.schema
    async with connected(dead.options) as db:
        async with db.transaction():
            await db.execute(f"UPDATE {schema}.tasks SET posts = 1 WHERE key = {mine.key}")
            claiming = asyncio.create_task(postgres_box.store.claim(ME, "t1"))
            await until(
                lambda: rows(
                    postgres_box,
                    "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
                    "AND query LIKE '%{s}.tasks%'",
                )
            )
        record = await claiming
    assert record is not None
    assert (record.owner, record.posts) == (postgres_box.store.replica, 1)


async def test_behind_a_pooler_nothing_is_prepared_and_nothing_set() -> None:
    with schema_url(pooler="on") as url:
        async with opened(url) as box:
            first = box.create()
            assert await box.commit(first, key("k")) == [True, True]
            assert await box.commit(box.append(first), key("k")) == [True, False]
            assert (await box.store.load(ME, "t1")).pos == 2
            prepared = await box.store._writer._db.fetchval(
                "SELECT count(*) FROM pg_prepared_statements WHERE name <> ''"
            )
            assert prepared == 0


# Plans


@pytest.mark.parametrize("count", [0, 5_000])
async def test_no_commit_reads_a_whole_table(postgres_box: Box, count: int) -> None:
    """All statements there are, on empty tables and full ones, with the settings of the writer."""
    store = postgres_box.store
    assert isinstance(store, PostgresStore)
    await postgres_box.commit(postgres_box.create())
    schema = store.options.schema
    rows(
        postgres_box,
        "WITH t AS (INSERT INTO {s}.tasks (key, namespace, at_ms, created_ms, committed_ms, owner, "
        "pos, seq, state, format, id, context, skill, about) SELECT -i, 1, i, i, i, "
        f"{store.replica}, 1, 1, 2, 1, i::text, '', '', '' FROM generate_series(1, {count}) i) "
        f"INSERT INTO {{s}}.keys SELECT 1, i::text, '', 1, 1, '', 0, 0, '' "
        f"FROM generate_series(1, {count}) i",
    )
    rows(
        postgres_box,
        "INSERT INTO {s}.states SELECT 1, i::text, 1, i, '' "
        f"FROM generate_series(1, {count}) i RETURNING 1",
    )
    db = await connect(store.options, settings=writer.SETTINGS)
    try:
        if count:
            await db.execute(
                f"ANALYZE {schema}.tasks; ANALYZE {schema}.keys; ANALYZE {schema}.states"
            )
        for parts in itertools.product([False, True], repeat=8):
            if not any(parts[:4]) or (any(parts[4:]) and not (parts[1] or parts[2])):
                continue  # nothing to store; the others come with a create or an append
            sql = statement(schema, *parts)
            values = ", ".join(["NULL"] * max(int(n) for n in re.findall(r"\$(\d+)", sql)))
            await db.execute(f"PREPARE batch AS {sql}")
            plan = await db.fetch(f"EXPLAIN EXECUTE batch ({values})")
            await db.execute("DEALLOCATE batch")
            text = "\n".join(line for (line,) in plan)
            assert "Seq Scan" not in text, (parts, text)
            assert "tasks_owned" not in text, (parts, text)
    finally:
        await db.close()


# Content, totals, upkeep


async def test_what_can_not_be_stored_harms_no_neighbour(postgres_box: Box) -> None:
    """PostgreSQL knows no text with a NUL in it."""
    items = [postgres_box.create(f"t{n}", context="\0" if n == 3 else "c1") for n in range(7)]
    assert await postgres_box.commit(*items) == [n != 3 for n in range(7)]
    assert sorted(await postgres_box.ids()) == [f"t{n}" for n in range(7) if n != 3]
    assert await postgres_box.store.load(ME, "\0") is None
    assert await postgres_box.store.claim(ME, "\0") is None
    assert await postgres_box.store.conversation_state(ME, "\0") is None


async def test_replicas_that_meet_a_new_caller_at_once_both_store(postgres_url: str) -> None:
    async with opened(postgres_url) as box:
        stores = [box.store, *[await box.another() for _ in range(3)]]
        for n in range(100):
            caller = Namespace(ME.agent, ME.tenant, f"caller {n}")
            items = [box.create(f"{n}-{i}", namespace=caller) for i in range(len(stores))]
            stored = await asyncio.gather(
                *[store.commit([item]) for store, item in zip(stores, items, strict=True)]
            )
            assert stored == [[True]] * len(stores)


async def test_two_namespaces_never_share_a_number(
    postgres_box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "number", lambda namespace: 7)
    stranger = Namespace(ME.agent, ME.tenant, "a stranger")
    assert await commit(postgres_box.store, [postgres_box.create()]) == [True]
    assert await commit(postgres_box.store, [postgres_box.create(namespace=stranger)]) == [False]


async def test_totals_are_right_before_and_after_they_are_added_up(postgres_box: Box) -> None:
    """And while other replicas change them."""
    other = await postgres_box.another()
    for n in range(20):
        mine, theirs = postgres_box.create(f"m{n}"), postgres_box.create(f"t{n}", state=COMPLETED)
        await postgres_box.commit(mine)
        await other.commit([theirs])
        await postgres_box.commit(postgres_box.append(mine, state=INPUT_REQUIRED))
        if n % 3 == 0:
            await asyncio.gather(
                postgres_box.store.upkeep.merge_totals(), other.upkeep.merge_totals()
            )
        tasks = (await postgres_box.store.stats()).tasks
        assert tasks == {INPUT_REQUIRED: n + 1, COMPLETED: n + 1}
    counted = "SELECT state, count(*) FROM {s}.tasks GROUP BY 1 ORDER BY 1"
    summed = (
        "SELECT state, sum(n)::bigint FROM (SELECT state, n FROM {s}.counts UNION ALL "
        "SELECT state, n FROM {s}.deltas) c GROUP BY 1 HAVING sum(n) <> 0 ORDER BY 1"
    )
    assert rows(postgres_box, counted) == rows(postgres_box, summed)


async def test_old_batches_are_forgotten(
    postgres_box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "TRIM_EVERY", 10)
    monkeypatch.setattr(writer, "KEPT_BATCHES", 3)
    for n in range(20):
        await postgres_box.commit(postgres_box.create(str(n)))
    assert rows(postgres_box, "SELECT min(n), max(n) FROM {s}.batches") == [(17, 20)]


async def test_orphans_are_shared_by_who_comes(postgres_box: Box) -> None:
    """Each goes to one taker only, however many take at once."""
    await postgres_box.commit(*(postgres_box.create(f"t{n}") for n in range(100)))
    takers = [await postgres_box.another() for _ in range(3)]
    assert isinstance(postgres_box.store, PostgresStore)
    await kill(postgres_box.store)

    async def take(store: Any) -> list[str]:
        found: list[str] = []
        while bite := await store.orphans(7, Can({"agent": {"echo"}}, 2)):
            found += [record.id for record in bite]
        return found

    shares = await asyncio.gather(*(take(store) for store in takers))
    assert sorted(name for share in shares for name in share) == sorted(f"t{n}" for n in range(100))


async def test_many_replicas_use_one_key_once(postgres_url: str) -> None:
    """The one that is too late finds it used, also if it looked before."""
    async with opened(postgres_url) as box:
        stores = [box.store, await box.another(), await box.another()]
        for n in range(30):
            first = box.create(f"base{n}")
            await box.commit(first)
            items: list[list[Any]] = [
                [box.create(f"{n}-0", idempotency=key(f"k{n}"))],
                [box.post(first.key, idempotency=key(f"k{n}")), box.create(f"{n}-1")],
                [key(f"k{n}", reply=b"r"), box.create(f"{n}-2")],
            ]
            outcomes = await asyncio.gather(
                *(store.commit(some) for store, some in zip(stores, items, strict=True))
            )
            assert sum(one[0] for one in outcomes) == 1
            assert [one[1:] for one in outcomes] == [[], [True], [True]]
        mail = await box.store.unread_posts(None)
        keys = rows(box, "SELECT post <> 0 OR reply <> '' FROM {s}.keys")
        assert len(keys) == 30
        assert len(mail) <= 30


async def test_a_post_and_an_owner_that_leaves_do_not_miss_each_other(postgres_url: str) -> None:
    """Either the owner stays and reads it, or the poster is refused."""
    async with opened(postgres_url) as box:
        other = await box.another()
        for n in range(40):
            first = box.create(f"t{n}")
            await box.commit(first)
            rest = box.append(first, state=INPUT_REQUIRED, leaves=Leaves.IDLE)
            _, (is_posted,) = await asyncio.gather(
                box.store.commit([rest]), other.commit([box.post(first.key)])
            )
            record = await box.store.load(ME, first.id)
            assert (record.owner != 0) == is_posted == (record.posts == 1)


async def test_a_post_that_comes_while_its_task_ends_does_not_stay_behind(
    postgres_box: Box,
) -> None:
    """The commit that ends the task waits for the post's, and does not see what that wrote."""
    store = postgres_box.store
    assert isinstance(store, PostgresStore)
    schema = store.options.schema
    first = postgres_box.create()
    await postgres_box.commit(first)
    db = await connect(parse(base_url()))
    try:
        posting = db.transaction()
        await posting.start()
        await db.execute(f"UPDATE {schema}.tasks SET posts = posts + 1")
        await db.execute(f"INSERT INTO {schema}.posts VALUES ($1, 1, 7, 2, '')", first.key)
        end = postgres_box.append(first, state=COMPLETED, leaves=Leaves.END, head=b"{}")
        ending = asyncio.create_task(postgres_box.commit(end))
        waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        await until(lambda: rows(postgres_box, waits))
        await posting.commit()
        assert await ending == [True]
    finally:
        await db.close()
    assert await store.unread_posts([first.key]) == []
    assert rows(postgres_box, "SELECT n FROM {s}.posts") == [(1,)]
    await store.upkeep.merge_totals()
    assert rows(postgres_box, "SELECT n FROM {s}.posts") == []


# Schema, options


async def test_a_file_is_not_deleted_if_a_commit_that_refers_to_it_was_first(
    postgres_box: Box,
) -> None:
    """Who deletes it began to look before the reference was there, and waits for its row."""
    files = postgres_box.store.files
    await files.add(StoredFile("f1", ME, "a.txt", "text/plain", 5, 1, 1, b"d" * 32))

    async def waiting(count: int) -> None:
        sql = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE $1"
        schema = f"%{postgres_box.store.options.schema}.%"
        async with asyncio.timeout(20):
            while len(await asyncio.to_thread(execute, sql, schema)) < count:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async with connected(postgres_box.store.options) as db, db.transaction():
        await db.execute(
            f"SELECT FROM {postgres_box.store.options.schema}.files WHERE id = 'f1' FOR UPDATE"
        )
        item = postgres_box.create(files=(FileUse("f1", 1),))
        referring = asyncio.ensure_future(commit(postgres_box.store, [item]))
        await waiting(1)
        deleting = asyncio.ensure_future(files.doom("f1", 1_000))
        await waiting(2)
    assert await referring == [True]
    assert not await deleting
    assert await files.find("f1") is not None


async def test_many_start_on_an_empty_database_at_once(postgres_url: str) -> None:
    boxes = [Box(postgres_url) for _ in range(4)]
    await asyncio.gather(*(box.open() for box in boxes))
    assert len({box.store.replica for box in boxes}) == 4
    assert len(rows(boxes[0], "SELECT 1 FROM {s}.migrations")) == len(
        runner.steps(TASKS, "postgresql")
    )
    for box in boxes:
        await box.close()


async def test_a_schema_that_is_too_new_is_refused(postgres_box: Box) -> None:
    """One that only adds is not."""
    newer = newest() + 1
    rows(postgres_box, f"INSERT INTO {{s}}.migrations VALUES ('tasks', {newer}, 20, 0) RETURNING 1")
    await postgres_box.another()
    rows(postgres_box, f"UPDATE {{s}}.migrations SET needs = {newer} RETURNING 1")
    with pytest.raises(RuntimeError, match="newer release of Accord"):
        await postgres_box.another()


@pytest.mark.parametrize("columns", ["version int, needs int, at timestamptz", "n bigint"])
async def test_a_schema_from_before_the_first_release_is_refused(
    postgres_url: str, columns: str
) -> None:
    box = Box(postgres_url)
    rows(box, "CREATE SCHEMA {s}")
    rows(box, f"CREATE TABLE {{s}}.migrations ({columns})")
    for use in (box.open(), open_store(postgres_url).keys.prepare()):
        with pytest.raises(RuntimeError, match="before the first release; move it away"):
            await use


async def test_a_slow_change_is_left_to_the_operator(
    postgres_box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No start waits for an index on a large table; a new database has it at once."""
    newer = newest() + 1
    sql = "CREATE INDEX CONCURRENTLY IF NOT EXISTS more ON {schema}.tasks (format)"
    steps = [*runner.steps(TASKS, "postgresql"), runner.Step(newer, sql, True)]
    monkeypatch.setattr(runner, "steps", lambda part, dialect: steps)
    store = postgres_box.store
    assert isinstance(store, PostgresStore)
    await postgres_box.another()
    there = "SELECT count(*) FROM pg_indexes WHERE schemaname = '{s}' AND indexname = 'more'"
    assert rows(postgres_box, there) == [(0,)]
    db = await connect(store.options)
    await migrate_database(db, store.options, TASKS, slow=True)
    assert (await versions(db, store.options))[TASKS].have == newer
    await db.close()
    assert rows(postgres_box, there) == [(1,)]
    with schema_url() as url:
        async with opened(url) as box:
            assert rows(box, there) == [(1,)]


def test_a_url_says_what_it_means() -> None:
    options = parse(
        "postgresql://me:secret@host:5/db?schema=a_b&beat_s=1&lease_s=3&sslmode=require"
    )
    assert options.dsn == "postgresql://me:secret@host:5/db?sslmode=require"
    assert (options.schema, options.lease) == ("a_b", Lease(1, 3))
    assert options.place == "postgresql://me@host:5/db"
    for wrong in ("schema=A", "beat_s=x", "lease_s=1", "pooler=maybe"):
        with pytest.raises(ValueError, match=wrong.partition("=")[0].removesuffix("_s")):
            parse(f"postgresql://host/db?{wrong}")


def test_without_asyncpg_the_url_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("accord.store.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(RuntimeError, match=r"pip install .*\[postgres\]"):
        open_store("postgresql://host/db")


async def test_a_database_that_is_not_there_is_named_without_its_password() -> None:
    store = PostgresStore("postgresql://me:secret@127.0.0.1:1/db")
    with pytest.raises(RuntimeError, match=r"me@127\.0\.0\.1:1/db") as caught:
        await store.open(lambda tasks: None)
    assert "secret" not in str(caught.value)


async def test_a_machine_that_slept_is_not_sure_that_it_is_still_taken_for_alive(
    postgres_box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's own clock stands still meanwhile, that of the others does not."""
    store = postgres_box.store
    assert isinstance(store, PostgresStore)
    await store.beat()
    assert store.is_sure
    asked: list[int] = []
    real = time.clock_gettime

    def slept(clock: int) -> float:
        asked.append(clock)
        return real(clock) + (60.0 if clock == time.CLOCK_BOOTTIME else 0.0)

    monkeypatch.setattr(time, "clock_gettime", slept)
    assert not store.is_sure
    assert time.CLOCK_BOOTTIME in asked
