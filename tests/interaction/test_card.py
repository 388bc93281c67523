"""The agent card: content, caching, and the address it gives."""

from typing import Any

import msgspec
import pytest

from accord import Agent, Context, File
from accord.model import AgentInterface, AgentProvider
from tests.drive import text_of

PATH = "/.well-known/agent-card.json"


async def echo(request: str):
    """Say it again."""
    return request


def echo_agent() -> Agent:
    agent = Agent("Plain")
    agent.skill(echo)
    return agent


async def test_the_card_says_what_is_served(connect_rest):
    """Every mandatory member is there, and true (CRD-1, CRD-2, CRD-6)."""
    agent = Agent("Trip planner", description="Plans short trips.", version="2.1.0")

    @agent.skill(tags=["travel"], examples=["A weekend in Rome"])
    async def plan_trip(request: str):
        """Plan a trip."""

    async with connect_rest(agent, versions=["1.0"]) as client:
        card = await client.card()
        assert (card["name"], card["description"], card["version"]) == (
            "Trip planner",
            "Plans short trips.",
            "2.1.0",
        )
        assert card["supportedInterfaces"] == [
            {"url": client.url + "/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
            {"url": client.url, "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
        ]
        assert card["capabilities"]["streaming"] is True
        assert (
            card["defaultInputModes"]
            == card["defaultOutputModes"]
            == ["text/plain", "application/json"]
        )
        [skill] = card["skills"]
        assert skill == {
            "id": "plan_trip",
            "name": "Plan trip",
            "description": "Plan a trip.",
            "tags": ["travel"],
            "examples": ["A weekend in Rome"],
        }


async def test_the_newest_version_is_preferred(connect_rest):
    """One URL may serve several versions; who can choose takes the first, which is 1.0 (CRD-2,
    CRD-7).
    """
    async with connect_rest(echo) as client:
        versions = [
            entry["protocolVersion"] for entry in (await client.card())["supportedInterfaces"]
        ]
        assert versions[:2] == ["1.0", "1.0"]
        assert versions == sorted(versions, reverse=True)


async def test_a_card_needs_nothing_but_a_name_and_a_skill(connect_rest):
    """Mandatory members have defaults: none is ever empty (CRD-6)."""

    async def bare(request: str):
        return request

    async with connect_rest(bare) as client:
        card = await client.card()
        skill = card["skills"][0]
        assert all(
            [
                card["name"],
                card["description"],
                card["version"],
                card["defaultInputModes"],
                card["defaultOutputModes"],
            ]
        )
        assert all([skill["id"], skill["name"], skill["description"], skill["tags"]])


async def test_a_card_holds_no_empty_or_unknown_member(connect_rest):
    """Such a card canonicalizes the same way everywhere (SIG-7)."""

    def hollow(value):
        items = (
            value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        )
        return value in ("", [], {}) or any(hollow(item) for item in items)

    async with connect_rest(echo, versions=["1.0"]) as client:
        assert not hollow(await client.card())


async def test_the_agent_has_the_last_word_on_its_card(connect_rest):
    """An @agent.card hook may change anything."""
    agent = Agent("Plain", provider=AgentProvider(organization="Us", url="https://us.example"))
    agent.skill(echo)

    @agent.card
    def edit(card):
        card.documentation_url = "https://us.example/docs"

    async with connect_rest(agent) as client:
        card = await client.card()
        assert (card["documentationUrl"], card["provider"]["organization"]) == (
            "https://us.example/docs",
            "Us",
        )


async def test_interfaces_of_an_edited_card_are_served_as_they_are(connect_rest):
    """Also what older versions read is made from them."""
    agent = Agent("Plain")
    agent.skill(echo)
    place = AgentInterface(
        url="https://old.example/a2a", protocol_binding="JSONRPC", protocol_version="0.3"
    )

    @agent.card
    def edit(card):
        new = [one for one in card.supported_interfaces if one.protocol_version == "1.0"]
        card.skills[0].tags.append("mine")
        return msgspec.structs.replace(card, supported_interfaces=[*new, place])

    async with connect_rest(agent) as client:
        for _ in range(2):
            card = await client.card()
            assert [one["protocolVersion"] for one in card["supportedInterfaces"]] == [
                "1.0",
                "1.0",
                "0.3",
            ]
            assert card["url"] == "https://old.example/a2a"
            assert card["skills"][0]["tags"] == ["echo", "mine"]


@pytest.mark.parametrize(("result", "what"), [
    (lambda card: {"name": "x"}, "returned dict"),
    (lambda card: msgspec.structs.replace(card, supported_interfaces=[]), "no client could reach"),
    (lambda card: setattr(card.supported_interfaces[0], "url", "hr.corp.example"), "not an http"),
    (lambda card: msgspec.structs.replace(card, version=3), "version: expected text"),
    (lambda card: msgspec.structs.replace(card, skills=card.skills * 2), "two skills have the id"),
])  # fmt: skip
def test_a_card_no_client_could_use_is_refused_at_start(result, what):
    """A mistake in `@agent.card` is told to who wrote it, not to clients."""
    agent = Agent("Plain")
    agent.skill(echo)
    agent.card(result)
    with pytest.raises((TypeError, ValueError), match=f"@agent.card.*{what}"):
        agent.app()


@pytest.mark.parametrize(
    "url",
    ["hr.corp.example", "ftp://hr.corp.example", "https://a b/", "https://hr.example/?x=1", "/hr"],
)
def test_an_address_no_client_could_call_is_refused_at_start(url):
    """It would stand in the card, and the first client would find out."""
    with pytest.raises(ValueError, match=r"^url="):
        echo_agent().app(url=url)


def test_a_card_is_made_without_waiting():
    """Cards are made for each address as they are asked for, so the function can't be awaited."""
    agent = Agent("Plain")
    agent.skill(echo)

    @agent.card
    async def edit(card):
        return card

    with pytest.raises(TypeError, match="not async def"):
        agent.app()


async def test_every_interface_of_the_card_can_be_used(connect_rest):
    """The URLs are exact: JSON-RPC is posted to its own, HTTP+JSON paths are put behind theirs
    (CRD-2).
    """
    async with connect_rest(echo) as client:
        rpc, rest = [
            e["url"]
            for e in (await client.card())["supportedInterfaces"]
            if e["protocolVersion"] == "1.0"
        ]
        message = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}}
        call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": message}
        async with client.http.post(rpc, json=call) as response:
            assert text_of((await response.json())["result"]["task"]) == "hi"
        async with client.http.post(rest + "/message:send", json=message) as response:
            assert text_of((await response.json(content_type=None))["task"]) == "hi"


