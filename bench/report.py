"""Results for people: a table on the terminal, a page in the docs."""

from pathlib import Path

from rich.table import Table

from .results import BASE, Measured, Results
from .server import COLUMNS
from .targets import TARGETS, Verdict

__all__ = ["own_table", "page", "table"]

_WORD = {True: "reached", False: "**not reached**", None: ""}


WHERE = Path(__file__).parent / "where.md"  # written by hand: profiles


def own_table(results: Results, ids: list[str]) -> Table:
    """Those of the rows `ids` that a2a-sdk has no part in."""
    found = Table(title="Accord beside itself (median, lowest to highest round)")
    for title in ("workload", "measured"):
        found.add_column(title)
    for id_ in ids:
        row = results.rows[id_]
        if not _has_base(row):
            found.add_row(row.title, "[red]failed" if row.error else _own(results, id_))
    return found


def table(results: Results, ids: list[str]) -> Table:
    """The rows `ids`: what the base costs, and how many times cheaper the others are."""
    found = Table(title="times cheaper than a2a-sdk in memory (median, lowest to highest round)")
    found.add_column("workload")
    for column, title in COLUMNS.items():
        found.add_column(title + (" (cost)" if column == "sdk" else ""), justify="right")
    for id_ in ids:
        row = results.rows[id_]
        if row.error and _has_base(row):
            found.add_row(row.title, "[red]failed")
        elif _has_base(row):
            found.add_row(row.title, *(_cell(results, id_, column) for column in COLUMNS))
    return found


def page(results: Results) -> str:
    """The page `docs/performance.md`."""
    facts = ", ".join(f"{name} {value}" for name, value in results.machine.items())
    dates = sorted({row.date for row in results.rows.values()})
    lines = [
        "# Performance",
        "",
        "Made by `make bench`; the figures of every round are in `bench/results.json`.",
        "",
        "![How many times cheaper than a2a-sdk](performance.svg)",
        "",
        "The same agent on a2a-sdk (in memory) and on Accord, and prepared bytes from a "
        "bare uvicorn as the limit. A figure",
        "says **how many times less server CPU time** an operation takes than on a2a-sdk: "
        "the median of the rounds, with the",
        "lowest and the highest. The column of a2a-sdk is its cost. Memory and start-up "
        "are compared the same way.",
        "",
        "| workload | " + " | ".join(COLUMNS.values()) + " |",
        "|---|" + "---:|" * len(COLUMNS),
        *(_line(results, id_, row) for id_, row in results.rows.items() if _has_base(row)),
        "",
        "Accord beside itself: how many times more something costs than the same without it, or "
        "what it costs.",
        "",
        "| workload | median (lowest to highest round) |",
        "|---|---|",
        *(
            f"| {row.title} | {'failed' if row.error else _own(results, id_)} |"
            for id_, row in results.rows.items()
            if not _has_base(row)
        ),
        "",
        *_install_lines(results),
        "## Targets",
        "",
        "Against a2a-sdk in memory.",
        "",
        "| target | measured | |",
        "|---|---:|---|",
        *(_target_line(target.text, target.judge(results)) for target in TARGETS),
        "",
        *_reasons(results),
        *WHERE.read_text().splitlines(),
        "## How it was measured",
        "",
        f"- {' to '.join(dates[:: max(len(dates) - 1, 1)])}; {facts}.",
        "  Shared machines are noisy: read the ratios, not the costs.",
        "- One server process per column, all pinned to one core, one working at a time; "
        "the load runs on another core. The",
        "  servers take turns in every round, and a ratio is formed within a round.",
        "- The cost is user and system time of the server process with all its threads, "
        "divided by operations. Work done",
        "  after the answer counts.",
        "- Every answer is checked: status 200, the expected state, the expected number of "
        "events. One wrong answer fails the row.",
        "- a2a-sdk is set up as its samples are: an executor that makes the task, working, "
        "one artifact, completed;",
        "  `DefaultRequestHandler`, `InMemoryTaskStore`, Starlette routes, uvicorn with "
        "uvloop and httptools. Access logs are off",
        "  everywhere. Accord is what `agent.run(console=False)` serves; SQLite flushes every "
        "commit to the disk.",
        "- Agents that stream give way after each chunk. Fan-out counts every event at "
        "every reader.",
        "- The tasks to list are sent for real to Accord and put straight into the store "
        "of a2a-sdk.",
        "- `import` is `from accord import Agent` against the request handler and routes "
        "of a2a-sdk; start is a new process until",
        "  it has served its agent card. Both are seconds that pass, of which the lowest "
        "round is shown: other work on the",
        "  machine can only add to them.",
        "",
    ]
    return "\n".join(lines)


