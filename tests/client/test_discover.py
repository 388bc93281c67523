"""Finding the card: where it is, how it is kept, and what is done with a wrong one."""

import json
import sys

import pytest

from accord.client import NO_RETRY, BadCard, Cards, Retry, connect
from accord.client.discovery.repair import read_card
from accord.model import TooManyRequests, Unavailable
from accord.net import Response
from tests.client.peers import answer, card, scripted, task


def serve(places: dict[str, object], log: list | None = None):
    """An agent whose card is at these paths and nowhere else, and which answers every send."""

    def handler(request):
        if request.verb == "POST":
            return answer({"jsonrpc": "2.0", "id": request.json["id"], "result": {"task": task()}})
        if log is not None:
            log.append(request.path)
        url = f"http://{request.headers['host']}"
        found = places.get(request.path)
        return (
            answer(found(url) if callable(found) else found)
            if found is not None
            else answer("", 404)
        )

    return handler


PLAIN = "/.well-known/agent-card.json"
OLD = "/.well-known/agent.json"


@pytest.mark.parametrize(
    ("place", "asked"),
    [
        (PLAIN, ""),
        (OLD, ""),
        (PLAIN, "/"),
        ("/agents/dock" + PLAIN, "/agents/dock"),
        ("/agents/dock", "/agents/dock"),
        (PLAIN, "/agents/dock"),
        ("/cards/dock.json", "/cards/dock.json"),
    ],
    ids=[
        "well known",
        "old",
        "slash",
        "below a path",
        "the path itself",
        "root of the host",
        "its own url",
    ],
)
async def test_places(place, asked):
    """The places agents put their cards, the likeliest first."""
    async with scripted(serve({place: card})) as peer, connect(peer.url + asked) as client:
        assert (await client.send("hello")).text == "17 crates"


NO_AGENT = {"error": {"details": [{"reason": "NOT_FOUND", "domain": "a2a-protocol.org"}]}}


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (429, "", TooManyRequests),
        (502, "", Unavailable),
        (503, "", Unavailable),
        (504, "", Unavailable),
        (404, NO_AGENT, BadCard),
    ],
)
async def test_an_agent_that_is_busy_or_gone_is_not_taken_for_the_agent_of_its_host(
    status, body, error
):
    """That is another one, and must not be sent what is for this one."""
    places = serve({PLAIN: card})

    def handler(request):
        is_below = request.path.startswith("/agents/dock")
        return answer(body, status) if is_below else places(request)

    async with scripted(handler) as peer:
        with pytest.raises(error):
            await connect(f"{peer.url}/agents/dock", retry=NO_RETRY)


async def test_a_card_in_a_file_or_in_the_hand(tmp_path):
    """A card may come by any way: a file, its name, a dict, JSON text, the object itself."""
    async with scripted(serve({PLAIN: card})) as peer:
        value = card(peer.url + "/")
        path = tmp_path / "card.json"
        path.write_text(json.dumps(value))
        async with connect(peer.url) as client:
            model = client.card
        for given in (
            path,
            str(path),
            f"file://{path}",
            value,
            json.dumps(value),
            json.dumps(value).encode(),
            model,
        ):
            async with connect(given) as client:
                assert (await client.send("hello")).text == "17 crates"


async def test_a_redirected_card_is_found():
    """Hosts move; a few redirects are followed for the card, never for a call."""

    def handler(request):
        url = f"http://{request.headers['host']}"
        if request.path == PLAIN:
            return answer("", 301, location="/moved.json")
        if request.verb == "GET":
            return answer(card(url))
        return answer({"jsonrpc": "2.0", "id": request.json["id"], "result": {"task": task()}})

    async with scripted(handler) as peer, connect(peer.url) as client:
        assert (await client.send("hello")).text == "17 crates"


async def test_a_fresh_card_is_not_asked_for_again():
    """Cache-Control is believed; after it, the tag is asked for and 304 is enough (CRD-4)."""
    now = [0.0]
    cards = Cards(clock=lambda: now[0])
    asked = []

    def handler(request):
        asked.append(request.headers.get("if-none-match"))
        if request.headers.get("if-none-match") == '"7"':
            return (
                b'HTTP/1.1 304 X\r\netag: "7"\r\ncache-control: max-age=60\r\ncontent-length: '
                b"0\r\n\r\n"
            )
        return answer(
            card(f"http://{request.headers['host']}/"),
            etag='"7"',
            cache_control="public, max-age=60",
        )

    async with scripted(handler) as peer:
        for at in (0, 30, 70, 100, 200):
            now[0] = at
            async with connect(peer.url, cards=cards) as client:
                assert client.card.name == "Dock clerk"
    assert asked == [None, '"7"', '"7"']


