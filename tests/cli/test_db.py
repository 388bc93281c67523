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

from accord import Agent, File
from accord.client import connect
from tests.cli.shell import accord, served
from tests.processes import run_sync

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
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
        db.execute("INSERT INTO migrations VALUES ('tasks', 99, 99, 0)")
        db.commit()
    for verb in VERBS:
        said = refused(used.parent, "db", verb, "--store", "sqlite:///t.db")
        assert "schema 99; this one knows" in said
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
    assert (again.code, "exists already" in again.err) == (1, True)
    nowhere = accord("db", "backup", f"{tmp_path}/none/copy.db", "--store", f"sqlite:///{used}")
    assert (nowhere.code, "can't be written: No such file" in nowhere.err) == (1, True)


def test_a_backup_has_the_bytes_of_files_too(tmp_path):
    """They lie beside the database. Whoever has the copy, and nothing else, can serve them."""
    data = b"z" * 300_000
    agent = Agent("Scan")

    @agent.skill
    async def scan(text: str) -> File:
        return File(data, name="scan.bin", media_type="application/octet-stream")

    async def read(path, task_id=""):
        async with agent.app(store=f"sqlite:///{path}").serving() as url, connect(url) as client:
            task_id = task_id or (await client.send("now")).task.id
            [part] = (await client.get(task_id)).artifacts[0].parts
            with await client.open_file(str(part.url)) as file:
                return task_id, file.read()

    here, copy, there = tmp_path / "here.db", tmp_path / "copy.db", tmp_path / "there.db"
    task_id, got = asyncio.run(read(here))
    assert got == data
    assert accord("db", "backup", str(copy), "--store", f"sqlite:///{here}").code == 0
    [file] = (tmp_path / "copy.db-files").glob("*/*")
    assert file.stat().st_mode & 0o077 == 0
    here.unlink()
    shutil.rmtree(tmp_path / "here.db-files")
    done = accord("db", "restore", str(copy), "--store", f"sqlite:///{there}")
    assert done.code == 0, done.err
    shutil.rmtree(tmp_path / "copy.db-files")
    assert asyncio.run(read(there, task_id)) == (task_id, data)


def test_of_several_databases_one_is_named_as_it_is_typed(tmp_path):
    folder = tmp_path / ".accord"
    folder.mkdir()
    for name in ("hr.db", "hub.db"):
        (folder / name).touch()
    said = accord("db", "stats", cwd=tmp_path).err
    assert "several databases in ./.accord/: hr.db, hub.db" in said
    assert "--store sqlite:///.accord/hr.db" in said
