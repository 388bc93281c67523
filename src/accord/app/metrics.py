"""The metrics of a served agent: tasks, streams, leases, the store, the loop."""

import asyncio
import time
from collections import Counter
from typing import TYPE_CHECKING

from ..engine.log import state_of
from ..engine.runs import Engine
from ..model import A2AError, Limits, whole_number
from ..observe import Gauge, new_metrics
from ..push import Notifier
from ..server import HttpRequest, HttpResponse
from ..store import CommitFailed

if TYPE_CHECKING:
    from ..observe import Metrics
    from ..server.http1 import HttpServer

__all__ = ["LoopLag", "MetricsPage", "MetricsServer", "listen_address"]

STATS_S = 60.0  # how long sizes of the store are cached: counting them costs something
BEAT_S = 0.25


def listen_address(given: int | str) -> tuple[str, int]:
    """Return host and port of `9464` or `HOST:9464`; loopback, if it names no host.

    Raises:
        ValueError: It is neither.
    """
    host, _, text = str(given).rpartition(":")
    port = whole_number(text, 65535)
    if port is None:
        raise ValueError(f"metrics are served on a PORT or HOST:PORT, not {given!r}")
    return host.strip("[]") or "127.0.0.1", port


class LoopLag:
    """Measures how late the event loop is, four times a second."""

    def __init__(self) -> None:
        self._worst_s = 0.0
        self._due_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._due_s = loop.time() + BEAT_S
        self._timer = loop.call_at(self._due_s, self._beat, loop)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        self._worst_s = max(self._worst_s, loop.time() - self._due_s)
        self.start()

    def worst(self) -> float:
        """Return the longest delay since this was last asked."""
        worst_s, self._worst_s = self._worst_s, 0.0
        return worst_s


class MetricsServer:
    """Serves the metrics of one app on a port of their own, while the app is open.

    Args:
        at: A port, or `HOST:PORT`.

    Raises:
        ValueError: It is neither.
        RuntimeError: prometheus-client is not installed.
    """

    trouble = ""  # an app works without its metrics

    def __init__(
        self, at: int | str, engine: Engine, notifier: Notifier | None, limits: Limits
    ) -> None:
        self._host, self._port = listen_address(at)
        self._limits = limits
        self.metrics = new_metrics()
        self._lag = LoopLag()
        self.page = MetricsPage(self.metrics, engine, notifier, self._lag)
        self._server: HttpServer | None = None

    def move_port(self, number: int) -> None:
        """Use a port that is so much higher, unless any port will do."""
        self._port += number if self._port else 0

    @property
    def url(self) -> str:
        """Return the address of the page; empty until it is served."""
        return f"{self._server.url}/metrics" if self._server is not None else ""

    async def open(self) -> None:
        from ..server.http1 import HttpServer  # an app that is served elsewhere needs none

        self._server = HttpServer(self.page, self._host, self._port, self._limits)
        try:
            await self._server.start()
        except OSError as error:
            raise RuntimeError(
                f"metrics can't be served on {self._host}:{self._port}: {error.strerror}"
            ) from error
        self._lag.start()

    async def drain(self) -> None:
        """Do nothing: how the app stops is of interest too."""

    async def settle(self) -> None:
        """Do nothing: nothing is stored."""

    async def close(self) -> None:
        self._lag.stop()
        if self._server is not None:
            await self._server.stop()


class MetricsPage:
    """Answers scrapes of one agent. Any path but /metrics is not there."""

    def __init__(
        self, metrics: "Metrics", engine: Engine, notifier: Notifier | None, lag: LoopLag
    ) -> None:
        self._metrics = metrics
        self._engine = engine
        self._notifier = notifier
        self._lag = lag
        self._stats: list[Gauge] = []
        self._stats_s = 0.0

    async def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.target.path != "/metrics":
            return HttpResponse(404, b"metrics are at /metrics\n", b"text/plain")
        if request.target.verb not in ("GET", "HEAD"):
            return HttpResponse(405, headers=((b"allow", b"GET, HEAD"),))
        accept = request.headers.get(b"accept", b"").decode("latin-1")
        body, content_type = self._metrics.page(accept, await self.gauges())
        return HttpResponse(200, body, content_type.encode())

    async def gauges(self) -> list[Gauge]:
        """Return what is so now."""
        tasks, store = self._engine.tasks, self._engine.tasks.store
        live = Counter(
            (log.namespace.agent, log.skill, log.state.word) for log in tasks.directory.live()
        )
        found = [
            Gauge(
                "accord_tasks",
                "Tasks that this process has at hand: worked on, waited for or watched.",
                ("agent", "skill", "state"),
                {key: float(count) for key, count in live.items()},
            ),
            _one(
                "accord_runs_working",
                "Runs of skills that work now; those that wait for a client do not count.",
                len(tasks.working),
            ),
            _one(
                "accord_streams",
                "Streams and blocking sends that wait for something of a task.",
                tasks.views.open,
            ),
            _one("accord_ready", "1 if new work is taken.", not tasks.trouble),
            _one(
                "accord_lease_valid",
                "1 if no other process can have taken this one for dead.",
                store.is_sure,
            ),
            _one(
                "accord_leases",
                "Open tasks that this process owns.",
                sum(log.slot.is_owned for log in tasks.directory.live()),
            ),
            _one(
                "accord_store_outage_seconds",
                "How long the store has been failing; 0 while it works.",
                tasks.writer.outage_s,
            ),
            _one(
                "accord_loop_lag_seconds",
                "The longest delay of the event loop since the last scrape.",
                self._lag.worst(),
            ),
        ]
        if self._notifier is not None:
            found.append(await self._push_lag(self._notifier))
        return [*found, *await self._stored()]

    async def _push_lag(self, notifier: Notifier) -> Gauge:
        try:
            next_ms = await notifier.webhooks.store.next_ms(self._engine.runs.agents)
        except (A2AError, CommitFailed):  # a store that fails has a gauge of its own
            next_ms = None
        late_ms = max(self._engine.tasks.store.now_ms() - next_ms, 0) if next_ms is not None else 0
        return _one(
            "accord_push_lag_seconds",
            "How long the oldest push notification that is due has been waiting.",
            late_ms / 1000,
        )

    async def _stored(self) -> list[Gauge]:
        """Return what the store holds, counted once a minute."""
        now_s = time.monotonic()
        if self._stats and now_s - self._stats_s < STATS_S:
            return self._stats
        try:
            stats = await self._engine.tasks.store.stats()
        except (A2AError, CommitFailed):
            return self._stats
        self._stats_s = now_s
        self._stats = [
            Gauge(
                "accord_stored_tasks",
                "Tasks in the store, of all processes and agents that use it.",
                ("state",),
                {(state_of(state).word,): float(n) for state, n in stats.tasks.items()},
            ),
            _one("accord_stored_events", "Rows of the tasks' logs.", stats.events),
            _one("accord_store_size_bytes", "Size of the store on its disk.", stats.size),
        ]
        return self._stats


def _one(name: str, help: str, value: float) -> Gauge:
    return Gauge(name, help, (), {(): float(value)})