def test_no_store_is_believed_and_the_cache_is_bounded():
    """What must not be kept is not; what is kept is the newest."""
    cards = Cards(limit=2)
    cards.take("a", Response(200, {"Cache-Control": "no-store, max-age=60"}, b"a"))
    for name in "bcd":
        cards.take(name, Response(200, {"Cache-Control": "max-age=60"}, name.encode()))
    assert [cards.fresh(name) for name in "abcd"] == [None, None, b"c", b"d"]


HERE = "https://dock.example.net/.well-known/agent-card.json"
OLD_CARD = {
    "name": "Page turner",
    "description": "Summarises.",
    "url": "https://pages.example.net/rpc",
    "version": "3.1.0",
    "capabilities": {"streaming": True},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [{"id": "sum", "name": "Summary", "description": "Short.", "tags": ["text"]}],
}


def interfaces(value: dict, url: str = HERE) -> list[str]:
    notes: list[str] = []
    found = read_card(value, url, notes).supported_interfaces
    return [f"{i.protocol_binding} {i.protocol_version} {i.url}" for i in found]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (
            OLD_CARD | {"protocolVersion": "0.3.0", "preferredTransport": "JSONRPC"},
            ["JSONRPC 0.3 https://pages.example.net/rpc"],
        ),
        (OLD_CARD | {"protocolVersion": "0.2.6"}, ["JSONRPC 0.2 https://pages.example.net/rpc"]),
        (OLD_CARD | {"securitySchemes": {}}, ["JSONRPC 0.2 https://pages.example.net/rpc"]),
        (
            OLD_CARD | {"authentication": {"schemes": ["Bearer"]}},
            ["JSONRPC 0.1 https://pages.example.net/rpc"],
        ),
        (
            OLD_CARD,
            [
                "JSONRPC 0.3 https://pages.example.net/rpc",
                "JSONRPC 0.1 https://pages.example.net/rpc",
            ],
        ),
        (
            OLD_CARD
            | {
                "protocolVersion": "0.3.0",
                "preferredTransport": "HTTP+JSON",
                "additionalInterfaces": [{"url": "pages.example.net:50051", "transport": "GRPC"}],
            },
            ["HTTP+JSON 0.3 https://pages.example.net/rpc", "GRPC 0.3 pages.example.net:50051"],
        ),
        (
            card("https://dock.example.net/a2a")
            | {"url": "https://dock.example.net/old", "protocolVersion": "0.3.0"},
            [
                "JSONRPC 1.0 https://dock.example.net/a2a",
                "JSONRPC 0.3 https://dock.example.net/old",
            ],
        ),
    ],
    ids=["0.3", "0.2", "0.2 by its members", "0.1", "no mark", "several", "both"],
)
def test_versions_of_a_card(value, found):
    """What a card says, or gives away, of the versions its agent speaks."""
    assert interfaces(value) == found


def _one(**members) -> dict:
    return card(
        HERE,
        supportedInterfaces=[
            {
                "url": "https://dock.example.net/a2a",
                "protocolBinding": "JSONRPC",
                "protocolVersion": "1.0",
            }
            | members
        ],
    )


# What a card says, how it is read, and a word of the note.
REPAIRS: list[tuple[dict, str, str]] = [
    (_one(url="/a2a"), "JSONRPC 1.0 https://dock.example.net/a2a", "not complete"),
    (_one(url="a2a"), "JSONRPC 1.0 https://dock.example.net/a2a", "not complete"),
    (
        _one(url="dock.example.net:8443/a2a"),
        "JSONRPC 1.0 https://dock.example.net:8443/a2a",
        "not complete",
    ),
    (
        _one(url="http://localhost:8000/a2a"),
        "JSONRPC 1.0 https://dock.example.net/a2a",
        "can't be reached",
    ),
    (
        _one(url="http://0.0.0.0:8000/a2a"),
        "JSONRPC 1.0 https://dock.example.net/a2a",
        "can't be reached",
    ),
    (
        _one(protocolVersion=None),
        "JSONRPC 1.0 https://dock.example.net/a2a",
        "does not say its protocol version",
    ),
    (_one(protocolVersion="v1.0.0"), "JSONRPC 1.0 https://dock.example.net/a2a", ""),
    (_one(protocolVersion=1.0), "JSONRPC 1.0 https://dock.example.net/a2a", ""),
    (
        _one(protocolBinding="json-rpc"),
        "JSONRPC 1.0 https://dock.example.net/a2a",
        "is spelt JSONRPC",
    ),
    (
        _one(protocolBinding=None),
        "JSONRPC 1.0 https://dock.example.net/a2a",
        "does not say its binding",
    ),
    (
        _one(protocolBinding="REST"),
        "HTTP+JSON 1.0 https://dock.example.net/a2a",
        "is spelt HTTP+JSON",
    ),
    (
        {"name": "x", "preferredTransport": "HTTP+JSON", "skills": []},
        "HTTP+JSON 0.2 https://dock.example.net/",
        "does not say the agent's url",
    ),
    (_one() | {"name": None}, "JSONRPC 1.0 https://dock.example.net/a2a", "no name"),
    (_one() | {"version": None}, "JSONRPC 1.0 https://dock.example.net/a2a", "version"),
    (_one() | {"capabilities": None}, "JSONRPC 1.0 https://dock.example.net/a2a", ""),
    (
        _one() | {"capabilities": {"streaming": "true"}},
        "JSONRPC 1.0 https://dock.example.net/a2a",
        "text 'true'",
    ),
    (
        _one() | {"capabilities": ["streaming"]},
        "JSONRPC 1.0 https://dock.example.net/a2a",
        "not an object",
    ),
    (_one() | {"skills": None}, "JSONRPC 1.0 https://dock.example.net/a2a", ""),
    (
        _one() | {"skills": ["count", {"name": "Label crates"}, 7]},
        "JSONRPC 1.0 https://dock.example.net/a2a",
        "skills[2]",
    ),
    (_one() | {"iconUrl": 7}, "JSONRPC 1.0 https://dock.example.net/a2a", "iconUrl"),
    (_one() | {"securitySchemes": {"x": 7}}, "JSONRPC 1.0 https://dock.example.net/a2a", "'x'"),
    (
        _one() | {"provider": {"organization": "Docks"}},
        "JSONRPC 1.0 https://dock.example.net/a2a",
        "",
    ),
]


