"""The HTTP+JSON binding, for every version that has it."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ...model import A2AError, MethodNotFound, TaskNotFound
from ...net import Http, Request, Response, ResponseBody
from ...protocol import EventFrame, JsonObject, Note
from ...protocol.v1 import RestClientCodec, RestRequest
from ..budget import Budget, check_depth
from ..errors import BadAnswer
from .contract import (
    NOTHING,
    Extra,
    Item,
    ItemStream,
    SseItems,
    beside,
    only,
    read_all,
    refusal,
    understood,
)

__all__ = ["Rest"]

_any = msgspec.json.Decoder()
_MISREAD = (400, 422)  # what an agent says to a body in another form than its own
# A bare 404 to these is about the path, not about a task.
_TASKLESS = (
    "ListTasks",
    "GetExtendedAgentCard",
)


class Rest:
    """Talks HTTP+JSON below one URL."""

    name = "HTTP+JSON"

    def __init__(
        self,
        http: Http,
        url: str,
        codec: RestClientCodec,
        budget: Budget,
        headers: Mapping[str, str],
        note: Note,
        *,
        codec_of_server: Callable[[str], RestClientCodec | None] | None = None,
    ) -> None:
        self.url = url
        self.version = codec.version
        self._http = http
        self._base = url.rstrip("/")
        self._codec = codec
        self._codec_of_server = (
            codec_of_server  # the dialect of an agent by its `Server` header, where that may tell
        )
        self._budget = budget
        self._note = note
        # Plain JSON is what every implementation takes and gives; A2A's own type is not.
        self._headers = {
            "Content-Type": "application/json",
            "Accept": "application/json",
            **headers,
        }
        self._bare = {
            name: value for name, value in self._headers.items() if name != "Content-Type"
        }
        if codec.version:
            self._headers["A2A-Version"] = self._bare["A2A-Version"] = codec.version
        self._last = (NOTHING, self._headers, self._headers)
        # The text says POST, the proto GET: what works is remembered.
        self._subscribes_with = [
            "POST",
            "GET",
        ]

    async def call(self, operation: str, request: Any, extra: Extra, timeout_s: float) -> Any:
        route = self._codec.route(operation, request)
        answer = await self._fetch(route, extra, timeout_s)
        if answer.status in _MISREAD and route.other_body is not None:
            again = await self._fetch(route._replace(body=route.other_body), extra, timeout_s)
            answer = again if again.status < 500 and again.status not in _MISREAD else answer
        self._check(operation, answer)
        return understood(
            self.url,
            f"the answer to {operation}",
            self._codec.result,
            operation,
            answer.body,
            request,
            self._note,
        )

    async def _fetch(self, route: RestRequest, extra: Extra, timeout_s: float) -> Response:
        headers, url = self._with(extra, route), self._base + route.path
        request = Request(route.verb, url, timeout_s, headers, route.body)
        answer = await self._http.fetch(request, limit=self._budget.answer_bytes)
        self._hear(answer.headers)
        return answer

    def _hear(self, headers: Mapping[str, str]) -> None:
        """Go on in the dialect of who answers: the card may have come without a word about it."""
        if self._codec_of_server is not None:
            self._codec = self._codec_of_server(headers.get("Server", "")) or self._codec

    async def stream(
        self, operation: str, request: Any, extra: Extra, timeout_s: float
    ) -> ItemStream:
        answer = await self._open(operation, request, extra, timeout_s)
        read = self._codec.frames(request, self._note)

        def open_frame(data: bytes) -> EventFrame:
            try:
                return understood(self.url, "an event", read, data)
            except BadAnswer as fault:
                raise self._error_in(data) or fault from None

        if answer.status == 200 and answer.headers.get("Content-Type", "").startswith(
            "text/event-stream"
        ):
            return SseItems(answer, self.url, self._budget, open_frame)
        whole = await read_all(answer, self.url, self._budget.answer_bytes)
        self._check(operation, whole)
        return only([Item(understood(self.url, "the answer", read, whole.body), "")])

    async def close(self) -> None:
        """Nothing: the connections are the client's."""

    async def _open(
        self, operation: str, request: Any, extra: Extra, timeout_s: float
    ) -> ResponseBody:
        route = self._codec.route(operation, request)
        if operation == "SubscribeToTask" and self._subscribes_with[0] == "GET":
            route = RestRequest("GET", route.path, None)
        headers = self._with(extra, route) | {"Accept": "text/event-stream, application/json"}
        http_request = Request(route.verb, self._base + route.path, timeout_s, headers, route.body)
        answer = await self._http.open(http_request, idle_s=self._budget.idle_s)
        self._hear(answer.headers)
        if (
            operation == "SubscribeToTask"
            and answer.status in (404, 405, 501)
            and len(self._subscribes_with) == 2
        ):
            whole = await read_all(answer, self.url, self._budget.answer_bytes)
            error = self._error(whole)
            if answer.status == 404 and type(error).reason == "TASK_NOT_FOUND":
                raise error
            self._subscribes_with.pop(0)
            return await self._open(operation, request, extra, timeout_s)
        return answer

    def _with(self, extra: Extra, route: RestRequest) -> dict[str, str]:
        headers = self._headers if route.body is not None else self._bare
        if extra is not self._last[0] or headers is not self._last[1]:
            self._last = (extra, headers, headers | beside(extra, self._codec.extensions_header))
        return self._last[2]

    def _check(self, operation: str, answer: Response) -> None:
        if not 200 <= answer.status < 300:
            error = self._error(answer)
            raise (
                MethodNotFound(str(error))
                if operation in _TASKLESS and isinstance(error, TaskNotFound)
                else error
            )
        understood(
            self.url, f"the answer to {operation}", check_depth, answer.body, self._budget.depth
        )

    def _error(self, answer: Response) -> A2AError:
        status, headers = answer.status, answer.headers

        def read(body: JsonObject) -> A2AError | None:
            return self._codec.error(status, body)

        return refusal(
            self.url, status, headers.get("Retry-After"), headers.get("Location"), answer.body, read
        )

    def _error_in(self, data: bytes) -> A2AError | None:
        """The error in an event that is no event, if it is one: an agent's last word in a
        stream.
        """
        try:
            body = _any.decode(data)
        except (msgspec.DecodeError, ValueError, RecursionError):
            return None
        if not isinstance(body, dict):
            return None
        error = body.get("error")
        code = error.get("code") if isinstance(error, dict) else None
        return self._codec.error(code if isinstance(code, int) else 500, body)
