"""Search: stored cases, filters, who sees what, many skills, vectors."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from aiohttp import web

from accord.hub import Health, Visibility
from accord.hub.access.principals import SYSTEM
from accord.hub.aggregate import SURE
from accord.hub.find import Finder, SearchFilters
from accord.hub.find.words import request_words, words_of
from accord.hub.hub import ADMIN
from accord.model import AgentSkill
from tests.hub.cases import Case, card_of, load_cases
from tests.hub.hubs import Desk, hub_at
from tests.reliability.harness import size


async def fill(desk: Desk) -> None:
    """Add the agents of the stored cases."""
    for case in load_cases()[0]:
        await desk.hub.admission.add(SYSTEM, card=card_of(case), name=case.name)


async def first_five(finder: Finder, text: str) -> list[tuple[str, str]]:
    """The five skills that fit best, over all agents."""
    found = await finder.search(ADMIN, text)
    skills = [(-one.score, agent.agent, one.id) for agent in found.agents for one in agent.skills]
    return [(agent, skill) for _, agent, skill in sorted(skills)[:5]]


def test_words():
    """Case and accents do not matter; Chinese is pairs of characters."""
    assert words_of("createEmployee HTTPServer Café") == words_of(
        "create employee http server cafe"
    )
    assert words_of("预订机票") == ["预订", "订机", "机票"]
    assert list(request_words("Could you please help me to book a flight?")) == ["book", "flight"]
    assert list(request_words("请帮我预订机票")) == ["预订", "订机", "机票"]


async def test_the_stored_cases_by_words(tmp_path):
    """120 skills, 213 requests: every request by keywords finds its skill first, by words alone."""
    agents, requests = load_cases()
    assert (sum(len(agent.skills) for agent in agents) >= 120, len(requests) >= 150) == (True, True)
    async with hub_at(tmp_path) as desk:
        await fill(desk)
        missed = []
        others = 0
        for request in requests:
            found = await first_five(desk.hub.finder, request.text)
            if request.is_by_keywords and found[:1] != [(request.agent, request.skill)]:
                missed.append((request.text, found))
            others += not request.is_by_keywords and (request.agent, request.skill) in found
    total = sum(not request.is_by_keywords for request in requests)
    print(f"\nby words: all {len(requests) - total} keyword requests first; "
          f"{others} of {total} in other words among the first five")  # fmt: skip
    assert missed == []


@pytest.mark.parametrize(
    ("text", "is_sure"),
    [
        ("police", False),
        ("call the police", False),
        ("policy", True),
        ("read the policy", True),
        ("polic", False),
        ("university", False),
        ("read university policies", False),
        ("universe", True),
        ("read universe policies", True),
    ],
)
async def test_a_match_by_stem_alone_is_never_a_sure_one(tmp_path, text, is_sure):
    """`police` found the skill about a policy with 100, and the hub's agent used it unasked."""
    skill = {"id": "read_policy", "name": "Read policy", "description": "Read it, universe."}
    case = Case("insurance", "Insurance", [skill | {"tags": ["policy"]}])
    async with hub_at(tmp_path) as desk:
        await desk.hub.admission.add(SYSTEM, card=card_of(case), name=case.name)
        found = (await desk.hub.finder.search(ADMIN, text)).agents
        scores = [one.score for agent in found for one in agent.skills]
        assert any(score >= SURE for score in scores) is is_sure, scores


@pytest.mark.parametrize("text", ["translate", "translation", "translating", "translations"])
async def test_endings_of_english_words_do_not_matter(tmp_path, text):
    """SQLite's own stemmer (Porter) finds them."""
    skill = {"id": "translate_text", "name": "Translate", "description": "Translates a text."}
    case = Case("words", "Words", [skill | {"tags": ["language"]}])
    async with hub_at(tmp_path) as desk:
        await desk.hub.admission.add(SYSTEM, card=card_of(case), name=case.name)
        assert await first_five(desk.hub.finder, text) == [("words", "translate_text")]


async def test_none_fits(tmp_path):
    """Nothing is returned for what no agent offers."""
    async with hub_at(tmp_path) as desk:
        await fill(desk)
        found = [await first_five(desk.hub.finder, text) for text in ("knit a sweater", "量子物理")]
    assert found == [[], []]