@pytest.mark.parametrize(("value", "found", "note"), REPAIRS, ids=lambda value: None)
def test_what_is_repaired_is_noted(value, found, note):
    """Real agents get cards wrong; the card works, and `notes` says what was done to it."""
    notes: list[str] = []
    read = read_card({k: v for k, v in value.items() if v is not None}, HERE, notes)
    interface = read.supported_interfaces[0]
    assert f"{interface.protocol_binding} {interface.protocol_version} {interface.url}" == found
    assert any(note in line for line in notes) if note else True


def test_a_good_card_needs_no_notes():
    """Nothing is said about what is right."""
    notes: list[str] = []
    read_card(_one(), HERE, notes)
    assert notes == []


def test_snake_case_and_security_of_every_version():
    """Schemes as 0.1, 0.2 and 1.0 write them are the same schemes."""
    old = OLD_CARD | {
        "securitySchemes": {"k": {"type": "apiKey", "in": "query", "name": "key"}},
        "security": [{"k": []}],
    }
    new = _one() | {
        "securitySchemes": {"k": {"apiKeySecurityScheme": {"location": "query", "name": "key"}}},
        "securityRequirements": [{"schemes": {"k": {"list": []}}}],
    }
    first = OLD_CARD | {"authentication": {"schemes": ["Basic"]}}
    read = [read_card(value, HERE, []) for value in (old, new, first)]
    assert read[0].security_schemes == read[1].security_schemes
    assert read[0].security_requirements == read[1].security_requirements
    assert read[2].security_schemes["Basic"].http_auth_security_scheme.scheme == "Basic"


async def test_a_card_without_version_is_probed():
    """No mark at all: 0.3 is tried, and an agent that knows no such method is spoken to in 0.1."""
    methods = []

    def handler(request):
        if request.verb == "GET":
            return answer(OLD_CARD | {"url": f"http://{request.headers['host']}/"})
        methods.append(request.json["method"])
        if request.json["method"] != "tasks/send":
            return answer(
                {
                    "jsonrpc": "2.0",
                    "id": request.json["id"],
                    "error": {"code": -32600, "message": "what?"},
                },
                400,
            )
        done = {
            "id": request.json["params"]["id"],
            "status": {"state": "completed"},
            "artifacts": [{"parts": [{"type": "text", "text": "17"}]}],
        }
        return answer({"jsonrpc": "2.0", "id": request.json["id"], "result": done})

    async with scripted(handler) as peer, connect(peer.url, retry=Retry(attempts=1)) as client:
        first = await client.send("how many?")
        second = await client.send("and now?")
    assert (first.text, second.text) == ("17", "17")
    assert methods == ["message/send", "tasks/send", "tasks/send"]


async def test_without_grpcio_the_error_says_what_to_install(monkeypatch):
    """Not that an agent does not offer what its card lists."""
    monkeypatch.setitem(sys.modules, "grpc", None)
    places = [
        {"url": "127.0.0.1:9", "protocolBinding": "GRPC", "protocolVersion": "1.0"},
    ]

    def handler(request):
        return answer(card(f"http://{request.headers['host']}/", supportedInterfaces=places))

    async with scripted(handler) as peer:
        for binding in (None, "GRPC"):
            with pytest.raises(BadCard) as refused:
                await connect(peer.url, binding=binding).__aenter__()
            said = str(refused.value)
            assert "GRPC 1.0 needs packages that are not installed: pip install" in said
            assert "does not offer" not in said
        with pytest.raises(BadCard, match="does not offer HTTP"):
            await connect(peer.url, binding="HTTP+JSON").__aenter__()
