"""ListTasks: whose, in which order, how many at a time."""

import asyncio
import itertools

import pytest

from accord import Ask, Limits
from accord.model import now_ms, timestamp
from tests.drive import refusal_of, say, text_of


async def work(request: str):
    """Ends as told, or stays open."""
    match request:
        case "ask":
            return Ask("?")
        case "fail":
            raise RuntimeError
    return request


async def sent(client, *words):
    """Send words, each in a later millisecond than the one before, so that their order in time is
    plain.
    """
    tasks = []
    for word in words:
        tasks.append((await client.send(word))["task"])
        while timestamp(now_ms()) <= tasks[-1]["status"]["timestamp"]:
            await client.list()
    return tasks


def ids(page):
    return [task["id"] for task in page["tasks"]]


async def test_an_empty_list_has_all_its_members(connect, store):
    """nextPageToken, pageSize and totalSize are there even when nothing else is (LST-4, LST-8)."""
    async with connect(work, store=store) as client:
        assert await client.list() == {
            "tasks": [],
            "nextPageToken": "",
            "pageSize": 50,
            "totalSize": 0,
        }


async def test_the_newest_status_comes_first(connect, store):
    """Sorted by last update: an old task that is answered moves to the front (LST-3, MSG-3)."""
    async with connect(work, store=store) as client:
        old, new = await sent(client, "ask", "done")
        assert ids(await client.list()) == [new["id"], old["id"]]
        await client.send(say("done", taskId=old["id"]))
        assert ids(await client.list()) == [old["id"], new["id"]]


async def test_pages_follow_each_other_without_gap_or_overlap(connect, store):
    """A cursor walks the whole list; the last page has an empty token (LST-2, LST-4, LST-8)."""
    async with connect(work, store=store) as client:
        made = [(await client.send(f"{n}"))["task"]["id"] for n in range(7)]
        pages, token = [], ""
        while not pages or token:
            page = await client.list(pageSize=3, **({"pageToken": token} if token else {}))
            token = page["nextPageToken"]
            pages.append(page)
        assert [len(page["tasks"]) for page in pages] == [3, 3, 1]
        assert [(page["pageSize"], page["totalSize"]) for page in pages] == [(3, 7)] * 3
        assert list(itertools.chain(*map(ids, pages))) == made[::-1]


async def test_a_page_that_ends_with_the_list_has_no_next(connect, store):
    """A full last page is the last page (LST-4)."""
    async with connect(work, store=store) as client:
        for n in range(4):
            await client.send(f"{n}")
        first = await client.list(pageSize=2)
        second = await client.list(pageSize=2, pageToken=first["nextPageToken"])
        assert (len(second["tasks"]), second["nextPageToken"]) == (2, "")


async def test_tasks_made_while_paging_do_not_shift_the_pages(connect, store):
    """The token is a place in the order, not a count (LST-2)."""
    async with connect(work, store=store) as client:
        made = [(await client.send(f"{n}"))["task"]["id"] for n in range(4)]
        first = await client.list(pageSize=2)
        await client.send("newer")
        second = await client.list(pageSize=2, pageToken=first["nextPageToken"])
        assert ids(first) + ids(second) == made[::-1]


async def paged(client, **asked):
    """All pages of a list."""
    pages, token = [], ""
    while not pages or token:
        pages.append(await client.list(**asked, **({"pageToken": token} if token else {})))
        token = pages[-1]["nextPageToken"]
    return pages


async def test_a_page_ends_early_when_it_holds_enough(connect, store):
    """A page may be shorter than asked for (LST-6): large tasks come a few at a time, and all of
    them come.
    """
    async with connect(work, store=store, limits=Limits(page=100_000)) as client:
        made = [(await client.send(f"{n}" + "x" * 40_000))["task"]["id"] for n in range(5)]
        pages = await paged(client)
        assert [len(page["tasks"]) for page in pages] == [2, 2, 1]
        assert [(page["pageSize"], page["totalSize"]) for page in pages] == [(50, 5)] * 3
        assert list(itertools.chain(*map(ids, pages))) == made[::-1]


async def test_artifacts_count_for_a_page_if_they_are_asked_for(connect, store):
    """What is not sent costs nothing; what is larger than a page has one of its own."""

    async def grow(request: str):
        return "x" * int(request)

    async with connect(grow, store=store, limits=Limits(page=100_000)) as client:
        for size in ("60000", "120000", "60000"):
            await client.send(size)
        pages = await paged(client, includeArtifacts=True)
        assert [[len(text_of(task)) for task in page["tasks"]] for page in pages] == [
            [60_000],
            [120_000],
            [60_000],
        ]
        (page,) = await paged(client)
        assert len(page["tasks"]) == 3


async def test_what_has_grown_since_it_was_stored_counts_for_a_page(connect, store):
    """A task that is open is shown as it is, not as its last snapshot was."""
    async with connect(work, store=store, limits=Limits(page=100_000)) as client:
        tasks = await sent(client, "ask", "ask", "ask")
        for task in tasks:
            await client.send(say([{"text": "ask"}, {"data": "x" * 40_000}], taskId=task["id"]))
        pages = await paged(client)
        assert [len(page["tasks"]) for page in pages] == [2, 1]
        assert sorted(itertools.chain(*map(ids, pages))) == sorted(task["id"] for task in tasks)