async def test_the_card_can_be_cached(connect_rest):
    """Cache-Control with max-age, ETag, Last-Modified, and 304 for who has it already (CRD-4)."""
    async with connect_rest(echo) as client:
        async with client.http.get(client.url + PATH) as first:
            assert first.status == 200
            assert first.content_type == "application/json"
            assert "max-age=" in first.headers["Cache-Control"]
            assert first.headers["Last-Modified"].endswith("GMT")
        for tag in (
            first.headers["ETag"],
            f'"other", {first.headers["ETag"]}',
            "W/" + first.headers["ETag"],
        ):
            async with client.http.get(client.url + PATH, headers={"If-None-Match": tag}) as again:
                assert (again.status, await again.read()) == (304, b"")
                assert again.headers["ETag"] == first.headers["ETag"]
        async with client.http.get(
            client.url + PATH, headers={"If-None-Match": '"other"'}
        ) as changed:
            assert changed.status == 200


async def test_any_tag_matches_a_star(connect_rest):
    """If-None-Match: * means any version at all (RFC 9110)."""
    async with (
        connect_rest(echo) as client,
        client.http.get(client.url + PATH, headers={"If-None-Match": "*"}) as response,
    ):
        assert response.status == 304


async def test_head_of_the_card_has_the_headers_of_get_and_no_body(connect_rest):
    """A cheap look at whether it has changed (CRD-4)."""
    async with (
        connect_rest(echo) as client,
        client.http.get(client.url + PATH) as got,
        client.http.head(client.url + PATH) as head,
    ):
        assert (head.status, await head.read()) == (200, b"")
        for name in ("ETag", "Content-Length", "Content-Type", "Last-Modified"):
            assert head.headers[name] == got.headers[name]


