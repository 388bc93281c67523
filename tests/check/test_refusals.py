"""What an agent must refuse, and bounds it must keep: one agent for each fault."""

from typing import Any

import pytest

from accord.check import run_checks
from tests.client.peers import Request, answer, card, scripted, task

SAID = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
DONE = task(history=[SAID])

# What an agent does wrong, and the checks that find it.
FAULTS: dict[str, set[str]] = {
    "": set(),
    "invalid params are an internal error": {"reach.params"},
    "invalid params are an invalid request": {"reach.params"},
    "text/plain is an internal error": {"reach.body"},
    "text/plain is read": set(),
    "historyLength is ignored": {"send.history"},
    "historyLength is an error": {"send.history"},
    "a task that is over goes on": {"send.follow"},
    "a message to a task that is over is an internal error": {"send.follow"},
}


def agent(fault: str, request: Request) -> bytes:
    if request.verb == "GET":
        return answer(card(f"http://{request.headers['host']}", capabilities={}))
    params = request.json["params"]
    message = params.get("message")

    def error(code: int) -> dict[str, Any]:
        return {"error": {"code": code, "message": "no"}}

    def send() -> dict[str, Any]:
        if message is None:
            return error(
                {
                    "invalid params are an internal error": -32603,
                    "invalid params are an invalid request": -32600,
                }.get(fault, -32602)
            )
        if "taskId" in message and fault != "a task that is over goes on":
            is_odd = fault == "a message to a task that is over is an internal error"
            return error(-32603 if is_odd else -32004)
        return {"result": {"task": DONE}}

    def get() -> dict[str, Any]:
        if params["id"] != "t-1":
            return error(-32001)
        if params.get("historyLength") != 0 or fault == "historyLength is ignored":
            return {"result": DONE}
        if fault == "historyLength is an error":
            return error(-32603)
        return {"result": {name: DONE[name] for name in DONE if name != "history"}}

    method = request.json["method"]
    if request.headers["content-type"] == "text/plain" and fault != "text/plain is read":
        body = error(-32603 if fault == "text/plain is an internal error" else -32005)
    elif request.headers["a2a-version"] == "99.0":
        body = error(-32009)
    elif method == "SendMessage":
        body = send()
    elif method == "GetTask":
        body = get()
    elif method == "ListTasks":
        body = {"result": {"tasks": [DONE], "nextPageToken": "", "pageSize": 1, "totalSize": 1}}
    else:
        codes = {"CancelTask": -32002, "ListTaskPushNotificationConfigs": -32003}
        body = error(codes.get(method, -32601))
    return answer({"jsonrpc": "2.0", "id": request.json["id"], **body})


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_is_found_by_its_check(fault: str):
    """By no other, and an agent without a fault gets all points."""
    async with scripted(lambda request: agent(fault, request)) as peer:
        report = await run_checks(peer.url)
    assert {result.id for result in report.failed} == FAULTS[fault]
    assert all(result.fix for result in report.failed)
