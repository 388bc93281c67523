"""A collector: takes spans by OTLP over HTTP, as protobuf, and keeps them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status
from opentelemetry.sdk.trace import TracerProvider


class Span(NamedTuple):
    """A span, as the collector got it."""

    service: str
    name: str
    kind: str
    trace: str
    id: str
    parent: str
    attributes: dict[str, Any]
    is_error: bool
    started_ns: int
    ended_ns: int


class Collector:
    def __init__(self) -> None:
        self.url = ""
        self.provider: TracerProvider | None = None  # of this process, if it traces
        self._spans: list[Span] = []
        self._changed = threading.Condition()

    @property
    def spans(self) -> list[Span]:
        with self._changed:
            return list(self._spans)

    def add(self, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        with self._changed:
            for of in request.resource_spans:
                names = {one.key: one.value.string_value for one in of.resource.attributes}
                for scope in of.scope_spans:
                    self._spans += [_span(names["service.name"], one) for one in scope.spans]
            self._changed.notify_all()

    def wait(self, count: int, timeout_s: float = 60.0) -> list[Span]:
        """Return the spans, once there are so many."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._spans) >= count, timeout_s)
            return list(self._spans)


def _span(service: str, span: ProtoSpan) -> Span:
    return Span(
        service,
        span.name,
        ProtoSpan.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        {one.key: _value(one.value) for one in span.attributes},
        span.status.code == Status.STATUS_CODE_ERROR,
        span.start_time_unix_nano,
        span.end_time_unix_nano,
    )


def _value(value: Any) -> Any:
    return getattr(value, value.WhichOneof("value"))


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            assert self.headers["Content-Type"] == "application/x-protobuf"
            collector.add(self.rfile.read(int(self.headers["Content-Length"])))
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    collector.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def tree(spans: list[Span], *, has_bindings: bool = False) -> list[str]:
    """The spans of one trace, each below its parent and indented, in the order they began; of
    requests also the binding and version of the protocol, if that is wanted.
    """
    ids = {span.id for span in spans}
    below: dict[str, list[Span]] = {}
    for span in sorted(spans, key=lambda one: one.started_ns):
        below.setdefault(span.parent if span.parent in ids else "", []).append(span)

    def lines(parent: str, depth: int) -> list[str]:
        found: list[str] = []
        for span in below.get(parent, []):
            line = f"{'  ' * depth}{span.service}: {span.name} {span.kind}"
            if has_bindings and span.kind == "SERVER":
                over = [span.attributes[f"a2a.protocol.{what}"] for what in ("binding", "version")]
                line += f" {' '.join(over)}"
            found.append(line)
            found += lines(span.id, depth + 1)
        return found

    return lines("", 0)
