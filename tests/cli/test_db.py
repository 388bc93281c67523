"""accord db: looks without touching, changes only what is ours, and says plainly what is wrong with
a file.
"""

import asyncio
import contextlib
import hashlib
import resource
import shutil
import signal
import sqlite3
import sys
from pathlib import Path

import pytest

from accord import Agent
from accord.client import connect
from tests.cli.shell import accord, served
from tests.processes import run_sync

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
FIXTURES = Path(__file__).parent.parent / "fixtures"
VERBS = ["stats", "vacuum", "migrate"]


def contents(folder):
    """Every file in a folder and what is in it."""
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}


def refused(cwd, *args):
    """What a command says that does not do it, and changes nothing."""
    before = contents(cwd)
    done = accord(*args, cwd=cwd)
    assert done.code == 1, done.out
    assert contents(cwd) == before
    return done.err


@pytest.fixture
def used(tmp_path):
    """A database with 40 tasks in it, and nothing beside it."""

    async def use():
        agent = Agent("Echo")

        @agent.skill
        async def echo(text: str) -> str:
            return text * 100

        app = agent.app(store=f"sqlite:///{tmp_path}/t.db")
        async with app.lifespan(), connect(app) as client:
            await asyncio.gather(*(client.send(f"hello {n}") for n in range(40)))

    asyncio.run(use())
    (tmp_path / "t.db-lock").unlink()
    return tmp_path / "t.db"


def test_stats_leaves_everything_as_it_is(used):
    before = contents(used.parent)
    assert "40 tasks" in accord("db", "stats", "--store", "sqlite:///t.db", cwd=used.parent).out
    assert contents(used.parent) == before


def test_stats_reads_an_old_schema_and_leaves_it_old(tmp_path):
    """Whoever looks before an update must be able to go back."""
    shutil.copy(FIXTURES / "schema-0001.db", tmp_path / "t.db")
    before = contents(tmp_path)
    said = accord("db", "stats", "--store", "sqlite:///t.db", cwd=tmp_path).out
    assert "4 tasks" in said
    assert "schema 1" in said
    assert contents(tmp_path) == before


def test_stats_of_a_running_server(tmp_path):
    """It disturbs nobody; what would is refused, with the process to stop."""
    with served(str(EXAMPLES / "echo.py"), cwd=tmp_path) as (process, url):
        accord("send", url, "hello", cwd=tmp_path)
        assert "1 task, " in accord("db", "stats", cwd=tmp_path).out
        for verb in ("vacuum", "migrate"):
            busy = accord("db", verb, cwd=tmp_path)
            assert busy.code == 1
            assert f"in use by process {process.pid}" in busy.err
            assert "this server" not in busy.err
        accord("send", url, "hello", cwd=tmp_path)
        process.kill()
    assert "2 tasks" in accord("db", "stats", cwd=tmp_path).out, (
        "what was not folded into the file yet counts too"
    )


@pytest.mark.parametrize(
    "args", [*(["db", verb] for verb in VERBS), ["serve", str(EXAMPLES / "echo.py"), "--port", "0"]]
)
def test_a_file_that_is_not_ours_is_left_alone(tmp_path, args):
    """Another program's database, or no database at all: a --store mistyped must not harm it."""
    with contextlib.closing(sqlite3.connect(tmp_path / "other.db")) as db:
        db.execute("CREATE TABLE customers (name)")
        db.execute("PRAGMA user_version = 3")  # others count their schemas too
        db.commit()
    with contextlib.closing(sqlite3.connect(tmp_path / "plain.db")) as db:
        db.execute("CREATE TABLE customers (name)")
    (tmp_path / "text.db").write_text("root:x:0:0:root\n" * 100)
    for name, why in {
        "other": "not Accord's",
        "plain": "not Accord's",
        "text": "is not a database",
    }.items():
        said = refused(tmp_path, *args, "--store", f"sqlite:///{name}.db")
        assert why in said
        assert f"{name}.db" in said


@pytest.mark.parametrize("store", ["sqlite:///.", "sqlite:///folder"])
@pytest.mark.parametrize(
    "args", [*(["db", verb] for verb in VERBS), ["serve", str(EXAMPLES / "echo.py"), "--port", "0"]]
)
def test_a_folder_is_no_file(tmp_path, args, store):
    (tmp_path / "folder").mkdir()
    done = accord(*args, "--store", store, cwd=tmp_path)
    assert done.code == 1
    assert "is a folder" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_place_where_no_file_can_be(tmp_path):
    (tmp_path / "file").touch()
    for args in (["db", "stats"], ["serve", str(EXAMPLES / "echo.py"), "--port", "0"]):
        said = refused(tmp_path, *args, "--store", "sqlite:///file/t.db")
        assert "file/t.db" in said


