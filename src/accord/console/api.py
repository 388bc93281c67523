"""What the page reads: the agent, the tasks of everyone, their logs, and what happens now."""

import asyncio
import copy
import re
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs, quote, unquote

import msgspec

from ..app import App
from ..auth import Caller
from ..engine.log import (
    ArtifactChanged,
    Created,
    Ids,
    MessageAdded,
    Noted,
    Numbered,
    StatusChanged,
    StepEnded,
    entries_of,
    events_of,
    state_of,
)
from ..engine.log import Event as LogEvent
from ..files import MARK, Address
from ..model import (
    ArtifactUpdate,
    MethodNotAllowed,
    MethodNotFound,
    PermissionDenied,
    TaskNotFound,
    Unavailable,
)
from ..model import Part as ModelPart
from ..protocol import NEWEST, Codec
from ..protocol.v1 import codec as v1
from ..server import (
    HttpRequest,
    HttpResponse,
    Pairs,
    ResponseWriter,
    StreamingResponse,
    query_of,
)
from ..store import DeadLetter, Namespace, Push, Query, Record, StoredLogin
from .attempts import Attempts
from .exchanges import Exchanges
from .fork import fork_task
from .lens import codec_of, codecs_of, lost
from .lists import PAGE, TaskLists, number_of
from .login import BrowserSessions
from .pages import SECURITY

__all__ = ["Api"]

LIVE_S = 0.5  # between two looks at the list of tasks
KEEP_ALIVE_S = 15.0
EVENTS_MOST = 2_000

