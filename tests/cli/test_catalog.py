"""Agents by their name in a catalog."""

import json

import pytest
from click.testing import CliRunner

from accord.cli import main
from tests.cli.plain_server import serving_json
from tests.cli.shell import served

CARD = "application/a2a-agent-card+json"


pytestmark = pytest.mark.usefixtures("alone")


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("catalog")
    (folder / "hello.py").write_text(
        "from accord import Agent\nagent = Agent('Hello')\n"
        "@agent.skill\ndef hi(text: str) -> str:\n    return 'hi'\n"
    )
    with served("hello.py", "--store", "memory://", cwd=folder) as (_, url):
        yield url


def accord(*words, code=0):
    done = CliRunner().invoke(main, words)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
    assert done.exit_code == code, done.output
    return done


def catalog(*entries):
    return {"specVersion": "1.0", "entries": list(entries)}


def test_an_entry_stands_for_its_agent(url, tmp_path, monkeypatch):
    """CARD_GET_005: by its name or identifier, in a file or at an address, wherever an agent is
    named.
    """
    entry = {"identifier": "urn:air:corp.example:desk:hello", "displayName": "Hello desk",
             "type": CARD, "url": f"{url}/.well-known/agent-card.json"}  # fmt: skip
    skill = {"identifier": "urn:air:corp.example:tool", "type": "application/mcp", "url": "x"}
    (tmp_path / "agents.json").write_text(json.dumps(catalog(entry, skill)))
    for name in ("hello", "Hello desk", "urn:air:corp.example:desk:hello"):
        sent = accord("send", f"catalog:{name}", "x", "--catalog", "agents.json")
        assert sent.stdout == "hi\n"
    card = accord("card", "get", "-a", "catalog:hello", "--catalog", "agents.json", "-o", "json")
    assert json.loads(card.stdout)["name"] == "Hello"

    asked = []

    def answer(path, given):
        asked.append(path)
        nested = {"identifier": "more", "mediaType": "application/ai-catalog+json",
                  "url": "/more.json"}  # fmt: skip
        return {"/.well-known/ai-catalog.json": catalog(nested), "/more.json": catalog(entry)}.get(
            path
        )

    with serving_json(answer) as place:
        monkeypatch.setenv("A2ACLI_CATALOG", place)
        assert accord("send", "catalog:hello", "x").stdout == "hi\n"
        assert accord("send", url, "x").stdout == "hi\n"  # an address is asked of no catalog
    assert asked == ["/.well-known/ai-catalog.json", "/more.json"]


def test_a_card_in_the_catalog_itself(url, tmp_path):
    """CARD_GET_005"""
    card = json.loads(accord("card", "get", url, "-o", "json").stdout)
    entry = {"identifier": "hello", "type": CARD, "data": card}
    (tmp_path / "agents.json").write_text(json.dumps(catalog(entry)))
    assert accord("send", "catalog:hello", "x", "--catalog", "agents.json").stdout == "hi\n"


@pytest.mark.parametrize(("entries", "what", "code"), [
    (None, "not an AI Catalog", 1),
    ([], "has no agent 'hello'; it has none", 3),
    ([{"identifier": "a:other", "displayName": "Other", "type": CARD, "url": "x"}], "Other", 3),
    ([{"identifier": f"{n}:hello", "type": CARD, "url": "x"} for n in "ab"], "a:hello, b:hello", 3),
    ([{"identifier": "hello", "type": CARD}], "neither url nor data", 1),
])  # fmt: skip
def test_what_is_not_found_is_named(tmp_path, entries, what, code):
    (tmp_path / "agents.json").write_text(
        json.dumps(catalog(*entries) if entries is not None else [])
    )
    done = accord("send", "catalog:hello", "x", "--catalog", "agents.json", code=code)
    assert what in done.stderr


