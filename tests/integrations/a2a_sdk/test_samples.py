"""Executors written as a2a-sdk's official samples are answer the same under `accord run` as they do
on a2a-sdk itself: the same requests go to both, and both answers are compared.
"""

import asyncio
import itertools
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.legacy.wire import Stream
from tests.processes import PATIENCE_S, free_port, start, until_listening

HERE = Path(__file__).parent / "samples"
ROOT = Path(__file__).parents[3]
SDKS = {
    "0.2": (ROOT / ".venv-02/bin/python", "serve0.py"),
    "0.3": (ROOT / ".venv-03/bin/python", "serve0.py"),
    "1.x": (Path(sys.executable), "serve1.py"),
}
METHODS = {
    "send": ("message/send", "SendMessage"),
    "start": ("message/send", "SendMessage"),
    "stream": ("message/stream", "SendStreamingMessage"),
    "get": ("tasks/get", "GetTask"),
    "cancel": ("tasks/cancel", "CancelTask"),
}
TRACE = {"X-A2A-Extensions": "https://example.com/trace"}
FORM = [{"kind": "data", "data": {"amount": 12}}]
EMPTY_FORM = [{"kind": "data", "data": {"amount": 0}}]

# A sample, and what is done with it in turn: "+" goes on with the task of the step before, and
# "until" gets it until it is in a state.
Step = tuple[Any, ...]
SAME_0: dict[str, list[tuple[str, list[Step]]]] = {
    "a message without a task": [("greeter", [("send", "hi"), ("stream", "hi")])],
    "an error instead of an answer": [("greeter", [("send", ""), ("stream", "")])],
    "progress and a result": [
        ("converter", [("send", "1 EUR USD"), ("get",)]),
        ("converter", [("stream", "1 EUR USD"), ("get",)]),
        ("runner", [("send", "far"), ("get",)]),
        ("runner", [("stream", "far")]),
        ("bartender", [("send", "drink"), ("get",)]),
        ("bartender", [("stream", "drink")]),
    ],
    "a question and its answer": [
        ("converter", [("send", "EUR"), ("get",), ("send+", "in USD"), ("get",)]),
        ("converter", [("stream", "EUR"), ("stream+", "in USD"), ("get",)]),
        ("traveller", [("send", "travel"), ("get",), ("send+", "Rome"), ("get",)]),
        ("traveller", [("stream", "travel"), ("stream+", "Rome"), ("get",)]),
        ("runner", [("send", "ask"), ("get",)]),
    ],
    "a form": [
        ("expenses", [("send", "lunch"), ("get",), ("send+", FORM), ("get",)]),
        ("expenses", [("stream", "lunch"), ("stream+", FORM), ("get",)]),
    ],
    "a failure": [
        ("expenses", [("send", "lunch"), ("send+", EMPTY_FORM), ("get",)]),
        ("expenses", [("send", "lunch"), ("stream+", EMPTY_FORM), ("get",)]),
    ],
    "artifacts before there is a task": [("planner", [("send", "go"), ("get",), ("stream", "go")])],
    "a finished task with a file": [("painter", [("send", "cat"), ("get",), ("stream", "cat")])],
    "a cancel": [("calendar", [("send", "when"), ("cancel",), ("get",)])],
    "an authorization": [
        ("calendar", [("send", "when"), ("get",), ("allow",), ("until", "completed")]),
    ],
}
# a2a-sdk 0.2 knows no extensions and always lets a sender wait.
ONLY_0_3: dict[str, list[tuple[str, list[Step]]]] = {
    "an extension": [("tracer", [("send", "x"), ("send", "x", TRACE), ("get",), ("stream", "x")])],
    "a cancel while it works": [("calendar", [("start", "wait"), ("cancel",), ("get",)])],
}
SAME_1: dict[str, list[tuple[str, list[Step]]]] = {
    "progress and a result": [
        ("greeter", [("send", "you"), ("get",), ("stream", "you")]),
        ("converter", [("send", "1 EUR USD"), ("get",), ("stream", "1 EUR USD")]),
    ],
    "a question and its answer": [
        ("converter", [("stream", "EUR"), ("stream+", "in USD"), ("get",)]),
        ("governed", [("send", "delete"), ("get",), ("send+", "confirm"), ("get",)]),
        ("governed", [("stream", "delete"), ("stream+", "confirm"), ("get",)]),
        ("governed", [("send", "delete"), ("send+", "no"), ("get",)]),
    ],
    "a cancel": [("governed", [("send", "delete"), ("cancel",), ("get",)])],
}
SAME = {"0.2": SAME_0, "0.3": ONLY_0_3 | SAME_0, "1.x": SAME_1}


