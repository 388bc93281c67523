"""The JSON-RPC binding, for every version: the envelope here, the words in the version's
dialect.
"""

import itertools
from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin

import msgspec

from ...model import A2AError, UnsupportedOperation
from ...net import Http, Request, Response, safe_url
from ...protocol import ClientCodec, EventFrame, JsonObject, Note
from ..budget import Budget, check_depth
from ..errors import BadAnswer
from .contract import (
    NOTHING,
    Extra,
    Item,
    ItemStream,
    SseItems,
    beside,
    moved,
    only,
    read_all,
    refusal,
    understood,
)

__all__ = ["JsonRpc", "JsonRpc02"]

_EXTENDED = "agent/authenticatedExtendedCard"


class _Reply(msgspec.Struct):
    id: Any = None
    result: msgspec.Raw = msgspec.Raw()
    error: JsonObject | None = None


_open = msgspec.json.Decoder(_Reply).decode


class JsonRpc:
    """Talks JSON-RPC to one URL."""

    name = "JSONRPC"

    def __init__(
        self,
        http: Http,
        url: str,
        codec: ClientCodec,
        budget: Budget,
        headers: Mapping[str, str],
        note: Note,
    ) -> None:
        self.url = url
        self.version = codec.version
        self._http = http
        self._codec = codec
        self._budget = budget
        self._note = note
        self._ids = itertools.count(1)
        self._headers = {
            "Content-Type": "application/json",
            "Accept": "application/json",
            **headers,
        }
        if codec.version:
            self._headers["A2A-Version"] = codec.version
        self._last = (NOTHING, self._headers)
        self._has_moved = False

    async def call(self, operation: str, request: Any, extra: Extra, timeout_s: float) -> Any:
        id_, body = self._pack(operation, request)
        http_request = Request("POST", self.url, timeout_s, self._with(extra), body)
        answer = await self._http.fetch(http_request, limit=self._budget.answer_bytes)
        if 300 <= answer.status < 400 and self._move(answer.status, answer.headers.get("Location")):
            return await self.call(operation, request, extra, timeout_s)
        return self._unpack(operation, request, id_, answer)

    async def stream(
        self, operation: str, request: Any, extra: Extra, timeout_s: float
    ) -> ItemStream:
        id_, body = self._pack(operation, request)
        headers = self._with(extra) | {"Accept": "text/event-stream, application/json"}
        budget = self._budget
        http_request = Request("POST", self.url, timeout_s, headers, body)
        answer = await self._http.open(http_request, idle_s=budget.idle_s)
        if self._move(answer.status, answer.headers.get("Location")):
            await answer.close()
            moved = http_request._replace(url=self.url)
            answer = await self._http.open(moved, idle_s=budget.idle_s)
        read = self._codec.frames(request, self._note)

        def open_frame(data: bytes) -> EventFrame:
            return read(self._result(_open(data), id_))

        if answer.status == 200 and answer.headers.get("Content-Type", "").startswith(
            "text/event-stream"
        ):
            return SseItems(answer, self.url, budget, open_frame)
        whole = await read_all(answer, self.url, budget.answer_bytes)
        result = self._raw(operation, id_, whole)
        return only([Item(understood(self.url, "the answer", read, result), "")])

    async def close(self) -> None:
        """Nothing: the connections are the client's."""

    def _move(self, status: int, location: str | None) -> bool:
        """Follow a redirect of the address itself, as mounted apps give for a missing slash;
        once.
        """
        target = moved(self.url, status, location) if not self._has_moved else None
        if target is None:
            return False
        self.url, self._has_moved = target, True
        return True

    def _pack(self, operation: str, request: Any) -> tuple[int, bytes]:
        id_ = next(self._ids)
        method = self._codec.method(operation)
        params = self._codec.params(operation, request)
        return id_, b'{"jsonrpc":"2.0","id":%d,"method":"%b","params":%b}' % (
            id_,
            method.encode(),
            params,
        )

    def _with(self, extra: Extra) -> dict[str, str]:
        """The headers of a call; the same object for calls with the same extras, which are nearly
        all.
        """
        if extra is not self._last[0]:
            self._last = (extra, self._headers | beside(extra, self._codec.extensions_header))
        return self._last[1]

    def _unpack(self, operation: str, request: Any, id_: int, answer: Response) -> Any:
        return understood(
            self.url,
            f"the answer to {operation}",
            self._codec.result,
            operation,
            self._raw(operation, id_, answer),
            request,
            self._note,
        )

    def _raw(self, operation: str, id_: int, answer: Response) -> bytes:
        self._check(operation, answer)
        return self._result(understood(self.url, "the answer", _open, answer.body), id_)

    def _check(self, operation: str, answer: Response) -> None:
        if not 200 <= answer.status < 300:
            headers = answer.headers
            raise refusal(
                self.url,
                answer.status,
                headers.get("Retry-After"),
                headers.get("Location"),
                answer.body,
                self._error_in,
            )
        understood(
            self.url, f"the answer to {operation}", check_depth, answer.body, self._budget.depth
        )

    def _error_in(self, body: JsonObject) -> A2AError | None:
        error = body.get("error")
        return self._codec.error(error) if isinstance(error, dict) else None

    def _result(self, reply: _Reply, id_: int) -> bytes:
        """Return the result in an envelope, or raise the error in it."""
        if reply.error is not None:
            raise self._codec.error(reply.error)
        if reply.id != id_ and reply.id is not None and str(reply.id) != str(id_):
            raise BadAnswer(
                safe_url(self.url),
                f"answers request {str(reply.id)[:40]!r}, which is not the one that was sent",
            )
        return bytes(reply.result) or b"null"


class JsonRpc02(JsonRpc):
    """0.2, where the extended card is no method: a plain GET beside the RPC address, or at the root
    of its host.
    """

    async def call(self, operation: str, request: Any, extra: Extra, timeout_s: float) -> Any:
        if operation != "GetExtendedAgentCard":
            return await super().call(operation, request, extra, timeout_s)
        for place in dict.fromkeys(urljoin(self.url, path + _EXTENDED) for path in ("./", "/")):
            http_request = Request("GET", place, timeout_s, self._with(extra))
            answer = await self._http.fetch(http_request, limit=self._budget.card_bytes)
            if answer.status != 404:
                self._check(operation, answer)
                return understood(
                    self.url,
                    "the extended card",
                    self._codec.result,
                    operation,
                    answer.body,
                    request,
                    self._note,
                )
        raise UnsupportedOperation(f"{safe_url(self.url)} has no extended card")