def _line(results: Results, id_: str, row: Measured) -> str:
    if row.error:
        return f"| {row.title} | failed |" + " |" * (len(COLUMNS) - 1)
    return (
        f"| {row.title} | " + " | ".join(_cell(results, id_, column) for column in COLUMNS) + " |"
    )


def _cell(results: Results, id_: str, column: str) -> str:
    cost, ratio = results.cost(id_, column), results.ratio(id_, column)
    if cost is None or ratio is None:
        return ""
    if column == "sdk":
        return _cost(cost, results.rows[id_].unit)
    own = f", {_cost(cost, results.rows[id_].unit)}" if results.rows[id_].unit != "µs" else ""
    spread = f" ({_times(ratio.low)} to {_times(ratio.high)})" if ratio.low != ratio.high else ""
    return f"{_times(ratio.median)}x{spread}{own}"


def _has_base(row: Measured) -> bool:
    return BASE in row.rounds


def _own(results: Results, id_: str) -> str:
    """What was measured in each column."""
    row = results.rows[id_]
    said = []
    for column, rounds in row.rounds.items():
        cost = results.cost(id_, column)
        if cost is not None:
            spread = f" ({_figure(min(rounds))} to {_figure(max(rounds))})" if rounds[1:] else ""
            said.append(f"{COLUMNS.get(column, column)}: {_figure(cost)}{spread} {row.unit}")
    return "; ".join(said)


def _figure(value: float) -> str:
    return f"{value:.0f}" if value >= 20 else f"{value:.2f}"


def _times(value: float) -> str:
    return f"{value:.0f}" if value >= 20 else f"{value:.1f}"


def _cost(value: float, unit: str) -> str:
    if unit == "µs":
        return f"{value / 1000:.1f} ms" if value >= 10_000 else f"{value:.0f} µs"
    return f"{value:.2f} {unit}" if unit in ("s", "ms") else f"{value:.1f} {unit}"