async def test_the_card_is_not_sent_again_if_it_is_as_old_as_known(connect_rest):
    """If-Modified-Since counts where no tag is given (CRD-4)."""
    async with connect_rest(echo) as client:
        async with client.http.get(client.url + PATH) as first:
            since = {"If-Modified-Since": first.headers["Last-Modified"]}
        async with client.http.get(client.url + PATH, headers=since) as again:
            assert again.status == 304
        async with client.http.get(
            client.url + PATH, headers=since | {"If-None-Match": '"other"'}
        ) as changed:
            assert changed.status == 200


async def test_the_card_needs_no_version(connect_rest):
    """The fetch is not version-gated: even an odd header gets the card (section 3.2)."""
    async with (
        connect_rest(echo) as client,
        client.http.get(client.url + PATH, headers={"A2A-Version": "99.0"}) as response,
    ):
        assert response.status == 200


@pytest.mark.parametrize(
    ("host", "trusted"),
    [
        ("localhost:8123", True),
        ("127.0.0.1:8123", True),
        ("[::1]:8123", True),
        ("evil.example", False),
        ("evil.example:80", False),
    ],
)
async def test_a_strangers_host_header_is_not_believed(connect_rest, host, trusted):
    """Without a configured URL only loopback and the bound address count (design, rule 18;
    CRD-5).
    """
    async with connect_rest(echo) as client:
        async with client.http.get(client.url + PATH, headers={"Host": host}) as response:
            rest = (await response.json())["supportedInterfaces"][1]["url"]
        assert rest == (f"http://{host}" if trusted else client.url)


async def test_forwarded_headers_are_not_believed(connect_rest):
    """Anyone can send them (design, rule 18)."""
    headers = {
        "X-Forwarded-Host": "evil.example",
        "X-Forwarded-Proto": "https",
        "Forwarded": "host=evil.example",
    }
    async with (
        connect_rest(echo) as client,
        client.http.get(client.url + PATH, headers=headers) as response,
    ):
        assert (await response.json())["supportedInterfaces"][1]["url"] == client.url


async def test_a_configured_url_is_the_one_in_the_card(connect_rest):
    """What the operator says goes, whatever the Host header is (design, rule 18)."""
    async with connect_rest(echo, url="https://agents.example/trip/") as client:
        urls = [
            e["url"]
            for e in (await client.card())["supportedInterfaces"]
            if e["protocolVersion"] == "1.0"
        ]
        assert urls == ["https://agents.example/trip/", "https://agents.example/trip"]


async def test_the_paths_of_the_bindings_can_be_chosen(connect_rest):
    """Both show in the card, and both work, JSON-RPC with and without a final slash."""
    message = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": message}
    async with connect_rest(echo, rpc="/rpc", rest="/api") as client:
        urls = [
            e["url"]
            for e in (await client.card())["supportedInterfaces"]
            if e["protocolVersion"] == "1.0"
        ]
        assert urls == [client.url + "/rpc", client.url + "/api"]
        for path in ("/rpc", "/rpc/"):
            status, answer = await client.post(path, call)
            assert (status, text_of(answer["result"]["task"])) == (200, "hi")
        status, answer = await client.post("/api/message:send", message)
        assert (status, text_of(answer["task"])) == (200, "hi")
        status, _ = await client.post("/message:send", message)
        assert status == 404


async def test_skills_may_state_their_own_modes(connect_rest):
    """Per skill, over the card's defaults (section 1.4)."""
    agent = Agent("Painter", input_modes=["text/plain"], output_modes=["text/plain"])

    @agent.skill(output_modes=["image/png"])
    async def paint(request: str):
        return File(b"...", name="a.png")

    async with connect_rest(agent) as client:
        card = await client.card()
        assert (card["defaultOutputModes"], card["skills"][0]["outputModes"]) == (
            ["text/plain"],
            ["image/png"],
        )


