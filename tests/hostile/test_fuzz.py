"""Tens of thousands of hostile requests into the real app (promise F1).

Each is built from the protocol's own words and bent somewhere: values of other types, twins, missing and strange members,
broken text, odd paths, queries, cursors, tokens and headers. Whatever comes in, the app answers, in time, and never with an
internal error: that would be our fault, not the caller's.
"""

import asyncio
import gc
import json
import random
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from accord import Agent, Context, Message
from accord.model import Limits
from tests.reliability.harness import report, size

PER_EXAMPLE = size(100, 1_000)
PATIENCE_S = 5.0
GROWTH = 50 << 20

METHODS = [
    "SendMessage",
    "SendStreamingMessage",
    "GetTask",
    "ListTasks",
    "CancelTask",
    "SubscribeToTask",
    "CreateTaskPushNotificationConfig",
    "GetTaskPushNotificationConfig",
    "ListTaskPushNotificationConfigs",
    "DeleteTaskPushNotificationConfig",
    "GetExtendedAgentCard",
    "message/send",
    "message/stream",
    "tasks/get",
    "tasks/cancel",
    "tasks/resubscribe",
    "tasks/pushNotificationConfig/set",
    "tasks/send",
    "tasks/sendSubscribe",
    "agent/getAuthenticatedExtendedCard",
    "rpc.discover",
    "",
    "__class__",
]
NAMES = [
    *("message", "messageId", "message_id", "role", "parts", "text", "raw", "url", "data", "file", "kind", "type", "metadata"),
    *("contextId", "taskId", "task_id", "extensions", "referenceTaskIds", "filename", "mediaType", "configuration", "bytes"),
    *("historyLength", "returnImmediately", "blocking", "acceptedOutputModes", "taskPushNotificationConfig", "tenant", "id"),
    *(
        "pageSize",
        "pageToken",
        "status",
        "statusTimestampAfter",
        "includeArtifacts",
        "skill",
        "name",
        "sessionId",
        "uri",
        "",
        "\x00",
    ),
]
WORDS = [
    *("", "x", "m-1", "ROLE_USER", "ROLE_AGENT", "ROLE_UNSPECIFIED", "user", "text", "message", "TASK_STATE_WORKING", "working"),
    *(
        "KNOWN",
        "nobody",
        "a/b",
        "..",
        "%2e%2e",
        "\x00",
        "a\nb",
        "\u202e",
        "\ud83d\ude00",
        "é" * 300,
        "x" * 5_000,
        "YWJj",
        "YWJj=",
        "!",
    ),
    *("2026-01-01T00:00:00Z", "2026-13-45T99:99:99Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59Z", "true", "-1", "1.0"),
    *("MTIuMw", "MTIuMw==", "LjEu", "OTk5OTk5OTk5OTk5OTk5OTk5OTk5LjE", "http://localhost", "application/json", "text/plain"),
]
NUMBERS = [0, 1, -1, 2, 3, 50, 100, 101, 2**31 - 1, 2**31, 2**53, 2**63, 2**64, 10**30, -(2**63), 0.5, 1.0, 1e300, -0.0]

leaf = st.one_of(st.sampled_from(WORDS), st.sampled_from(NUMBERS), st.booleans(), st.none(), st.text(max_size=8), st.integers())
names = st.one_of(st.sampled_from(NAMES), st.text(max_size=6))
value = st.recursive(
    leaf, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(names, inner, max_size=4)), max_leaves=8
)


def mostly(right, wrong=value):
    """Right often enough that what lies behind is reached too."""
    return st.one_of(right, right, right, wrong)