def test_a_host_is_known_by_its_catalog(url, tmp_path):
    """A host without a card of its own: the card of its one agent is shown, several are named."""
    card = json.loads(accord("card", "get", url, "-o", "json").stdout)
    echo = {"identifier": "urn:air:x:agents:hello", "displayName": "Hello", "type": CARD,
            "url": f"{url}/.well-known/agent-card.json"}  # fmt: skip
    listed = [echo, {"type": "application/mcp-server+json", "url": "https://x.example/mcp"}]

    def answer(path, given):
        return catalog(*listed) if path == "/.well-known/ai-catalog.json" else None

    with serving_json(answer) as host:
        shown = accord("card", "get", host, "-o", "json")
        assert json.loads(shown.stdout) == card
        assert accord("send", host, "x").stdout == "hi\n"
        listed.append({**echo, "displayName": "Other", "url": "/other.json"})
        several = accord("card", "get", host, code=1)
        for part in ("2 agents", "'Hello'", f"{url}/.well-known/agent-card.json", "'Other'",
                     f"{host}/other.json"):  # fmt: skip
            assert part in several.stderr
        listed.clear()
        none = accord("card", "get", host, code=3)
        assert "ai-catalog.json (which lists no agent)" in none.stderr


def test_several_agents_of_one_port_are_named(tmp_path):
    """Beside the card that is at the address itself, and only for that address."""
    (tmp_path / "desk.py").write_text(
        "from accord import Agent\none, two = Agent('Hello'), Agent('Other')\n"
        "@one.skill\n@two.skill\ndef hi(text: str) -> str:\n    return 'hi'\n"
    )
    words = ("desk.py:one", "desk.py:two", "--store", "memory://")
    with served(*words, cwd=tmp_path) as (_, url):
        for place in (url, url.removeprefix("http://")):
            for output in ((), ("-o", "text")):
                shown = accord("card", "get", place, *output).stdout
                assert "Directory" in shown
                for name in ("Hello", "Other"):
                    place_of_card = f"/{name.lower()}/.well-known/agent-card.json"
                    assert any(name in line and place_of_card in line for line in shown.split("\n"))
        assert "Other" not in accord("card", "get", f"{url}/hello").stdout
        card = json.loads(accord("card", "get", url, "-o", "json").stdout)
        assert card["name"] == "Directory"


def test_names_in_a_catalog_do_no_harm_to_a_terminal(url):
    """They are a stranger's. A catalog that can't be read costs nothing."""
    card = json.loads(accord("card", "get", url, "-o", "json").stdout)
    entry = {"identifier": "x", "type": CARD, "url": "/card.json"}
    listed = [{**entry, "displayName": "One\x1b[31m\nTwo"}, {**entry, "displayName": "z" * 500}]
    answers = {"/.well-known/agent-card.json": card, "/.well-known/ai-catalog.json": {}}
    with serving_json(lambda path, given: answers.get(path)) as host:
        assert "catalog" not in accord("card", "get", host).stdout
        answers["/.well-known/ai-catalog.json"] = catalog(*listed)
        shown = accord("card", "get", host).stdout
        assert "\x1b" not in shown
        assert "lists 2 agents" in shown
        assert max(map(len, shown.split("\n"))) < 300


def test_catalogs_that_name_others_without_end_are_left():
    asked = []

    def answer(path, given):
        asked.append(path)
        kind = "application/ai-catalog+json"
        return catalog(*({"type": kind, "url": f"{path}/{n}"} for n in range(8)))

    with serving_json(answer) as place:
        done = accord("send", "catalog:hello", "x", "--catalog", place, code=1)
    assert "more than 50 catalogs" in done.stderr
    assert len(asked) == 50


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://x.example/card", "http://[::1"])
def test_a_catalog_of_an_address_names_no_files(url):
    """What stands in a file is its owner's; what a stranger serves is not."""
    entry = {"identifier": "hello", "type": CARD, "url": url}
    with serving_json(lambda path, given: catalog(entry)) as place:
        done = accord("send", "catalog:hello", "x", "--catalog", place, code=1)
    assert "neither url nor data" in done.stderr


def test_a_catalog_has_to_be_named_and_there(tmp_path):
    assert "--catalog" in accord("send", "catalog:hello", "x", code=2).stderr
    missing = accord("send", "catalog:hello", "x", "--catalog", "nowhere.json", code=3)
    assert "can't be read" in missing.stderr
    accord("send", "catalog:hello", "x", "--catalog", "http://127.0.0.1:9", code=3)
