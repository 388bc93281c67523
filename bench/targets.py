"""What the project set out to reach, as a table, and whether a run reached it."""

from collections.abc import Callable
from typing import NamedTuple

from .results import Install, Results

__all__ = ["TARGETS", "Target", "Verdict"]


class Verdict(NamedTuple):
    """What was measured, as text, and whether it is enough; None if it was not measured."""

    found: str
    is_reached: bool | None


NOT_MEASURED = Verdict("not measured", None)


class Target(NamedTuple):
    """A promise and how to look at it."""

    text: str
    judge: Callable[[Results], Verdict]


def _times(row: str, title: str, memory: float, sqlite: float | None = None) -> list[Target]:
    """At least so many times cheaper than a2a-sdk in memory."""
    found = [Target(f"{title}: at least {memory:g}x on memory", _ratio(row, "memory", memory))]
    if sqlite is not None:
        found.append(
            Target(f"{title}: at least {sqlite:g}x on sqlite", _ratio(row, "sqlite", sqlite))
        )
    return found


def _ratio(row: str, column: str, least: float) -> Callable[[Results], Verdict]:
    def judge(results: Results) -> Verdict:
        ratio = results.ratio(row, column)
        return (
            NOT_MEASURED
            if ratio is None
            else Verdict(f"{ratio.median:.1f}x", ratio.median >= least)
        )

    return judge


def _at_most(row: str, column: str, most: float, unit: str) -> Callable[[Results], Verdict]:
    def judge(results: Results) -> Verdict:
        cost = results.cost(row, column)
        return NOT_MEASURED if cost is None else Verdict(f"{cost:.3g} {unit}", cost <= most)

    return judge


def _near_raw(row: str, most: float) -> Callable[[Results], Verdict]:
    def judge(results: Results) -> Verdict:
        ours, raw = results.cost(row, "memory"), results.cost(row, "raw")
        if ours is None or raw is None:
            return NOT_MEASURED
        return Verdict(f"{ours / raw:.2f} times", ours <= most * raw)

    return judge


def _four_replicas(results: Results) -> Verdict:
    one, four = results.cost("replicas", "1 replica"), results.cost("replicas", "4 replicas")
    if one is None or four is None:
        return NOT_MEASURED
    return Verdict(f"{four / one:.2f} times one", four <= 1.15 * one)


def _flat(results: Results) -> Verdict:
    few, many = results.cost("list10k", "memory"), results.cost("list100k", "memory")
    if few is None or many is None:
        return NOT_MEASURED
    return Verdict(f"{many / few:.2f} times the cost at 10,000", many <= 1.5 * few)


def _installed(judge: Callable[[Install], Verdict]) -> Callable[[Results], Verdict]:
    return lambda results: (
        judge(results.install["accord"]) if "accord" in results.install else NOT_MEASURED
    )


def _authenticated(row: str) -> Callable[[Results], Verdict]:
    return _at_most(row, "memory", 1.15, "times")


TARGETS: tuple[Target, ...] = (
    *_times("send1", "send, 1 connection", 13, 6),
    *_times("send32", "send, 32 connections", 30, 26),
    *_times("send128", "send, 128 connections", 40, 36),
    *_times("stream32", "echo by stream", 25, 20),
    *_times("get32", "get", 12, 7),
    *_times("chunks", "stream of chunks, 16 streams", 32, 32),
    *_times("chunks1000", "stream of 1,000 chunks", 32, 32),
    *_times("fanout", "fan-out", 12),
    *_times("list10k", "list of 10,000", 140, 100),
    Target("list is flat to 100,000 (at most 1.5 times the cost at 10,000)", _flat),
    Target(
        "durable skill of two steps: at most 1.4 times a plain one, on sqlite",
        _at_most("durabletimes", "sqlite", 1.4, "times"),
    ),
    Target(
        "webhook: a send with one costs at most 3 times one without",
        _at_most("pushecho", "sqlite", 3, "times"),
    ),
    *(
        Target(
            f"replicas: a send on {column} costs at most 510 µs, with the database",
            _at_most("replicas", column, 510, "µs"),
        )
        for column in ("1 replica", "2 replicas", "4 replicas")
    ),
    Target("replicas: a send costs four what it costs one (at most 1.15 times)", _four_replicas),
    Target("send with an API key: at most 1.15 times one without", _authenticated("authkey")),
    Target("send with a JWT: at most 1.15 times one without", _authenticated("authjwt")),
    Target(
        "send with telemetry off: at most 1.02 times one without its code",
        _at_most("unobserved", "memory", 1.02, "times"),
    ),
    Target(
        "send with traces that are sampled out: at most 1.1 times one without",
        _at_most("tracing", "memory", 1.1, "times"),
    ),
    *_times("file", "message with a 1 MiB file", 7),
    *_times("filebare", "message with a 1 MiB file, no history in the answer", 5),
    Target(
        "a file of 80 MiB, in and out: at most 9 times one of 10 MiB",
        _at_most("file80", "memory", 9.0, "times"),
    ),
    Target(
        "hub: a send on 1 connection: at most 2.5 times the agent's own",
        _at_most("hubsend1", "hub", 2.5, "times"),
    ),
    Target(
        "hub: a send on 32 connections: at most 2.5 times the agent's own",
        _at_most("hubsend32", "hub", 2.5, "times"),
    ),
    Target(
        "hub: an event: at most twice the agent's own",
        _at_most("hubchunks", "hub", 2, "times"),
    ),
    Target("hub: an idle stream: at most 24 KiB", _at_most("hubmemory", "hub", 24, "KiB")),
    *_times("followup", "follow-up", 20),
    *_times("grpcsend", "gRPC send", 7.9),  # of the JavaScript SDK, measured in the same way
    *_times("grpcget", "gRPC get", 3.4),
    *_times("grpcstream", "gRPC echo by stream", 5),
    *_times("grpcchunks", "gRPC stream of chunks", 5),
    Target("gRPC send: at most twice a bare grpc.aio server", _near_raw("grpcsend", 2)),
    Target("gRPC get: at most twice a bare grpc.aio server", _near_raw("grpcget", 2)),
    Target("gRPC echo by stream: at most twice a bare grpc.aio server", _near_raw("grpcstream", 2)),
    Target(
        "gRPC stream of chunks: at most twice a bare grpc.aio server", _near_raw("grpcchunks", 2)
    ),
    *_times("clientsend", "client's send", 4),
    *_times("clientevent", "client's event of a stream", 5),
    Target("idle stream: at most 16 KiB", _at_most("streammemory", "memory", 16, "KiB")),
    Target("import: at most 0.15 s", _at_most("import", "memory", 0.15, "s")),
    Target("card served: at most 0.4 s after start", _at_most("start", "memory", 0.4, "s")),
    Target(
        "default install: at most 22 packages",
        _installed(lambda i: Verdict(f"{i.packages}", i.packages <= 22)),
    ),
    Target(
        "default install: at most 45 MB",
        _installed(lambda i: Verdict(f"{i.mb:.0f} MB", i.mb <= 45)),
    ),
)