@pytest.mark.parametrize("sdk", SDKS)
async def test_samples_answer_as_on_the_sdk(sdk, tmp_path):
    async with _both(sdk, f"sqlite:///{tmp_path}/tasks.db") as (theirs, ours):
        for sample in dict.fromkeys(s for cases in SAME[sdk].values() for s, _ in cases):
            assert await ours.name(sample) == await theirs.name(sample) == sample
        if sdk == "1.x":
            for sample in ("greeter", "governed"):  # side by side, and mounted
                assert await ours.rest(sample) == await theirs.rest(sample)
        for what, cases in SAME[sdk].items():
            for sample, steps in cases:
                told = await asyncio.gather(theirs.told(sample, steps), ours.told(sample, steps))
                assert told[1] == told[0], f"{what}: {sample} {steps}"
        await _differ_on_purpose(sdk, theirs, ours)
    assert (tmp_path / "tasks.db").exists()
    assert len(list(tmp_path.glob("tasks-*.db"))) > 1  # one for each other agent


async def _differ_on_purpose(sdk: str, theirs: "_Server", ours: "_Server") -> None:
    """Where a2a-sdk loses an answer or a task, Accord does not; docs/a2a-sdk.md says so."""
    # The executor can't cancel: its work is cancelled all the same.
    cancel: list[Step] = [("send", "EUR"), ("cancel",), ("get",)]
    assert "error" in (await theirs.told("converter", cancel))[1]
    told = await ours.told("converter", cancel)
    assert [_state(told[1]), _state(told[2])] == ["canceled", "canceled"]

    # It raises in the middle: there is a task, and it has failed.
    raises: list[Step] = [("send", "1 nothing"), ("get",)]
    assert "error" in (await theirs.told("converter", raises[:1]))[0]
    told = await ours.told("converter", raises)
    assert [_state(told[0]), _state(told[1])] == ["failed", "failed"]

    # It gives back the task it was given, which still shows the question: that is no new question.
    sample, asks = ("converter", "EUR") if sdk == "1.x" else ("runner", "ask")
    answer: list[Step] = [("send", asks), ("send+", "in USD")]
    if sdk != "0.2":  # which does not answer at all
        assert _state((await theirs.told(sample, answer))[1]) == "input-required"
    assert _state((await ours.told(sample, answer))[1]) == "completed"


def _state(told: Any) -> str:
    return str(told["status"]["state"]).lower().removeprefix("task_state_").replace("_", "-")


@asynccontextmanager
async def _both(sdk: str, store: str) -> AsyncIterator[tuple["_Server", "_Server"]]:
    """The samples served by a2a-sdk, and by Accord."""
    python, program = SDKS[sdk]
    ports = free_port(), free_port()
    env = {"PYTHONPATH": str(ROOT / "src")}
    with (
        start(python, HERE / program, str(ports[0]), env=env),
        start(
            *(python, "-m", "accord", "run", "--store", store, HERE / program, str(ports[1])),
            env=env,
        ),
    ):
        for port in ports:
            await until_listening(port)
        async with aiohttp.ClientSession() as http:
            theirs, ours = (_Server(http, port, is_v1=sdk == "1.x") for port in ports)
            yield theirs, ours