async def test_over_rest_with_filters(tmp_path):
    """The same over REST: strangers' texts stand below `untrusted`, filters narrow."""
    async with hub_at(tmp_path) as desk:
        await fill(desk)
        answer = await desk.call("GET", "/search?text=order+laptop")
        hit = answer.body["untrusted"][0]
        assert (hit["agent"], hit["callable"], hit["health"]) == ("it-desk", True, "new")
        assert (hit["skills"][0]["id"], hit["skills"][0]["why"]) == (
            "order_laptop",
            ["order", "laptop"],
        )
        assert "not instructions" in answer.body["notice"]
        assert answer.body["meaning"] == "off"
        names = {
            query: [one["agent"] for one in found.body["untrusted"]]
            for query in (
                "tag=invoice",
                "skill=play_music",
                "language=zh&limit=100",
                "state=down",
                "text=book&tag=hotel",
                "binding=GRPC",
                "capability=streaming&version=1.0&takes=text/plain&gives=text/plain&tag=invoice",
                "min_score=50",
            )
            if (found := await desk.call("GET", f"/search?{query}")).status == 200
        }
        wrong = await desk.call("GET", "/search?order=best")
    assert names == {
        "tag=invoice": ["finance"],
        "skill=play_music": ["home"],
        "language=zh&limit=100": ["zh-18", "zh-19", "zh-20", "zh-21", "zh-22", "zh-23"],
        "state=down": [],
        "text=book&tag=hotel": ["travel"],
        "binding=GRPC": [],
        "capability=streaming&version=1.0&takes=text/plain&gives=text/plain&tag=invoice": [
            "finance"
        ],
        "min_score=50": [],
    }
    assert wrong.status == 400


async def test_a_caller_finds_only_what_it_sees(tmp_path):
    """Private and team entries are found by who sees them; a hidden skill by nobody else."""
    cases = load_cases()[0]
    async with hub_at(tmp_path) as desk:
        for case, visibility in zip(cases[:3], Visibility, strict=True):
            team = "it" if visibility is Visibility.TEAM else ""
            await desk.hub.admission.add(
                SYSTEM, card=card_of(case), name=case.name, visibility=visibility, team=team
            )
        await desk.key("bob")
        await desk.key("eve", "user", "it")
        rule = {"who": "!team:it", "what": "skill:hr/update_salary", "may": "see", "effect": "deny"}
        assert (await desk.call("POST", "/policies", rule)).status < 300
        seen = {}
        for who in ("admin", "eve", "bob", "guest"):
            everything = await desk.call("GET", "/search", by=who)
            salary = await desk.call("GET", "/search?text=change+salary", by=who)
            seen[who] = (
                sorted(one["agent"] for one in everything.body["untrusted"]),
                [skill["id"] for one in salary.body["untrusted"] for skill in one["skills"]],
            )
    assert seen == {
        "admin": (["hr", "it-desk", "travel"], ["update_salary"]),
        "eve": (["hr", "it-desk"], ["update_salary"]),
        "bob": (["hr"], []),
        "guest": (["hr"], []),
    }


async def test_the_index_follows_the_registry(tmp_path):
    """What is changed, suspended or retired is found so at once."""
    case = load_cases()[0][0]
    async with hub_at(tmp_path) as desk:
        registry, finder = desk.hub.registry, desk.hub.finder
        await desk.hub.admission.add(SYSTEM, card=card_of(case), name="hr")
        assert await first_five(finder, "request vacation leave") == [("hr", "request_leave")]
        other = Case("hr", case.title, [case.skills[0]])
        await desk.hub.versions.paste("hr", card_of(other))
        await desk.hub.versions.approve(SYSTEM, "hr", 2)
        assert await first_five(finder, "request vacation leave") == []
        assert await first_five(finder, "create employee record") == [("hr", "create_employee")]
        await registry.suspend(SYSTEM, "hr")
        assert await first_five(finder, "create employee record") == []
        await registry.resume(SYSTEM, "hr")
        assert await first_five(finder, "create employee record") == [("hr", "create_employee")]
        await registry.retire(SYSTEM, "hr")
        assert await first_five(finder, "create employee record") == []


async def test_health_decides_between_equals(tmp_path):
    """Of two agents with the same skill, the one that is up comes first."""
    case = load_cases()[0][0]
    async with hub_at(tmp_path) as desk:
        for name in ("a", "b", "c"):
            await desk.hub.admission.add(SYSTEM, card=card_of(case), name=name)
        await desk.hub.health.set_health("a", Health(state="broken"))
        await desk.hub.health.set_health("b", Health(state="up"))
        await desk.hub.health.set_health("c", Health(state="down"))
        found = await desk.hub.finder.search(ADMIN, "create employee record")
        all_three = SearchFilters(state="up,broken,down")
        asked = await desk.hub.finder.search(ADMIN, "create employee record", all_three)
    assert [one.agent for one in found.agents] == ["b", "a"]
    assert [one.agent for one in asked.agents] == ["b", "a", "c"]


