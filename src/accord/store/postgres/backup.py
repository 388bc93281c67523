"""Copies of a database: made while replicas use it, and put back while none does. PostgreSQL's own
programs do the work.
"""

import asyncio
import contextlib
import os
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from ..migrations import SchemaVersion, check, too_old
from .connect import BROKEN, connected, is_pooled, reason
from .options import PostgresOptions
from .schema import versions

__all__ = ["backup", "restore"]

_PIECE = 1 << 20
_SCHEMA = re.compile(r"^\d+; \d+ \d+ SCHEMA - (\S+)", re.MULTILINE)  # a line of pg_restore --list
_MIGRATIONS = re.compile(r"^COPY \S+ \((.*?)\) FROM stdin;\n(.*?)^\\\.$", re.MULTILINE | re.DOTALL)


async def backup(options: PostgresOptions, file: Path) -> None:
    """Write all there is into a file, as it stands at one moment, while replicas go on.

    Raises:
        RuntimeError: It can't be done; says why.
    """
    async with _connected(options) as db:
        if not await versions(db, options):
            raise RuntimeError(
                f"{options.place} has no schema {options.schema!r}; accord serve makes one"
            )
    await _run(
        options, "pg_dump", "--format=custom", f"--schema={options.schema}", f"--file={file}"
    )


async def restore(options: PostgresOptions, file: Path, *, replace: bool = False) -> None:
    """Put a backup in the place of the schema, whole or not at all.

    Raises:
        RuntimeError: Processes use the schema, something is there already, or the file is no
          backup of this schema, or one of a release that is too old or too new.
    """
    listed = await _run(None, "pg_restore", "--list", str(file))
    names = _SCHEMA.findall(listed)
    if names != [options.schema]:
        there = ", ".join(names) or "no schema"
        raise RuntimeError(
            f"{file} is a backup of {there}, not of {options.schema}; give --store its name as "
            "?schema="
        )
    await _check_release(options, file)  # before anything is dropped
    async with _connected(options) as db:
        if await db.fetchval("SELECT to_regnamespace($1) IS NOT NULL", options.schema):
            await _check_unused(db, options)
            if not replace:
                raise RuntimeError(
                    f"there is a schema {options.schema} in {options.place} already; rename it, or "
                    "replace it with --replace"
                )
    await _replace(options, file)


async def _check_release(options: PostgresOptions, file: Path) -> None:
    """Raise RuntimeError if a backup is not one that this release can use."""
    printed = await _run(
        *(None, "pg_restore", "--data-only", f"--schema={options.schema}", "--table=migrations"),
        *("--file=-", str(file)),
    )
    dump = _MIGRATIONS.search(printed)
    if dump is None:
        raise RuntimeError(f"{file} is not a backup of a store")
    columns = dump[1].split(", ")
    if "part" not in columns:
        raise too_old(str(file))
    found: dict[str, SchemaVersion] = {}
    for line in dump[2].splitlines():
        row = dict(zip(columns, line.split("\t"), strict=True))
        have, needs = found.get(row["part"], (0, 0))
        found[row["part"]] = SchemaVersion(
            max(have, int(row["version"])), max(needs, int(row["needs"]))
        )
    check(str(file), found)


async def _replace(options: PostgresOptions, file: Path) -> None:
    """Drop the schema and make that of a backup, in one transaction. It is committed when all of
    the backup was read: if this process, pg_restore or psql is killed, all is as it was.
    """
    reading = await _started(
        *(None, "pg_restore", "--no-owner", "--no-privileges", "--file=-", str(file))
    )
    writing = await _started(options, "psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1")
    try:
        assert reading.stdout is not None  # it is a pipe
        assert writing.stdin is not None
        complaint = asyncio.ensure_future(_read(reading.stderr))
        errors = asyncio.ensure_future(_read(writing.stderr))
        printed = asyncio.ensure_future(_read(writing.stdout))
        with contextlib.suppress(ConnectionError):  # psql has ended, and says why
            writing.stdin.write(f"BEGIN; DROP SCHEMA IF EXISTS {options.schema} CASCADE;".encode())
            while piece := await reading.stdout.read(_PIECE):
                writing.stdin.write(piece)
                await writing.stdin.drain()
            if not await reading.wait():
                writing.stdin.write(b"COMMIT;\n")
            writing.stdin.close()
        failed = await writing.wait()
        said = await errors
        await printed
        if failed:
            raise RuntimeError(f"psql failed: {said}")
        if await reading.wait():
            raise RuntimeError(f"pg_restore failed: {await complaint}")
    finally:
        for process in (reading, writing):
            if process.returncode is None:
                process.kill()
                await process.wait()


async def _check_unused(db: Any, options: PostgresOptions) -> None:
    """Raise RuntimeError if replicas use a schema: those who have shown lately that they live."""
    if not await db.fetchval("SELECT to_regclass($1) IS NOT NULL", f"{options.schema}.replicas"):
        return
    names = await db.fetch(
        f"SELECT name FROM {options.schema}.replicas WHERE died IS NULL AND seen_ms > "
        "extract(epoch FROM clock_timestamp()) * 1000 - $1 ORDER BY name",
        options.lease.lease_s * 1000,
    )
    if names:
        raise RuntimeError(
            f"{options.place} is in use by {', '.join(name for (name,) in names)}; stop them "
            f"first, and wait {options.lease.lease_s:.0f} s if they were killed"
        )


@contextlib.asynccontextmanager
async def _connected(options: PostgresOptions) -> AsyncIterator[Any]:
    try:
        async with connected(options, pooled=await is_pooled(options)) as db:
            yield db
    except BROKEN as error:
        raise RuntimeError(f"the database can't be used: {reason(options, error)}") from error


async def _run(options: PostgresOptions | None, program: str, *arguments: str) -> str:
    """Run a program of PostgreSQL, at this database if it needs one; return what it printed."""
    process = await _started(options, program, *arguments)
    printed, said = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"{program} failed: {said.decode(errors='replace').strip()}")
    return printed.decode(errors="replace")


async def _started(
    options: PostgresOptions | None, program: str, *arguments: str
) -> asyncio.subprocess.Process:
    command = shutil.which(program)
    if command is None:
        raise RuntimeError(f"{program} is not there; install PostgreSQL's client programs")
    environment = dict(os.environ)
    if options is not None:
        # The password is not in the command line, which everybody on the machine can read.
        parts = urlsplit(options.dsn)
        name, at, host = parts.netloc.rpartition("@")
        user, _, password = name.partition(":")
        dsn = urlunsplit(parts._replace(netloc=f"{user}{at}{host}"))
        arguments = (f"--dbname={dsn}", *arguments)
        if password:
            environment["PGPASSWORD"] = unquote(password)
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        command, *arguments, env=environment, stdin=pipe, stdout=pipe, stderr=pipe
    )


async def _read(stream: asyncio.StreamReader | None) -> str:
    """Read all that a program prints."""
    return (await stream.read()).decode(errors="replace").strip() if stream is not None else ""