class _Server:
    """Sends requests of A2A 0.3 or 1.0 and writes down what is comparable of the answers."""

    def __init__(self, http: aiohttp.ClientSession, port: int, *, is_v1: bool) -> None:
        self._http = http
        self._url = f"http://127.0.0.1:{port}"
        self._is_v1 = is_v1

    async def name(self, sample: str) -> Any:
        """What the sample's card calls it."""
        # a2a-sdk 0.2 has the card at another path, except where the program says otherwise.
        card = f"{self._url}/{sample}/.well-known/agent"
        for path in (f"{card}-card.json", f"{card}.json"):
            async with self._http.get(path) as response:
                if response.status == 200:
                    return (await response.json())["name"]
        return None

    async def rest(self, sample: str) -> Any:
        """What is comparable of a send over HTTP+JSON, at a prefix of the program's own."""
        async with self._http.post(
            f"{self._url}/{sample}/rest/message:send",
            json=self._params("send", "hi", {}),
            headers={"A2A-Version": "1.0"},
        ) as response:
            answer = await response.json()
            assert response.status == 200, answer
            return _comparable(answer["task"], {})

    async def told(self, sample: str, steps: list[Step]) -> list[Any]:
        """What the sample has answered, step by step."""
        told: list[Any] = []
        names: dict[str, str] = {}
        ids: dict[str, str] = {}
        for kind, *args in steps:
            if kind == "allow":  # a request of its own
                await self._call(sample, "send", self._params("send", "allow", {}), {})
                continue
            while True:
                verb = "get" if kind == "until" else kind.rstrip("+")
                text = args[0] if args and kind != "until" else ""
                params = self._params(verb, text, ids if kind.endswith("+") else {})
                if verb in ("get", "cancel"):
                    params = {"id": ids["taskId"]}
                frames, header = await self._call(sample, verb, params, args[1] if args[1:] else {})
                frames = [self._unwrapped(frame) for frame in frames]
                if kind != "until" or _state(frames[0]) == args[0]:
                    break
            for frame in frames:
                if "status" in frame or "artifact" in frame:
                    task_id = frame["id"] if "id" in frame else frame["taskId"]
                    ids = {"taskId": task_id, "contextId": frame["contextId"]}
            if verb == "stream":
                told.append([_comparable(e, names) for f in frames for e in self._events(f)])
            elif verb != "start":  # which may be answered sooner or later
                if self._is_v1:  # a2a-sdk 1.x loses messages of the user from it
                    frames[0].pop("history", None)
                told.append(_comparable(frames[0], names))
            if header:
                told.append(header)
        return told

    def _params(self, verb: str, said: str | list[Any], ids: dict[str, str]) -> Any:
        text = {"text": said} if self._is_v1 else {"kind": "text", "text": said}
        message = {
            "messageId": f"message {next(_numbers)}",
            "role": "ROLE_USER" if self._is_v1 else "user",
            "parts": [text] if isinstance(said, str) else said,
            **ids,
        }
        waits = {"returnImmediately" if self._is_v1 else "blocking": self._is_v1}
        if not self._is_v1:
            message["kind"] = "message"
        return {"message": message} | ({"configuration": waits} if verb == "start" else {})

    async def _call(
        self, sample: str, verb: str, params: Any, headers: dict[str, str]
    ) -> tuple[list[Any], str]:
        request = {"jsonrpc": "2.0", "id": 1, "params": params}
        request["method"] = METHODS[verb][self._is_v1]
        if self._is_v1:
            headers = headers | {"A2A-Version": "1.0"}
        async with (
            asyncio.timeout(PATIENCE_S),
            self._http.post(f"{self._url}/{sample}/", json=request, headers=headers) as response,
        ):
            if response.content_type == "text/event-stream":
                frames = await Stream(response).rest()
            else:
                frames = [await response.json()]
            return frames, response.headers.get("X-A2A-Extensions", "")

    def _unwrapped(self, frame: Any) -> Any:
        if "error" in frame:
            return {"error": frame["error"]["code"], "message": frame["error"]["message"]}
        result = frame["result"]
        is_wrapped = self._is_v1 and len(result) == 1
        return next(iter(result.values())) if is_wrapped else result

    def _events(self, frame: Any) -> list[Any]:
        """What a frame of a stream says. Accord begins every stream with the task, as 1.0 demands;
        a2a-sdk sends it when the executor does.
        """
        if "artifact" in frame or "status" not in frame:
            return [frame]
        is_task, is_bare = "id" in frame, "message" not in frame["status"]
        if _state(frame) in ("submitted", "working") and is_bare:
            return []
        if is_task and _state(frame) not in ("completed", "failed", "canceled"):
            return []
        events = [{"artifact": a, "lastChunk": True} for a in frame.get("artifacts", [])]
        return [*events, {"status": frame["status"], "metadata": frame.get("metadata")}]


_numbers = itertools.count(1)
_UNCOMPARED = {"timestamp", "final", "kind", "contextId", "taskId", "id"}


def _comparable(value: Any, names: dict[str, str]) -> Any:
    """An answer without times and with ids replaced by numbers; what is empty is left out."""
    if isinstance(value, list):
        return [_comparable(item, names) for item in value]
    if not isinstance(value, dict):
        return value
    made = {}
    for name, item in sorted(value.items()):
        if name in ("artifactId", "messageId"):
            made[name] = names.setdefault(item, f"{name} {len(names)}")
        elif name == "name" and item.startswith("image_"):
            made[name] = "image"  # the sample puts the task's id into it
        elif name not in _UNCOMPARED and item:
            made[name] = _comparable(item, names)
    return made