# Where the time goes where a target is hard to reach: shares of the server's time, sampled by hand
# with a profiler under that load.
REASONS = {
    "send": "What a send costs is flat: 285 calls of Python functions in memory and 304 on SQLite "
    "(`python -m bench.calls`; 303 and 324 before the last round of work on it), 220 of them ours, "
    "and no function of ours takes more than 5 %. The targets were set on a machine where a2a-sdk "
    "took 2.4 ms for a send on 32 connections, and Accord 103 µs. On this one a2a-sdk takes 1.2 to "
    "1.7 ms and Accord 75 to 85 µs, so that the same work counts for less. Tried and left: "
    "mypyc (15 % less, but it crashes with the HTTP modules and keeps finished runs alive), Cython "
    "(slower). What could still be taken away are whole parts: the task of the request, the view "
    "that waits for its answer, the five entries of its log. The bare uvicorn in the last column "
    "parses nothing.",
    "echo": "As a send, with four events to write.",
    "message": "The file is written to the disk, which a2a-sdk does not do: what each part of "
    "that costs stands below, under Files.",
    "default": "Of the default install cryptography is 16 MB, uvloop 14, aiohttp 9.",
    "replicas": "How many sends share a commit moves between 18 and 30 from run to run, since "
    "replicas, database and load share two cores, and the cost with it: in runs one after the "
    "other 123 and 140 µs for one replica, 149 and 145 for four.",
    "import": "About a third is asyncio and ssl, which every server needs; the rest is spread over "
    "many files of ours. "
    "`import accord` alone is less than a tenth: names load on first use.",
    "hub": "At 32 connections commits are shared and a send costs the agent little; the hub has "
    "a call out and its answer beside that. `python -m bench.calls` counts Python calls: 305 for "
    "a send to an agent (219 of them ours), about 1,375 for one through a hub (790 ours; 1,436 "
    "and 836 before the client read streams without a chain of generators). On a busy machine "
    "it is up to 100 more, since the answer comes in more pieces. Of these, 360 are asyncio's "
    "and 145 aiohttp's, for a connection out. Of ours 236 are the engine, 158 the client, which "
    "reads four events, 110 who may call what, 74 the relay. Ours alone are 2.6 times a send, "
    "so 2.2 times would need both another HTTP client and a sixth less of ours. The agent "
    "answers in two pieces: it stores a message under an idempotency key before it calls its "
    "function. So the hub wakes twice, and on one connection commits twice. The key stays: "
    "without it a message might be done twice when the connection is lost. Sampled under "
    "that load, the profile is flat: handing a commit to the store's thread takes 6 % of the "
    "time, no other function more than 3 %. Following the agent's task is 56 %, of which the call "
    "out and its answer are half; requests in are 15 %, commits 8 %. One answer instead of "
    "a stream would need fewer, but readers would see nothing until the end, and a hub that is "
    "killed would lose the task. On one connection, where the commit weighs more, the ratio is "
    "smaller. An idle stream is a connection in, a connection out and a task of its own: 12 KiB "
    "are aiohttp's, 5 KiB the coroutines that read it (3.6 KiB less since they are fewer, in "
    "paired runs; not yet in the table), 4 KiB the sockets, the rest the task, its log "
    "and its message.",
    "stream": "What is left of a chunk is its way from `yield` to the log: the check of its task, "
    "the event, its JSON, the text of the draft. That is about 60 %; the write to the connection, "
    "which several chunks share, is 30 %, the commit the rest.",
    "get": "On SQLite a third of a get is the query, 7 µs. Of these 4 are the begin and the end of "
    "its read transaction: locks of the file's shared memory, which a query within an open "
    "transaction does not pay, but it would not see what was stored since. The rest is a search by "
    "id and a row of 20 values; with 7 values it would be 1.5 µs less. A read without a generator "
    "around it saved 4 %. Only a cache of finished tasks would save the rest, and it would have to "
    "know of everybody who deletes them. Of what is left, and of a get in memory, the write to the "
    "socket is a third and the read a fifth.",
    "list": "A page of 50 on SQLite takes 160 µs in its thread and 55 on the loop. Of the first, "
    "100 are the module sqlite3 making 50 rows of 20 values (about 85 ns each), and 26 "
    "records of them; the texts of the snapshots are sent as they are stored. It was 240 "
    "in all: rows had two values twice, each text was searched for its cut-out pieces by "
    "a text of one byte, which is ten times slower than by a number, and each was checked "
    "and searched for files by itself, which is now done once for a page. The target "
    "leaves about 80 µs for everything. Tried: on the loop instead of a thread (8 %), "
    "records by other means (nothing), three values a row (58 µs less, a quarter of a "
    "list). A list uses 15 of the 20 values, so that would be a second kind of record in "
    "every store, and still miss. In memory a third of a list is the copy of each record, "
    "since the store changes its own in place.",
    "durable": "Four commits instead of one: the start, two steps and the end, each on the disk "
    "before the run goes on. With 32 connections, and without a network, a plain send takes 75 µs "
    "on the loop and 17 in the thread that writes; a durable one takes 107 and 49. A commit of 32 "
    "tasks costs that thread about 500 µs: 230 for begin and commit, with about 15 pages and a "
    "flush; 80 for the update of 32 rows, 25 for their entries in the log, 70 to read where the "
    "tasks stand, the rest is Python. On the loop it is 378 Python calls instead of 224, 77 for "
    "each step, spread over 60 functions. A value is encoded once. Tried: pages of 8 and 16 KiB "
    "(4 % off a plain send, nothing certain off a durable one). A step's result can't share a "
    "commit with what follows it: the function may use it at once, as the key of a payment for "
    "example, and after a crash it would get another one. Nor can the start go with the first "
    "step: a sender that tries again would not find the task, and the step would be done twice "
    "under two keys.",
    "webhook": "Three deliveries to a send, each a signature (ES256, 40 µs of C) and a request by "
    "aiohttp (about 80 µs), one after the other because their order is promised. These alone are "
    "360 µs, nearly four sends, so 3 times a send needs another HTTP client than aiohttp. Of the "
    "time of such a send two thirds are deliveries: 36 % the request out, 17 % headers and "
    "signature; 6 % is the check of the URL when it is given, 6 % the events and the trace, read "
    "from the store. "
    "Connections are kept, outcomes are stored together, URLs are read once, webhooks are taken "
    "in batches. With no read after the last event, ids quoted once and names of headers checked "
    "once it is 2,090 calls (of Python and C) instead of 2,180. What is left around the request is "
    "small: 2 % to see whether the key file has changed, 2 % to check the headers.",
    "gRPC": "h2 took two thirds of a get: half of that to read its two frames, half to write its "
    "three. Decoding and encoding the same headers once took off a seventh of the whole. The rest "
    "are h2's state machines and frame objects.",
}


def _reasons(results: Results) -> list[str]:
    """Why what is not reached is not."""
    missed = {
        target.text.partition(" ")[0].strip(":,")
        for target in TARGETS
        if target.judge(results).is_reached is False
    }
    told = [f"- **{name}**: {why}" for name, why in REASONS.items() if name in missed]
    return ["Where a target is not reached:", "", *told, ""] if told else []


def _target_line(text: str, verdict: Verdict) -> str:
    return f"| {text} | {verdict.found} | {_WORD[verdict.is_reached]} |"


def _install_lines(results: Results) -> list[str]:
    if not results.install:
        return []
    found = [
        f"{name}: {one.packages} packages, {one.mb:.0f} MB" for name, one in results.install.items()
    ]
    return [f"A default install brings, into an empty environment: {'; '.join(found)}.", ""]