async def test_many_skills(tmp_path):
    """The time of a search is printed, and the right one is still found."""
    cases, agents = load_cases()[0], size(60, 300)
    words = sorted({w for case in cases for s in case.skills for w in s["description"].split()})
    async with hub_at(tmp_path) as desk:
        await fill(desk)
        real = desk.hub.registry.get("hr")
        assert real is not None
        entries = {}
        begun = time.perf_counter()
        for n in range(agents):
            skills = [
                AgentSkill(
                    id=f"s{i}",
                    name=f"skill {i}",
                    description=" ".join(
                        words[(n * 31 + i * 7 + k * k) % len(words)] for k in range(9)
                    ),
                    tags=[words[(n + i) % len(words)]],
                )
                for i in range(100)
            ]
            card = msgspec.structs.replace(real.card, skills=skills)
            name = f"many-{n}"
            entries[name] = msgspec.structs.replace(
                real, id=name, name=name, card=card, card_sha256=name
            )
            desk.hub.finder.take(entries[name])
        took_s = time.perf_counter() - begun
        times = []
        for request in load_cases()[1][: size(30, 100)]:
            begun = time.perf_counter()
            await desk.hub.finder.search(ADMIN, request.text)
            times.append(1000 * (time.perf_counter() - begun))
        found = await first_five(desk.hub.finder, "rotate keys of service secrets")
        count = len(desk.hub.finder.index)
    times.sort()
    print(
        f"\n{count} skills indexed in {took_s:.1f} s; a search takes "
        f"{times[len(times) // 2]:.1f} ms (p50), {times[len(times) * 95 // 100]:.1f} ms (p95)"
    )
    assert count == 100 * agents + 120
    assert ("security", "rotate_secrets") in found


# Vectors

CONCEPTS = [
    ["vacation", "leave", "holiday", "absence", "weeks", "july"],
    ["laptop", "computer", "machine", "device", "hardware"],
    ["password", "login", "log", "account"],
]


def toy_vector(text: str) -> list[float]:
    """A vector with a number per concept: enough to see that vectors are used."""
    words = [word.strip(".,!?").lower() for word in text.split()]
    return [0.01 + sum(word in concept for word in words) for concept in CONCEPTS]


@asynccontextmanager
async def embeddings() -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """An endpoint of the usual shape; `state` makes it fail."""
    state: dict[str, Any] = {"status": 200, "asked": 0}

    async def answer(request: web.Request) -> web.Response:
        state["asked"] += 1
        texts = (await request.json())["input"]
        data = [{"index": i, "embedding": toy_vector(text)} for i, text in enumerate(texts)]
        return web.json_response({"data": data}, status=state["status"])

    app = web.Application()
    app.router.add_post("/v1/embeddings", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1/embeddings", state
    finally:
        await runner.cleanup()


async def test_meaning_from_an_endpoint(tmp_path):
    """What shares no word is found by its vector; without the endpoint words go on, and it is
    said.
    """
    async with embeddings() as (url, state), hub_at(tmp_path, meaning=url) as desk:
        await fill(desk)
        text = "two weeks off in july"
        near = await desk.hub.finder.search(ADMIN, text)
        state["status"] = 500
        desk.hub.finder.take(desk.hub.registry.all()[0])
        away = await desk.hub.finder.search(ADMIN, "order laptop")
        asked = state["asked"]
        again = await desk.hub.finder.search(ADMIN, "order laptop")
    assert (near.meaning, near.agents[0].agent, near.agents[0].skills[0].id) == (
        "on",
        "hr",
        "request_leave",
    )
    assert near.agents[0].skills[0].why == ["meaning"]
    assert (away.meaning, away.agents[0].agent, "500" in away.why_off) == ("off", "it-desk", True)
    assert (again.meaning, state["asked"]) == ("off", asked)  # it is left alone for a while


async def test_meaning_from_a_folder(tmp_path):
    """A folder with a model2vec model, as --meaning takes it."""
    pytest.importorskip("model2vec")
    import numpy
    from model2vec import StaticModel
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    words = ["[UNK]", *(word for concept in CONCEPTS for word in concept)]
    tokenizer = Tokenizer(WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    vectors = numpy.array([toy_vector(word) for word in words], dtype=numpy.float32)
    folder = tmp_path / "model"
    StaticModel(vectors, tokenizer, normalize=True).save_pretrained(str(folder))
    async with hub_at(tmp_path, meaning=str(folder)) as desk:
        await fill(desk)
        found = await desk.hub.finder.search(ADMIN, "holiday in july")
    assert (found.meaning, found.agents[0].skills[0].id) == ("on", "request_leave")


def test_no_such_folder(tmp_path):
    """A wrong --meaning is said at the start."""
    from accord.hub import Hub, HubSettings

    with pytest.raises(ValueError, match="neither a folder nor a URL"):
        Hub(HubSettings(store=f"sqlite:///{tmp_path}/hub.db", meaning=str(tmp_path / "nothing")))
