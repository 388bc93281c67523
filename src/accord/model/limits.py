"""The limits of what one caller may ask of a server, and of what one task may hold. Every limit is
a setting; these are the defaults.
"""

import msgspec

__all__ = ["Limits"]


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a server. A request beyond one is refused early, with an error that names it.

    Sizes are bytes, times seconds.
    """

    body: int = 4 << 20  # of a request
    json_depth: int = 64
    json_members: int = 10_000
    json_digits: int = 64  # of one number
    parts: int = 1_000  # of a message
    id_length: int = 256
    metadata: int = 256 << 10
    history: int = 10_000  # messages of a task
    artifacts: int = 10_000  # of a task
    task_size: int = 32 << 20
    state_size: int = 1 << 20  # of what an agent remembers of one conversation, as JSON
    # Of tasks in a list: a page ends before there is more, though never without a task.
    page: int = 8 << 20
    waiting_messages: int = 32  # for the next turn of one task
    # worked on at once; what waits for its client is not, and its answer is taken beyond the limit
    tasks: int = 20_000
    push_configs_per_task: int = 10
    push_configs_per_caller: int = 1_000  # on tasks that have not ended; not for anonymous callers
    streams_per_task: int = 1_000
    streams_per_caller: int = 1_000  # not counted for anonymous callers, who are all one
    streams: int = 10_000  # of this process
    file_size: int = 1 << 30  # of one file that is uploaded, or made by an agent
    inline: int = 256 << 10  # of a file that is sent as bytes in an answer; larger ones by address
    # The next seven count only where callers are authenticated.
    calls_per_s: float = 100.0  # of one caller
    calls_burst: int = 200  # of one caller at once
    tasks_per_caller: int = 1_000  # worked on at once
    stored_per_caller: int = 1 << 30  # of tasks that are kept
    files_per_caller: int = 10 << 30  # bytes of files that are kept
    uploads_per_caller: int = 16  # files that are not finished
    failed_logins: int = 10  # per minute, from one address; of passwords also for one user
    header_bytes: int = 32 << 10
    header_s: float = 10.0  # from the first byte, or the connection, to the end of the headers
    body_idle_s: float = 10.0
    keep_alive_s: int = 60
    keep_alive_comment_s: float = 15.0  # on an idle stream
    stalled_s: float = 30.0  # a reader that takes nothing
    # Of answers that wait for their clients to read them, on all connections.
    unread: int = 128 << 20
    unread_per_connection: int = 32 << 20
