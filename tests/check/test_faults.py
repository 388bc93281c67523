"""Probes: agents with one fault each get the right category and sentence, and no task."""

import asyncio
import socket
import ssl

import pytest

from accord import Agent
from accord.check import Category, probe, probe_message, run_checks
from accord.client import connect
from tests.check.faulty import FAULTS, MESSAGE_FAULTS, Fault, MessageFault, faulty, says
from tests.client.certs import Authority
from tests.client.peers import answer, card, scripted
from tests.drive import serving

SOON_S = 1.0  # for agents that never answer: nothing else here takes that long
PATIENCE_S = 30.0


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
async def test_a_fault_has_its_category_and_sentence(fault: Fault):
    """Each fault is told apart, and what it says to do fits it."""
    limit_s = SOON_S if fault.category == "TOO_SLOW" else PATIENCE_S
    async with faulty(fault) as peer:
        report = await probe(peer.url, timeout_s=limit_s)
        assert (report.category, fault.sentence in report.sentence) == (fault.category, True)
        assert report.is_ok == (report.sentence == "")
        methods = {says(request) for request in peer.requests}
    assert methods <= {"", "GetTask"}  # nothing that makes a task


@pytest.mark.parametrize("fault", MESSAGE_FAULTS, ids=lambda fault: fault.name)
async def test_a_real_message_tells_more(fault: MessageFault):
    """What a message is answered with says whether the agent works, and whose fault it is."""

    def handle(request):
        return answer(card(peer.url)) if request.verb == "GET" else fault.calls(request)

    limit_s = SOON_S if fault.category == "TOO_SLOW" else PATIENCE_S
    async with scripted(handle) as peer:
        found = await probe_message(peer.url, timeout_s=limit_s)
    assert found.category == fault.category


async def test_a_full_listener_is_a_timeout():
    """A host that takes no connection is told from one that refuses it."""
    full = socket.socket()
    full.bind(("127.0.0.1", 0))
    full.listen(0)
    port = full.getsockname()[1]
    waiting = [socket.socket() for _ in range(4)]
    try:
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        fault = Fault("", "TIMEOUT", "", place=lambda url: f"http://127.0.0.1:{port}")
        async with faulty(fault) as peer:
            report = await probe(peer.url, timeout_s=3 * SOON_S)
        assert report.category is Category.TIMEOUT
    finally:
        for one in [*waiting, full]:
            one.close()


async def test_a_certificate_nobody_trusts(tmp_path):
    """It is TLS that is named, not the agent behind it."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*Authority(tmp_path).issue("agent"))
    async with scripted(lambda request: answer({}), tls=context) as peer:
        report = await probe(peer.url, timeout_s=PATIENCE_S)
    assert (report.category, "certificate" in report.sentence) == (Category.TLS, True)


async def test_probes_make_no_task():
    """A probe of every interface of an agent of ours leaves no task behind."""
    agent = Agent("Echo", description="Echoes.")

    @agent.skill
    async def echo(request: str) -> str:
        """Echo what is said."""
        return request

    app = agent.app(grpc_port=0)
    async with serving(app, app.close) as url:
        report = await probe(url)
        assert report.is_ok
        assert {one.category for one in report.interfaces} == {Category.OK}
        async with connect(url) as client:
            assert [task async for task in client.list()] == []


async def test_checks_agree_with_probes():
    """What a probe calls broken does not get all points."""
    worth = {}
    for fault in FAULTS:
        if fault.category in ("DNS", "TOO_SLOW"):
            continue
        async with faulty(fault) as peer, asyncio.timeout(PATIENCE_S):
            report = await run_checks(peer.url)
        worth[fault.name] = bool(report.failed) or report.category == "LOCKED"
    # The one without a fault in GetTask fails later: it knows no other method.
    assert worth == dict.fromkeys(worth, True)