text_part = st.fixed_dictionaries(
    {"text": mostly(st.sampled_from(WORDS))}, optional={"metadata": value, "kind": value, "mediaType": value}
)
part = st.one_of(
    text_part,
    text_part,
    st.fixed_dictionaries({"data": value}),
    st.fixed_dictionaries({"raw": mostly(st.sampled_from(WORDS))}, optional={"filename": value}),
    st.fixed_dictionaries(
        {"kind": st.sampled_from(["text", "file", "data"])}, optional={"text": value, "file": value, "data": value}
    ),
    value,
)
message = st.fixed_dictionaries(
    {
        "messageId": mostly(st.just("m-1")),
        "role": mostly(st.sampled_from(["ROLE_USER", "user"])),
        "parts": mostly(st.lists(part, max_size=3)),
    },
    optional={
        "contextId": value,
        "taskId": mostly(st.sampled_from(["KNOWN", "nobody"])),
        "metadata": mostly(st.dictionaries(names, value, max_size=2)),
        "extensions": value,
        "referenceTaskIds": value,
        "kind": value,
        "zzz": value,
    },
)
params = st.one_of(
    st.fixed_dictionaries(
        {"message": mostly(message)},
        optional={
            "configuration": mostly(st.dictionaries(names, value, max_size=3)),
            "metadata": value,
            "tenant": leaf,
            "id": leaf,
        },
    ),
    st.dictionaries(st.sampled_from(NAMES), value, max_size=5),
    st.fixed_dictionaries(
        {"id": mostly(st.sampled_from(["KNOWN", "nobody"]), leaf)}, optional={"historyLength": leaf, "tenant": leaf}
    ),
    st.fixed_dictionaries({"pageToken": leaf}, optional={"pageSize": leaf, "status": leaf, "statusTimestampAfter": leaf}),
    value,
)
envelope = st.fixed_dictionaries(
    {
        "jsonrpc": mostly(st.just("2.0")),
        "id": mostly(st.integers()),
        "method": mostly(st.sampled_from(METHODS)),
        "params": mostly(params),
    },
    optional={"zzz": value, "Method": value},
)
# How the finished text is broken.
bend = st.one_of(
    st.just(lambda raw: raw),
    st.just(lambda raw: raw),
    st.just(lambda raw: raw),
    st.integers(0, 400).map(lambda at: lambda raw: raw[:at]),
    st.tuples(st.integers(0, 400), st.binary(min_size=1, max_size=4)).map(
        lambda bad: lambda raw: raw[: bad[0]] + bad[1] + raw[bad[0] :]
    ),
    st.tuples(st.integers(0, 400), st.integers(0, 255)).map(
        lambda bad: lambda raw: raw[: bad[0]] + bytes([bad[1]]) + raw[bad[0] + 1 :]
    ),
    st.sampled_from([b"NaN", b"1e400", b'"\\ud800"', b"[" * 200, b"9" * 70, b'{"a":1,"a":2}', b'"\xff"', b"nul"]).map(
        lambda bad: lambda raw: raw.replace(b'"x"', bad).replace(b"null", bad)
    ),
)
SEGMENTS = """
    tasks task message message:send message:stream KNOWN KNOWN:cancel KNOWN:subscribe nobody acme v1 card extendedAgentCard
    pushNotificationConfigs %00 %ff %2F %zz %F0%9F%98%80 .. : :cancel
"""
segment = st.sampled_from(["", "a" * 3_000, *SEGMENTS.split()])
path = st.lists(segment, max_size=5).map(lambda segments: "/" + "/".join(segments))
query = st.lists(
    st.tuples(names, st.sampled_from([str(word) for word in (*WORDS, *NUMBERS)])).map(lambda pair: "=".join(pair)), max_size=4
).map(lambda pairs: "&".join(pairs).encode("utf-8", "replace"))
header_values = st.one_of(
    st.sampled_from(
        [b"1.0", b"0.3", b"0.2", b"0.1", b"9.9", b"", b"1", b"1.0.0.0", b"\xff", b"0", b"1", b"99999999999999999999", b"-1", b"x"]
    ),
    st.sampled_from(
        [b"urn:accord:resume:1", b"urn:accord:idempotent:1, urn:accord:resume:1", b",,,", b"application/json", b"text/html", b"*/*"]
    ),
    st.binary(max_size=20),
)
HEADERS = b"""
    a2a-version a2a-extensions x-a2a-extensions last-event-id idempotency-key accept content-length content-type
    host if-none-match x-forwarded-host traceparent authorization origin cookie
"""
headers = st.lists(
    st.tuples(
        st.sampled_from(HEADERS.split()),
        header_values,
    ),
    max_size=3,
)


def to_bytes(thing):
    """JSON as Python writes it: NaN, lone surrogates and all."""
    return json.dumps(thing).encode("utf-8", "surrogatepass")


# One example is a handful of each kind of piece, put together in many ways: a request costs less than a draw.
pieces = st.fixed_dictionaries(
    {
        "envelopes": st.lists(envelope, min_size=3, max_size=5),
        "params": st.lists(params, min_size=3, max_size=5),
        "paths": st.lists(path, min_size=2, max_size=4),
        "queries": st.lists(query, min_size=2, max_size=4),
        "headers": st.lists(headers, min_size=2, max_size=4),
        "bends": st.lists(bend, min_size=2, max_size=4),
        "seed": st.integers(0, 2**32),
    }
)
PATHS = [
    "/message:send",
    "/message:stream",
    "/tasks",
    "/tasks/KNOWN",
    "/tasks/KNOWN:subscribe",
    "/tasks/KNOWN:cancel",
    "/v1/message:send",
]
VERBS = ["POST", "POST", "POST", "GET", "GET", "DELETE", "PUT", "HEAD", "OPTIONS"]


