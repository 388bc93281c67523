"""How far one request travels through the code: few files, few functions."""

import json
import sys
from collections import Counter
from pathlib import Path

import accord
from accord import Agent
from accord.wire.request import Place, Request, Target
from tests.drive import say, text_of

ROOT = Path(accord.__file__).parent


async def post(app, path, body):
    """One request, without a server."""
    headers = {b"content-type": b"application/json", b"a2a-version": b"1.0"}
    target = Target("POST", path, path)
    request = Request(target, headers, list(headers.items()), lambda: Place("http", ("localhost", 80)), json.dumps(body).encode())
    return json.loads((await app.answer(request)).body)


async def trace():
    """Send one message and count our functions on its way: by file and name."""
    agent = Agent("Echo")

    @agent.skill
    async def echo(request: str):
        return request

    app = agent.app()
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": say("hi")}
    await post(app, "/", call)  # opens the store, and fills what is made once
    entered = Counter()

    def note(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(ROOT)) and not code.co_name.startswith("<"):
            entered[str(Path(code.co_filename).relative_to(ROOT)), code.co_qualname] += 1

    sys.setprofile(note)
    try:
        answer = await post(app, "/", call)
    finally:
        sys.setprofile(None)
    await app.close()
    assert text_of(answer["result"]["task"]) == "hi"
    return entered


def shown(entered):
    files = {file for file, _ in entered}
    lines = [f"{file:24} {name}  {times}" for (file, name), times in sorted(entered.items())]
    return "\n".join([f"{len(files)} files, {len(entered)} functions, {entered.total()} calls", *lines])


async def test_a_blocking_send_travels_no_further_than_it_does_now():
    """What is added on the way of every message is noticed here. Run with -s to see the list.

    For the same message the reference SDK takes 23 files, 97 functions and 322 calls.
    """
    entered = min([await trace() for _ in range(3)], key=Counter.total)  # a new second has its text made on the way
    print(shown(entered))
    assert len({file for file, _ in entered}) <= 12
    looks = sys.version_info >= (3, 12)  # there the function is at its end before anyone waits for it: its task is looked at
    assert len(entered) <= 45 + 2 * looks
    assert entered.total() <= 68 + 3 * looks
