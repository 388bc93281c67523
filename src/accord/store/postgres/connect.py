"""Connections to the database: how they are made, and what their errors mean."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import asyncpg

from ...sockets import notice_loss
from ..contract import CommitFailed
from .namespaces import NumberTaken
from .options import PostgresOptions

__all__ = [
    "BROKEN",
    "CONNECT_S",
    "FREE",
    "FULL",
    "ISOLATION",
    "ROLE_SETTINGS",
    "close",
    "commit_failed",
    "connect",
    "connected",
    "is_content",
    "is_pooled",
    "kill",
    "missing_settings",
    "open_session",
    "reason",
    "transaction",
    "uncancelled",
]

T = TypeVar("T")

CONNECT_S = 5.0
QUIET_S, LOST_S = 5.0, 15.0  # after which a connection is probed, and given up
LOCK_TIMEOUT = "3s"

# What every session of ours needs. A process that is frozen or cut off in a transaction must not
# keep its locks, and all conditions rest on a waiting UPDATE being evaluated again on the newest
# row. Behind a pooler a session is not ours: there the role has these settings.
ISOLATION = "default_transaction_isolation"
ROLE_SETTINGS = {
    ISOLATION: "read committed",
    "idle_in_transaction_session_timeout": "10s",
    "lock_timeout": LOCK_TIMEOUT,
}
_LOCAL = ("idle_in_transaction_session_timeout", "lock_timeout")  # also of each transaction
_SESSION = ROLE_SETTINGS | {
    "tcp_keepalives_idle": f"{QUIET_S:.0f}",
    "tcp_keepalives_interval": "3",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": f"{LOST_S * 1000:.0f}",
}

# What a call on a connection raises if the database can't be used, as opposed to our own mistakes.
BROKEN = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # of a connection that was closed while it was used
    OSError,
    TimeoutError,
    EOFError,
)
FULL = asyncpg.TooManyConnectionsError  # the database, or the role, has no connection left

# Connections that are left for those who are no superusers.
FREE = (
    "SELECT current_setting('max_connections')::int "
    "- current_setting('superuser_reserved_connections')::int "
    "- coalesce(current_setting('reserved_connections', true)::int, 0) - count(*)::int "
    "FROM pg_stat_activity WHERE backend_type = 'client backend'"
)

# Whatever is tried, it is the content: class 22 (data), 23 (constraints), 54 (limits).
_CONTENT = ("22", "23", "54")


async def connect(
    options: PostgresOptions,
    *,
    dsn: str = "",
    settings: dict[str, str] | None = None,
    pooled: bool = False,
) -> Any:
    """Return a new connection. Behind a pooler a session is not ours: it gets no settings, and no
    statement is prepared in it.

    The settings are start-up parameters: a RESET does not undo them.
    """
    db = await asyncpg.connect(
        dsn or options.dsn,
        timeout=CONNECT_S,
        statement_cache_size=0 if pooled else 100,
        server_settings=None if pooled else _SESSION | (settings or {}),
    )
    sock = db._transport.get_extra_info("socket")  # asyncpg has no public way to its socket
    if sock.family != getattr(socket, "AF_UNIX", None):
        notice_loss(sock, QUIET_S, LOST_S)
    return db


async def open_session(options: PostgresOptions) -> Any:
    """Return a connection for another room, which closes it."""
    return await connect(options, pooled=await is_pooled(options))


async def is_pooled(options: PostgresOptions) -> bool:
    """Whether a pooler stands between us and the database: then the process that answers is not the
    one that greeted us.
    """
    if options.is_pooled is not None:
        return options.is_pooled
    db = await connect(options, pooled=True)
    try:
        return bool(await db.fetchval("SELECT pg_backend_pid()") != db.get_server_pid())
    finally:
        await close(db)


@contextlib.asynccontextmanager
async def transaction(db: Any, **more: str) -> AsyncIterator[None]:
    """A transaction with settings of its own, which hold behind a pooler too. They come with its
    BEGIN: there is no moment without them.
    """
    settings = {name: ROLE_SETTINGS[name] for name in _LOCAL} | more
    local = "".join(f"; SET LOCAL {name} = '{value}'" for name, value in settings.items())
    try:
        await db.execute(f"BEGIN ISOLATION LEVEL READ COMMITTED{local}")
        yield
        await db.execute("COMMIT")
    except asyncio.CancelledError:  # a ROLLBACK would wait for a session that does not answer
        kill(db)
        raise
    except BaseException:
        if not db.is_closed():
            try:
                await db.execute("ROLLBACK")
            except BROKEN:
                kill(db)
        raise


async def missing_settings(db: Any) -> list[str]:
    """Return the statements that give the role of a connection the settings it lacks. Asked of what
    a session begins with: others who use the same pooler may have changed this one.
    """
    rows = await db.fetch(
        "SELECT name, reset_val, quote_ident(current_user) FROM pg_settings "
        "WHERE name = ANY ($1::text[]) ORDER BY name",
        list(ROLE_SETTINGS),
    )
    return [
        f"ALTER ROLE {role} SET {name} = '{ROLE_SETTINGS[name]}'"
        for name, value, role in rows
        if value in ("", "0") or (name == ISOLATION and value != ROLE_SETTINGS[ISOLATION])
    ]


def kill(db: Any) -> None:
    """Close the socket, and nothing else. A request to cancel would have a COMMIT that waits for a
    synchronous standby report success before it is there.
    """
    with contextlib.suppress(Exception):
        db.terminate()


async def close(db: Any) -> None:
    """Close a connection in good order, or at least close it."""
    try:
        await db.close(timeout=1)
    except BROKEN:
        kill(db)


async def uncancelled(db: Any, work: Awaitable[T], patience_s: float) -> T:
    """Await a query; if it takes too long, or we are cancelled, close its connection.

    Raises:
        TimeoutError: It took too long. What became of it is not known.
    """
    doing = asyncio.ensure_future(work)
    # If we are cancelled, or give up, nobody waits for its outcome any more.
    doing.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        done, _ = await asyncio.wait({doing}, timeout=patience_s)
    except BaseException:
        kill(db)
        await asyncio.wait({doing}, timeout=1)
        raise
    if not done:
        kill(db)
        await asyncio.wait({doing}, timeout=1)
        if not doing.done() or doing.cancelled() or doing.exception() is not None:
            raise TimeoutError(f"the database did not answer within {patience_s:.0f} s")
    return doing.result()


def is_content(error: BaseException) -> bool:
    """Whether something in what was sent can't be stored, now or later."""
    if isinstance(error, asyncpg.PostgresError):
        return str(error.sqlstate)[:2] in _CONTENT
    if isinstance(error, NumberTaken):
        return True
    # asyncpg's own: a value that does not fit its column
    return isinstance(error, asyncpg.InterfaceError | UnicodeError | OverflowError) and isinstance(
        error, ValueError | OverflowError
    )


def commit_failed(options: PostgresOptions, error: BaseException) -> CommitFailed:
    """The error of the store's contract for one of the database."""
    summary = ""
    if isinstance(error, FULL):
        summary = "the database has no connection left"
    elif isinstance(error, OSError):  # TimeoutError is one
        summary = "the database does not answer"
    return CommitFailed(reason(options, error), summary)


def reason(options: PostgresOptions, error: BaseException) -> str:
    """An error as an operator wants to read it."""
    text = str(error).strip() or type(error).__name__
    if isinstance(error, asyncpg.ProtocolViolationError) and "startup parameter" in text:
        text += " (a pooler says so; leave out pooler=, or say pooler=on)"
    return f"{options.place}: {text}"


@contextlib.asynccontextmanager
async def connected(
    options: PostgresOptions, make: Callable[..., Awaitable[Any]] = connect, **how: Any
) -> AsyncIterator[Any]:
    """A connection for a while."""
    db = await make(options, **how)
    try:
        yield db
    finally:
        await close(db)