@pytest.mark.parametrize(
    "args", [*(["db", verb] for verb in VERBS), ["serve", str(EXAMPLES / "echo.py"), "--port", "0"]]
)
def test_damaged_pages_are_named_with_the_way_out(used, args):
    """The file, what is wrong with it, and what can be done; no traceback."""
    with used.open("r+b") as file:
        for page in range(3, used.stat().st_size // 4096):
            file.seek(page * 4096)
            file.write(b"\xab" * 4096)
    done = accord(*args, "--store", "sqlite:///t.db", cwd=used.parent)
    assert done.code == 1
    assert "t.db is damaged" in done.err
    assert ".recover" in done.err


def test_a_newer_schema_is_left_to_a_newer_accord(used):
    with contextlib.closing(sqlite3.connect(used)) as db:
        db.execute("PRAGMA user_version = 99")
    for verb in VERBS:
        said = refused(used.parent, "db", verb, "--store", "sqlite:///t.db")
        assert "has schema 99" in said
        assert "t.db" in said


def test_vacuum_makes_room(used):
    with contextlib.closing(sqlite3.connect(used)) as db, db:
        db.execute("CREATE TABLE waste AS SELECT zeroblob(1000000) AS x")
        db.execute("DROP TABLE waste")
    said = accord("db", "vacuum", "--store", "sqlite:///t.db", cwd=used.parent).out
    before, after = (int(word.replace(",", "")) for word in said.split() if word[0].isdigit())
    assert after < before / 2
    assert "40 tasks" in accord("db", "stats", "--store", "sqlite:///t.db", cwd=used.parent).out


def test_vacuum_counts_what_a_crash_left_in_the_log(tmp_path):
    """After a `kill -9` most of it stands beside the file: a vacuum must not seem to have made it
    larger.
    """
    with served(str(EXAMPLES / "echo.py"), cwd=tmp_path) as (process, url):
        accord("send", url, "hello", cwd=tmp_path)
        process.kill()
    before = sum(
        file.stat().st_size
        for file in (tmp_path / ".accord").glob("*.db*")
        if file.suffix in (".db", ".db-wal")
    )
    said = accord("db", "vacuum", cwd=tmp_path).out
    (after,) = (file.stat().st_size for file in (tmp_path / ".accord").glob("*.db"))
    assert said.splitlines()[-1] == f"{before:,} bytes before, {after:,} after"


@pytest.mark.parametrize("is_new", [True, False])
def test_a_full_disk_at_the_start_is_called_so_with_the_file(used, is_new):
    """The system refuses the process any more room in files: whichever is the first to need it, the
    database is named.
    """
    name = "new.db" if is_new else used.name
    command = [
        sys.executable,
        "-m",
        "accord",
        "serve",
        str(EXAMPLES / "echo.py"),
        "--port",
        "0",
        "--store",
        f"sqlite:///{name}",
    ]

    def fill() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    done = run_sync(*command, cwd=used.parent, prepare=fill)
    assert done.code == 1
    assert done.err.startswith(f"Error: {name} can't be used as a database: the disk is full")


def test_keep_days_may_be_less_than_one(tmp_path):
    """Half a day is half a day, though logs are kept for a whole one."""
    # a test has no minute to wait for a purge
    often = (
        "from accord.engine.runs import retention\nretention.LOOK_S = retention.PURGE_S = 0.05\n"
    )
    (tmp_path / "echo.py").write_text(often + (EXAMPLES / "echo.py").read_text())
    for days, is_kept in ((0.5, True), (0.0000001, False)):
        with served("echo.py", "--keep-days", f"{days:.7f}", cwd=tmp_path) as (process, url):
            accord("send", url, "hello", cwd=tmp_path)
            for _ in range(200):
                left = accord("db", "stats", cwd=tmp_path).out
                if is_kept or "\n0 tasks" in "\n" + left:
                    break
            assert ("\n0 tasks" in "\n" + left) is not is_kept
            process.stop_sync(signal.SIGINT)


def test_a_backup_is_a_database_of_its_own(used, tmp_path):
    """Made while nobody has to stop; a file that is there is not written over."""
    copy = tmp_path / "copy.db"
    done = accord("db", "backup", str(copy), "--store", f"sqlite:///{used}")
    assert done.code == 0, done.err
    stats = [accord("db", "stats", "--store", f"sqlite:///{path}").out for path in (used, copy)]
    assert "40 tasks" in stats[0]
    assert stats[0].splitlines()[0] == stats[1].splitlines()[0]
    again = accord("db", "backup", str(copy), "--store", f"sqlite:///{used}")
    assert (again.code, "is there already" in again.err) == (1, True)