@pytest.mark.parametrize(("strict", "kinds"), [
    (None, {"text/csv", "text/tab-separated-values", "application/octet-stream", ""}),
    (False, {"text/csv", "text/tab-separated-values", "application/octet-stream", "", "image/png"}),
])  # fmt: skip
async def test_input_modes_that_were_given_are_held_to(connect_rest, strict, kinds):
    """A part of another media type is ContentTypeNotSupported (SND-8), unless modes are advice."""
    agent = Agent("Charts", strict_modes=strict)

    @agent.skill(input_modes=["text/csv; charset=utf-8", "text/tab*"])
    async def draw(table: File) -> str:
        return table.name

    @agent.skill
    async def store(table: File) -> str:
        return table.name

    def message(kind, skill):
        part = {"raw": "eA==", "filename": "a", **({"mediaType": kind} if kind else {})}
        metadata = {"skill": skill}
        said = {"messageId": kind + skill, "role": "ROLE_USER", "parts": [part]}
        return {"message": {**said, "metadata": metadata}}

    async with connect_rest(agent) as client:
        taken = set()
        for kind in ("text/csv", "text/tab-separated-values", "application/octet-stream", "",
                     "image/png"):  # fmt: skip
            status, answer = await client.post("/message:send", message(kind, "draw"))
            if status == 200:
                taken.add(kind)
                continue
            assert (status, answer["error"]["details"][0]["reason"]) == (
                400,
                "CONTENT_TYPE_NOT_SUPPORTED",
            )
            assert "'image/png'; this skill takes text/csv" in answer["error"]["message"]
        assert taken == kinds
        status, _ = await client.post("/message:send", message("image/png", "store"))
        assert status == 200  # it gave no modes


async def test_later_messages_of_a_task_are_held_to_its_modes(connect_rest):
    """What the skill does not take is refused and not stored (SND-8); an answer may always be text
    or JSON.
    """
    agent = Agent("Charts")

    @agent.skill(input_modes=["text/csv"])
    async def draw(table: File, ctx: Context) -> str:
        return f"{await ctx.ask('How many rows?', int)} rows"

    def message(id_, part, **more):
        return {"message": {"messageId": id_, "role": "ROLE_USER", "parts": [part], **more}}

    async with connect_rest(agent) as client:
        table = {"raw": "eA==", "mediaType": "text/csv"}
        _, answer = await client.post("/message:send", message("1", table))
        task_id = answer["task"]["id"]
        picture = {"raw": "eA==", "mediaType": "image/png"}
        status, answer = await client.post("/message:send", message("2", picture, taskId=task_id))
        assert (status, answer["error"]["details"][0]["reason"]) == (
            400,
            "CONTENT_TYPE_NOT_SUPPORTED",
        )
        number = {"data": 3, "mediaType": "application/json"}
        _, answer = await client.post("/message:send", message("3", number, taskId=task_id))
        task = answer["task"]
        assert task["artifacts"][0]["parts"][0]["text"] == "3 rows"
        said = [one["messageId"] for one in task["history"] if one["role"] == "ROLE_USER"]
        assert said == ["1", "3"]


async def test_modes_of_the_agent_and_strict_ones(connect_rest):
    """What the agent gives counts for its skills; `strict_modes` holds to text and JSON too."""
    cases: list[tuple[dict[str, Any], str, int]] = [
        ({"input_modes": ["image"]}, "image/png", 200),
        ({"input_modes": ["image"]}, "text/csv", 400),
        ({"input_modes": ["text", "file"]}, "image/png", 200),
        ({"input_modes": ["text", "data"]}, "application/json", 200),
        ({"input_modes": ["text", "data"]}, "image/png", 400),
        ({"strict_modes": True}, "text/csv", 400),
        ({"strict_modes": True}, "text/plain", 200),
    ]
    for options, kind, wanted in cases:
        agent = Agent("Painter", **options)

        @agent.skill
        async def paint(picture: File) -> str:
            return picture.name

        part = {"raw": "eA==", "filename": "a", "mediaType": kind}
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [part]}
        async with connect_rest(agent) as client:
            status, _ = await client.post("/message:send", {"message": message})
            assert (options, kind, status) == (options, kind, wanted)