def requests(drawn):
    """Put pieces together, to requests of both bindings."""
    rng = random.Random(drawn["seed"])
    for i in range(PER_EXAMPLE):
        beside = rng.choice([[], *drawn["headers"]])
        bent = rng.choice([lambda raw: raw, *drawn["bends"]])
        if i % 2:
            body = rng.choice([*drawn["envelopes"], *drawn["params"]])
            if isinstance(body, dict) and "jsonrpc" not in body:
                body = {"jsonrpc": "2.0", "id": 1, "method": rng.choice(METHODS), "params": body}
            yield "POST", "/", b"", beside, to_bytes(body), bent
        else:
            where = rng.choice([*PATHS, *drawn["paths"]])
            yield rng.choice(VERBS), where, rng.choice(drawn["queries"]), beside, to_bytes(rng.choice(drawn["params"])), bent


class App:
    """The app in this process, called as a server calls it. Some tasks wait for an answer for ever."""

    def __init__(self, store):
        agent = Agent("Target")

        @agent.skill
        async def take(request: Message, ctx: Context):
            """Answer some and ask others."""
            if len(request.parts) == 2:
                return await ctx.ask("well?", int)
            return request.parts

        self.app = agent.app(store=store, limits=Limits(keep_alive_comment_s=0.01, tasks=100_000))
        self.count = 0
        self.statuses = {}

    async def start(self):
        await self.app.open()
        made = await self.call(
            "POST", "/message:send", b"", [], to_bytes({"message": {"messageId": "m", "role": 1, "parts": [{}, {}]}})
        )
        assert made[0] == 400
        parts = [{"text": "a"}, {"text": "b"}]
        _, body = await self.call(
            "POST", "/message:send", b"", [], to_bytes({"message": {"messageId": "m", "role": 1, "parts": parts}})
        )
        self.known = json.loads(body)["task"]["id"].encode()

    async def attack(self, verb, path, query, headers, body, bend):
        path = path.replace("KNOWN", self.known.decode())
        body = bend(body.replace(b"KNOWN", self.known))
        status, answer = await self.call(verb, path, query.replace(b"KNOWN", self.known), headers, body)
        self.count += 1
        self.statuses[status] = self.statuses.get(status, 0) + 1
        request = (verb, path, query, headers, body)
        assert status < 500 or status == 501, (request, answer)  # 501 is how 0.3 says "not supported" over HTTP
        assert b"-32603" not in answer, (request, answer)
        assert b"Reference:" not in answer, (request, answer)

    async def call(self, verb, path, query, headers, body):
        """One request; a client that hangs up once it has the beginning of a stream."""
        named = dict([(b"content-type", b"application/json"), (b"a2a-version", b"1.0"), *headers])
        scope = {
            "type": "http",
            "method": verb,
            "path": path,
            "raw_path": path.encode("ascii", "replace"),
            "query_string": query,
            "headers": list(named.items()),
        }
        events = iter([{"type": "http.request", "body": body, "more_body": False}])
        pieces, status = [], 0
        has_begun = asyncio.Event()

        async def receive():
            event = next(events, None)
            if event is None:
                await has_begun.wait()
                return {"type": "http.disconnect"}
            return event

        async def send(event):
            nonlocal status
            status = event.get("status", status)
            pieces.append(event.get("body", b""))
            if pieces[-1]:
                has_begun.set()
                if len(pieces) > 40:
                    raise ConnectionError("gone")  # what a server raises when the client is

        try:
            async with asyncio.timeout(PATIENCE_S):
                await self.app(scope, receive, send)
        except ConnectionError:
            pass
        except TimeoutError:
            raise AssertionError(f"no answer within {PATIENCE_S} s: {(verb, path, query, headers, body)}") from None
        return status, b"".join(pieces)


def memory():
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def test_nothing_hostile_gets_more_than_a_refusal(lasting):
    """Never an exit, a hang, an internal error for malformed input, or memory that grows with it."""
    wanted = size(20_000, 200_000)
    loop = asyncio.new_event_loop()
    target = App(lasting)
    loop.run_until_complete(target.start())
    before = []

    @settings(
        max_examples=wanted // PER_EXAMPLE,
        deadline=None,
        database=None,
        derandomize=not size(0, 1),
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(pieces)
    def fuzz(drawn):
        for request in requests(drawn):
            loop.run_until_complete(target.attack(*request))
        if not before and target.count > wanted / 4:
            before.append(memory())  # by then caches and strategies are as large as they get

    try:
        fuzz()
        grown = memory() - before[0]
        report("F1", inputs=target.count, statuses=dict(sorted(target.statuses.items())), grown_by_MB=round(grown / 1e6, 1))
        assert target.count >= wanted
        assert grown < GROWTH
    finally:
        loop.run_until_complete(target.app.close())
        loop.close()