@pytest.mark.parametrize("size", [0, -1, 101, 2**31 - 1])
async def test_a_page_size_out_of_range_is_refused(connect, size):
    """1 to 100; zero is wrong when it is said (LST-6)."""
    async with connect(work) as client:
        refused = await refusal_of(client.list(pageSize=size))
        assert (refused.reason, list(refused.violations)) == ("INVALID_PARAMS", ["pageSize"])


async def test_a_page_size_of_more_than_32_bits_is_refused(connect_http):
    """As any other out of range. gRPC can't say it."""
    async with connect_http(work) as client:
        refused = await refusal_of(client.list(pageSize=2**31))
        assert (refused.reason, list(refused.violations)) == ("INVALID_PARAMS", ["pageSize"])


@pytest.mark.parametrize("token", ["x", "AAAA", "é", "MS4yLjM", "LTEuLTE"])
async def test_a_token_this_server_did_not_give_is_refused(connect, token):
    """Garbage is not taken for the first page (LST-9)."""
    async with connect(work) as client:
        refused = await refusal_of(client.list(pageToken=token))
        assert (refused.reason, list(refused.violations)) == ("INVALID_PARAMS", ["pageToken"])


async def test_artifacts_are_listed_only_when_asked_for(connect, store):
    """Absent from every task by default; if asked for present, even where there are none
    (LST-5).
    """
    async with connect(work, store=store) as client:
        await client.send("ask")
        await client.send("made")
        for page in (await client.list(), await client.list(includeArtifacts=False)):
            assert not any("artifacts" in task for task in page["tasks"])
        made, asked = (await client.list(includeArtifacts=True))["tasks"]
        assert (text_of(made), asked["artifacts"]) == ("made", [])


async def test_history_in_a_list_is_cut_as_anywhere(connect, store):
    """historyLength applies to every listed task (HIS-2, HIS-3)."""
    async with connect(work, store=store) as client:
        task = (await client.send("ask"))["task"]
        await client.send(say("done", taskId=task["id"]))
        lengths = [
            len((await client.list(historyLength=n))["tasks"][0].get("history", []))
            for n in (0, 1, 2)
        ]
        assert lengths == [0, 1, 2]
        assert "history" not in (await client.list(historyLength=0))["tasks"][0]


async def test_tasks_can_be_filtered_by_context_and_state(connect, store):
    """Filters are equalities, and totalSize counts what they leave (LST-7, LST-8)."""
    async with connect(work, store=store) as client:
        await client.send(say("ask", contextId="a"))
        done = (await client.send(say("done", contextId="a")))["task"]
        await client.send(say("done", contextId="b"))
        page = await client.list(contextId="a", status="TASK_STATE_COMPLETED")
        assert (ids(page), page["totalSize"]) == ([done["id"]], 1)
        assert (await client.list(contextId="a"))["totalSize"] == 2
        assert (await client.list(status="TASK_STATE_INPUT_REQUIRED"))["totalSize"] == 1
        assert (await client.list(status="TASK_STATE_FAILED"))["totalSize"] == 0


async def test_an_unspecified_state_filters_nothing(connect):
    """The enum's zero is no filter (section 1.3)."""
    async with connect(work) as client:
        await client.send("done")
        assert (await client.list(status="TASK_STATE_UNSPECIFIED"))["totalSize"] == 1


async def test_the_lower_bound_in_time_is_inclusive(connect, store):
    """statusTimestampAfter takes the moment itself in (LST-7)."""
    async with connect(work, store=store) as client:
        old, new = await sent(client, "old", "new")
        bounds = [new["status"]["timestamp"], old["status"]["timestamp"]]
        assert [
            (await client.list(statusTimestampAfter=bound))["totalSize"] for bound in bounds
        ] == [1, 2]


@pytest.mark.parametrize(
    "after", ["2999-01-01T00:00:00Z", "2999-01-01T00:00:00.123456789Z", "2999-01-01T02:00:00+02:00"]
)
async def test_times_are_read_with_any_fraction_and_offset(connect, after):
    """0 to 9 digits of a fraction, and numeric offsets (section 2)."""
    async with connect(work) as client:
        await client.send("done")
        assert (await client.list(statusTimestampAfter=after))["totalSize"] == 0


@pytest.mark.parametrize(
    "after",
    [
        "2026-01-01",
        "2026-01-01T00:00:00",
        "2026-01-01t00:00:00z",
        "yesterday",
        "2026-13-01T00:00:00Z",
        "2026-01-01T00:00:00.\u0661\u0662Z",
    ],
)
async def test_a_time_that_is_none_is_refused(connect_http, after):
    """No zone, no time of day, small letters, no such month, other digits (section 2)."""
    async with connect_http(work) as client:
        refused = await refusal_of(client.list(statusTimestampAfter=after))
        assert (refused.reason, list(refused.violations)) == (
            "INVALID_PARAMS",
            ["statusTimestampAfter"],
        )


async def test_a_task_at_work_is_listed_as_it_stands(connect, store):
    """The list shows what get shows, for running tasks too (LST-1)."""
    gate = asyncio.Event()

    async def slow(request: str):
        yield "part"
        await gate.wait()

    async with connect(slow, store=store) as client:
        stream = await client.stream("go")
        task_id = (await stream.take(3))[0]["task"]["id"]
        assert (await client.list(includeArtifacts=True))["tasks"] == [await client.get(task_id)]
        gate.set()