_SHOWN_TO_CALLERS = (Created, StatusChanged, ArtifactChanged, MessageAdded)
_json = msgspec.json.Encoder().encode
_NO_STORE = (b"cache-control", b"no-store")
_MEDIA_TYPE = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+", re.ASCII)
_UNQUOTABLE = re.compile(r'[\x00-\x1f\x7f"\\]')
_PREVIEW = (
    (
        b"content-security-policy",
        b"sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    _NO_STORE,
)


class Api:
    """Reads for the operator of an agent, or of a hub. It changes no task: that is A2A's own
    business, and that of the hub's REST interface.
    """

    def __init__(
        self,
        app: App,
        logins: BrowserSessions,
        exchanges: Exchanges | None,
        attempts: Attempts | None,
        *,
        operator: Caller,
        is_hub: bool,
    ) -> None:
        self._app = app
        self._own = ("", operator.identity)  # whose tasks the page may answer and go on with
        self._is_operator = True
        self.is_still_operator: Callable[[], bool] = lambda: True  # for what lasts
        self._is_hub = is_hub
        self._tasks = app.engine.tasks
        self._logins = logins
        self._exchanges = exchanges
        self._attempts = attempts
        self._lists = TaskLists(app, lambda: self._listed, self._extra)
        self.sampler = self._lists.sampler

    def seen_by(self, caller: Caller, is_operator: Callable[[], bool]) -> "Api":
        """Return the same for somebody else: an operator, or who sees only their own tasks."""
        other = copy.copy(self)
        other._own, other._is_operator = ("", caller.identity), is_operator()
        other.is_still_operator = is_operator
        other._lists = self._lists.seen_by(other._extra, is_operator=other._is_operator)
        return other

    def _check_may(self, verb: str, parts: list[str], query: dict[str, str], own: str) -> None:
        """Raise PermissionDenied if who is no operator asks for more than what is their own."""
        callers: list[str] = []
        match verb, parts:
            case ("GET", ["me" | "calls" | "logins"]):
                return
            case ("POST", ["logins", id_, "close"]) if id_ == own:
                return
            case ("GET", ["tasks", _, *_]):
                callers = [query.get("caller", "")]
            case ("POST", ["ticket"]):
                asked = query.get("of", "").partition("?")[2]
                callers = parse_qs(asked, keep_blank_values=True).get("caller", [])
        if set(callers) != {self._own[1]}:
            raise PermissionDenied("this is only for the operators of this server")

    async def answer(
        self, request: HttpRequest, path: str, session: StoredLogin
    ) -> HttpResponse | StreamingResponse:
        """Answer a request below `api/`."""
        query = {name: values[-1] for name, values in query_of(request.target).items()}
        parts = [unquote(part) for part in path.split("/")]
        if not self._is_operator:
            self._check_may(request.target.verb, parts, query, session.id)
        match request.target.verb, parts:
            case "GET", ["me"]:
                return _answer(self._me(request, query.get("agent", "")))
            case "GET", ["calls"]:
                from .calls import calls_of  # with the clients of all versions: late

                me = self._me(request, query.get("agent", ""))
                return _answer(calls_of(self._app.versions, me["rpc"], me["rest"]))
            case "GET", ["counts"]:
                return _answer(await self._lists.counts())
            case "GET", ["now"]:
                return _answer(await self._lists.activity(query.get("window", "hour")))
            case "GET", ["usage"]:
                agent = self._agent_named(query.get("agent", ""))
                return _answer(await self._lists.usage(agent))
            case "GET", ["tasks"]:
                return _answer(await self._lists.listed(query))
            case "GET", ["tasks", task_id]:
                return _answer(await self._task(request, await self._record(task_id, query)))
            case "GET", ["tasks", task_id, "events"]:
                record = await self._record(task_id, query)
                return _answer(await self._events(request, record, query))
            case "GET", ["tasks", task_id, "events", seq, "wire"]:
                record = await self._record(task_id, query)
                binding = query.get("binding", "JSONRPC")
                return _answer(await self._wire(record, number_of(seq, "seq"), binding))
            case "GET", ["tasks", task_id, "lens"]:
                record = await self._record(task_id, query)
                return _answer(await self._lens(record, query))
            case "GET", ["tasks", _, "artifacts", _, _]:
                return await self.part(request, path)
            case "POST", ["tasks", task_id, "fork"]:
                record = await self._record(task_id, query)
                return _answer(await fork_task(self._app.engine, record, request.body))
            case "GET", ["tasks", task_id, "pushes"]:
                record = await self._record(task_id, query)
                return _answer(await self._pushes_of(record))
            case "GET", ["tasks", task_id, "pushes", push]:
                record = await self._record(task_id, query)
                return _answer(self._attempts_of(record, push))
            case "POST", ["tasks", task_id, "pushes", push, "test"]:
                return _answer(await self._test(await self._record(task_id, query), push))
            case "GET", ["attempts", n]:
                attempt = self._attempts.one(number_of(n, "n")) if self._attempts else None
                if attempt is None:
                    raise MethodNotFound("this attempt is no longer kept")
                return _answer(attempt)
            case "GET", ["pushes"]:
                return _answer(await self._pushes(bool(query.get("troubled"))))
            case "POST", ["letters", n, "replay"]:
                count = await self._tasks.store.pushes.replay([number_of(n, "letter")])
                return _answer({"replayed": count})
            case "GET", ["live"]:
                return _Live(self, lambda: self._logins.session(request))
            case "GET", ["exchanges"]:
                after = number_of(query.get("after", "0"), "after")
                found_all = self._exchanges.after(after) if self._exchanges is not None else []
                return _answer({"exchanges": found_all})
            case "GET", ["exchanges", n]:
                found = self._exchanges.one(number_of(n, "n")) if self._exchanges else None
                if found is None:
                    raise MethodNotFound("this exchange is no longer kept")
                return _answer(found)
            case "GET", ["logins"]:
                shown = await self._logins.shown(session)
                mine = [one for one in shown if self._is_operator or one["own"]]
                return _answer({"logins": mine})
            case "POST", ["logins", id_, "close"]:
                return _answer({"closed": await self._logins.close(id_)})
            case "POST", ["link"]:
                key = await self._logins.new_link(session.caller, since_ms=session.created_ms)
                return _answer({"key": key})
            case "POST", ["ticket"]:
                return _answer({"ticket": self._logins.ticket(session, query.get("of", ""))})
            case (("GET" | "POST"), _):
                raise MethodNotFound(f"the console has no {path!r:.80}")
        raise MethodNotAllowed("use GET or POST", allow="GET, POST")

    def _me(self, request: HttpRequest, name: str) -> Any:
        """Describe the server and the agent of this name, else the first agent."""
        app = self._app
        root = request.server_url().root
        base = self._logins.origin_of(request) + root
        limits = app.limits
        several = {} if self._is_hub else {one.agent.name: one for one in app.agents.values()}
        shown = several.get(name) or next(iter(several.values()), app.root)
        at = f"/{shown.path}" if shown.path else ""
        return {
            "mode": "hub" if self._is_hub else "agent",
            "base": base,
            "rpc": root + at + app.rpc_path,
            "rest": root + at + app.rest_path,
            "speaks": NEWEST,  # whose objects the page reads
            "versions": [version.number for version in app.versions],
            "aliases": {version.number: list(version.aliases) for version in app.versions},
            "bindings": {version.number: list(codecs_of(version)) for version in app.versions},
            "grpcPort": app.grpc_port,
            "agents": list(several),
            "card": msgspec.to_builtins(shown.card(base + at)),
            "schemas": {
                skill.id: {"input": skill.binding.schema()} for skill in shown.agent.skills.values()
            },
            "limits": {"body": limits.body},
            "hasExchanges": self._exchanges is not None,
            "caller": self._own[self._is_hub or shown.authenticator is not None],
            "isOperator": self._is_operator,
        }

    @property
    def _listed(self) -> str:
        """Whose tasks are shown: this agent's; of a hub, and of several agents, those of all."""
        return "" if self._is_hub or self._app.agents else self._app.agent.name

    def _agent_named(self, name: str) -> str:
        """Whose task is asked for. A hub's entry is an agent of its name and a number."""
        known = self._app.engine.runs.agents
        if not name or name in known:
            return name or self._app.agent.name
        return next((one for one in known if one.rpartition(".")[0] == name), name)

    def _rpc(self, agent: str) -> str:
        """The path at which an agent of this server answers JSON-RPC."""
        if agent == self._app.agent.name:
            return self._app.rpc_path
        for path, served in self._app.agents.items():
            if served.agent.name == agent:
                return f"/{path}/"
        return f"/agents/{quote(agent.rpartition('.')[0] or agent)}/"

    # Tasks

    def _extra(self, record: Record) -> dict[str, Any]:
        return {
            "rpc": self._rpc(record.namespace.agent),
            "isOwn": record.namespace.caller in self._own,
        }

    async def _record(self, task_id: str, query: dict[str, str]) -> Record:
        agent = self._agent_named(query.get("agent", ""))
        namespace = Namespace(agent, query.get("tenant", ""), query.get("caller", ""))
        log = self._tasks.directory.log((namespace, task_id))
        if log is not None:
            await log.commits.stored()
        record = await self._tasks.store.load(namespace, task_id)
        if record is None:
            raise TaskNotFound(f"Task not found: {task_id:.80}")
        return record

    async def _with_files(self, request: HttpRequest, record: Record, data: bytes) -> msgspec.Raw:
        """Return JSON with the addresses of stored files, which work for a while."""
        giver = self._app.root.service.giver
        if giver is None or MARK not in data:
            return msgspec.Raw(data)
        scheme, _, root = request.server_url()
        host = request.headers.get(b"host", b"").decode("latin-1")
        base = f"{scheme}://{host}{root}{self._rpc(record.namespace.agent)}".rstrip("/")
        to = giver.given(record.namespace, Address(base, giver.can_sign))
        return msgspec.Raw(await giver.text(data, to))

    async def _task(self, request: HttpRequest, record: Record) -> Any:
        snapshot = await self._tasks.reader.shown(record, None)
        task = await self._with_files(request, record, snapshot.data)
        return (await self._lists.summaries([record]))[0] | {"task": task}

    async def _events(self, request: HttpRequest, record: Record, query: dict[str, str]) -> Any:
        after = number_of(query.get("after", "0"), "after")
        ids = Ids(record.id, record.context_id)
        entries = await self._entries(record, after, EVENTS_MOST)
        if not self._is_operator:
            entries = [one for one in entries if isinstance(one.entry, _SHOWN_TO_CALLERS)]
        events = [_entry(entry, ids) for entry in entries]
        for event in events:
            if "event" in event:
                event["event"] = await self._with_files(request, record, bytes(event["event"]))
        return {
            "state": state_of(record.state).word,
            "last": record.pos,
            "isPurged": after == 0 and (not entries or entries[0].pos > 1),
            "events": events,
        }

    async def _entries(self, record: Record, after: int, most: int) -> list[Numbered]:
        ids, found = Ids(record.id, record.context_id), list[Numbered]()
        while after < record.pos and len(found) < most:
            rows = await self._tasks.store.read({record.key: after})
            new = [entry for entry in entries_of(rows, ids) if entry.pos > after]
            if not new:
                break
            found += new
            after = new[-1].pos
        return found

    async def _wire(self, record: Record, seq: int, binding: str) -> Any:
        """Return one event as clients of every version that has a binding are sent it, and what of
        it they are not.
        """
        event, artifacts = await self._event(record, seq)
        found: dict[str, Any] = {}
        for version in self._app.versions:
            codec = codecs_of(version).get(binding)
            if codec is not None:
                frames = _frames(codec, event, record, artifacts)
                found[version.number] = {
                    "frames": [msgspec.Raw(frame) for frame in frames],
                    "lost": lost(event.data, frames),
                }
        return found

    async def _lens(self, record: Record, query: dict[str, str]) -> Any:
        """Return what a client of some version does not get of each event of a task."""
        versions = list(self._app.versions)
        codec = codec_of(versions, query.get("version", ""), query.get("binding", "JSONRPC"))
        ids = Ids(record.id, record.context_id)
        artifacts: list[str] = []
        missing: dict[int, list[str]] = {}
        count = after = 0
        while after < record.pos and count < EVENTS_MOST:
            rows = await self._tasks.store.read({record.key: after})
            if not rows:
                break
            for event in events_of(rows, ids):
                _note(event, artifacts)
                count += 1
                if names := lost(event.data, _frames(codec, event, record, artifacts)):
                    missing[event.seq] = names
            after = rows[-1].end
        return {"events": count, "isAll": after >= record.pos, "lost": missing}

    async def _event(self, record: Record, seq: int) -> tuple[LogEvent, list[str]]:
        ids = Ids(record.id, record.context_id)
        artifacts: list[str] = []
        after = 0
        while after < record.pos:
            rows = await self._tasks.store.read({record.key: after})
            if not rows:
                break
            for event in events_of(rows, ids):
                _note(event, artifacts)
                if event.seq == seq:
                    return event, artifacts
            after = rows[-1].end
        raise MethodNotFound(f"event {seq} of this task is no longer kept")

    async def part(self, request: HttpRequest, path: str) -> HttpResponse:
        """Return the bytes of a part of an artifact: to save, or to look at without any rights."""
        match [unquote(part) for part in path.split("/")]:
            case ["tasks", task_id, "artifacts", artifact_id, number]:
                n = number_of(number, "part")
            case _:
                raise MethodNotFound("a ticket is for a part of an artifact, not for this address")
        query = {name: values[-1] for name, values in query_of(request.target).items()}
        record = await self._record(task_id, query)
        task = (await self._tasks.reader.shown(record, None)).task
        artifact = next((a for a in task.artifacts if a.artifact_id == artifact_id), None)
        if artifact is None or n >= len(artifact.parts):
            raise MethodNotFound("there is no such part")
        part = artifact.parts[n]
        body, kind = _content(part)
        if query.get("preview"):
            return HttpResponse(200, body, kind.encode(), _PREVIEW)
        name = _UNQUOTABLE.sub("", part.filename or f"{artifact_id}-{n}").encode("ascii", "replace")
        attachment = (b"content-disposition", b'attachment; filename="%b"' % name)
        return HttpResponse(
            200, body, b"application/octet-stream", (attachment, _NO_STORE, *SECURITY)
        )

    # Push notifications

    async def _pushes_of(self, record: Record) -> Any:
        pushes = self._tasks.store.pushes
        letters = await pushes.letters(PAGE, task_id=record.id)
        return {
            "pushes": [_push(one) for one in await pushes.of(record.key)],
            "letters": [_letter(one) for one in letters if one.task == record.key],
        }

    async def _pushes(self, is_troubled: bool) -> Any:
        pushes = self._tasks.store.pushes
        return {
            "pushes": [_push(one) for one in await pushes.listed(200, is_troubled=is_troubled)],
            "letters": [_letter(one) for one in await pushes.letters(200)],
        }

    def _attempts_of(self, record: Record, push: str) -> Any:
        if self._attempts is None:
            return {"isKept": False, "attempts": []}
        return {"isKept": True, "attempts": self._attempts.of(record.id, push)}

    async def _test(self, record: Record, id_: str) -> Any:
        """Send the newest event of a webhook once more, and say how that went."""
        found = [one for one in await self._tasks.store.pushes.of(record.key) if one.id == id_]
        if not found or self._app.notifier is None:
            raise MethodNotFound(f"task {record.id} has no webhook {id_!r:.80}")
        result = await self._app.notifier.outbox.send_newest(found[0])
        return {"verdict": result.verdict.value, "error": result.error}

    # Live

    async def changes(self, since: dict[str, Any]) -> dict[str, Any]:
        """Return what is new: tasks that changed, and exchanges after the last that was told."""
        page = await self._tasks.reader.page(
            Query(namespace=None, agent=self._listed, limit=PAGE, has_artifacts=False)
        )
        known: dict[int, tuple[int, int]] = since["tasks"]
        changed = [r for r in page.tasks if known.get(r.key) != (r.pos, r.at_ms)]
        since["tasks"] = {r.key: (r.pos, r.at_ms) for r in page.tasks}
        reported: dict[str, Any] = {}
        if changed and not since["isFirst"]:
            reported["tasks"] = await self._lists.summaries(changed)
            reported["total"] = page.total
        since["isFirst"] = False
        if self._exchanges is not None and self._exchanges.last > since["exchange"]:
            reported["exchanges"] = self._exchanges.after(since["exchange"])
            since["exchange"] = self._exchanges.last
        return reported

    @property
    def last_exchange(self) -> int:
        return self._exchanges.last if self._exchanges is not None else 0


class _Live:
    """A stream of changes, for as long as the page is open."""

    headers: Pairs = (
        (b"content-type", b"text/event-stream"),
        (b"cache-control", b"no-store"),
        (b"x-accel-buffering", b"no"),
    )

    def __init__(self, api: Api, session: Callable[[], Awaitable[StoredLogin | None]]) -> None:
        self._api = api
        # Asked again and again: a browser may be logged out, and a role taken away.
        self._session = session
        self._is_closed = False

    async def send(self, out: ResponseWriter) -> None:
        since = {"tasks": {}, "isFirst": True, "exchange": self._api.last_exchange}
        quiet_s = 0.0
        await out.write(b": hello\n\n")
        while not out.is_gone and not self._is_closed:
            try:
                if await self._session() is None or not self._api.is_still_operator():
                    await out.write(b": logged out\n\n", is_last=True)
                    return
                reported = await self._api.changes(since)
            except Unavailable:
                return  # the server stops, or its store is away: the page connects again
            if reported:
                await out.write(b"data: %b\n\n" % _json(reported))
                quiet_s = 0.0
            elif quiet_s >= KEEP_ALIVE_S:
                await out.write(b": keep-alive\n\n")
                quiet_s = 0.0
            await asyncio.sleep(LIVE_S)
            quiet_s += LIVE_S

    def close(self) -> None:
        self._is_closed = True


def _answer(value: Any) -> HttpResponse:
    return HttpResponse(200, _json(value), headers=(_NO_STORE, *SECURITY))


def _note(event: LogEvent, artifacts: list[str]) -> None:
    """Add the artifact of an event to those that are known, in their order."""
    decoded = v1.decode_event(event.data)
    if isinstance(decoded, ArtifactUpdate) and decoded.artifact.artifact_id not in artifacts:
        artifacts.append(decoded.artifact.artifact_id)


def _frames(codec: Codec, event: LogEvent, record: Record, artifacts: list[str]) -> list[bytes]:
    """Return an event as a codec writes it."""
    is_last = (
        event.state is not None
        and state_of(record.state) == event.state
        and event.seq == record.seq
    )
    return codec.frames(
        v1.decode_event(event.data),
        seq=event.seq,
        is_last=is_last,
        index=lambda id_: artifacts.index(id_) if id_ in artifacts else 0,
    )


def _entry(numbered: Numbered, ids: Ids) -> dict[str, Any]:
    """An entry of the log as the page gets it. Results of steps, and what skills note for
    themselves, are told by their size.
    """
    entry = numbered.entry
    reported: dict[str, Any] = {
        "pos": numbered.pos,
        "seq": numbered.seq,
        "at": numbered.at_ms,
        "kind": type(entry).__name__,
    }
    match entry:
        case Created():
            reported["event"], reported["step"] = msgspec.Raw(v1.encode_event(entry.task)), ""
        case StatusChanged() | ArtifactChanged():
            reported["event"], reported["step"] = (
                msgspec.Raw(v1.encode_event(entry.update)),
                entry.step,
            )
        case MessageAdded():
            reported["message"] = msgspec.to_builtins(entry.message)
        case StepEnded():
            reported["data"] = msgspec.structs.asdict(entry) | {"bytes": len(bytes(entry.value))}
            del reported["data"]["value"], reported["data"]["file"]
        case Noted():
            reported["data"] = {"bytes": len(entry.value)}
        case _:
            reported["data"] = msgspec.structs.asdict(entry)
    return reported


def _push(push: Push) -> dict[str, Any]:
    """A webhook without what is secret: its address is told as the host alone."""
    return {
        "id": push.id,
        "taskId": push.task_id,
        "agent": push.namespace.agent,
        "tenant": push.namespace.tenant,
        "caller": push.namespace.caller,
        "endpoint": push.endpoint,
        "version": push.version,
        "sent": push.sent,
        "upto": push.upto,
        "due": push.due_ms,
        "tries": push.tries,
        "error": push.error,
        "disabled": push.disabled,
    }


def _letter(letter: DeadLetter) -> dict[str, Any]:
    return {
        "n": letter.n,
        "taskId": letter.task_id,
        "push": letter.push,
        "first": letter.first,
        "last": letter.last,
        "at": letter.at_ms,
        "error": letter.error,
    }


def _content(part: ModelPart) -> tuple[bytes, str]:
    if isinstance(part.raw, bytes):
        return part.raw, _media_type(part, "application/octet-stream")
    if isinstance(part.text, str):
        return part.text.encode(), _media_type(part, "text/plain") + "; charset=utf-8"
    if part.data is not msgspec.UNSET:
        return v1.encode(part.data), "application/json"
    raise MethodNotFound("this part is a link, not a file")


def _media_type(part: ModelPart, default: str) -> str:
    """The media type that somebody gave, without parameters: it becomes a header."""
    if not part.media_type:
        return default
    kind = part.media_type.partition(";")[0].strip()
    return kind if _MEDIA_TYPE.fullmatch(kind) else "application/octet-stream"
