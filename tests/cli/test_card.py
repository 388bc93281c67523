"""accord card get, and what commands do with what a card says. Cards are files, agents are real."""

import importlib.metadata
import json
import urllib.request

import pytest
from click.testing import CliRunner

from accord.cli import main
from tests.cli.plain_server import serving_json
from tests.cli.shell import served

CLERK = (
    "from accord import Agent, Caller\nfrom accord.auth import ApiKeys\n"
    "agent = Agent('Clerk', auth=ApiKeys())\n"
    "@agent.skill\ndef who(text: str, caller: Caller) -> str:\n    return caller.name\n"
)


pytestmark = pytest.mark.usefixtures("alone")


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("card")
    (folder / "hello.py").write_text(
        "from accord import Agent\nagent = Agent('Hello')\n"
        "@agent.skill\ndef hi(text: str) -> str:\n    return 'hi'\n"
    )
    words = ("hello.py", "--store", "memory://", "--sign-card")
    with served(*words, cwd=folder) as (_, url):
        yield url


def accord(*words, code=0):
    done = CliRunner().invoke(main, words)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
    assert done.exit_code == code, done.output
    return done


def card_of(url):
    return json.loads(accord("card", "get", url, "-o", "json").stdout)


def write(path, card, **fields):
    path.write_text(json.dumps(card | fields))
    return str(path)


def test_a_card_is_found_by_address_host_or_file(url, tmp_path):
    """CARD_GET_001: and the next command uses the interface it names."""
    card = card_of(url)
    where = [url, f"{url}/", url.removeprefix("http://"), f"{url}/.well-known/agent-card.json",
             write(tmp_path / "c.json", card), f"file://{tmp_path}/c.json", "./c.json"]  # fmt: skip
    for place in where:
        assert card_of(place)["name"] == "Hello"
        assert accord("send", place, "x").stdout == "hi\n"
    fields = accord("card", "get", url, "-o", "text").stdout
    for label in ("Name: Hello", "Streaming: yes", "Interface: JSONRPC", "Skill: hi"):
        assert label in fields


def test_a_card_that_is_not_valid_is_refused_if_asked(url, tmp_path):
    """CARD_GET_002"""
    card = card_of(url)
    del card["signatures"]
    accord("card", "get", write(tmp_path / "good.json", card), "--validate")
    del card["skills"]
    bad = accord("card", "get", write(tmp_path / "bad.json", card), "--validate", "-o", "json",
                 code=1)  # fmt: skip
    error = json.loads(bad.stdout)["error"]
    assert error["code"] == "A2ACLI_ERR_CARD_INVALID"
    assert "skills" in error["message"]


def test_a_card_that_we_serve_is_valid(url, tmp_path):
    """Signed, and with the members of every version. A wrong one is told by what `accord check`
    says of it, all of it.
    """
    for where in (url, f"{url}/.well-known/agent.json"):
        done = accord("card", "get", where, "--validate", "-o", "json")
        assert "the card is valid" in done.stderr
        assert json.loads(done.stdout)["name"] == "Hello"
    with urllib.request.urlopen(f"{url}/.well-known/agent-card.json") as answer:
        as_old_readers_get_it = json.load(answer)
    assert "preferredTransport" in as_old_readers_get_it
    accord("card", "get", write(tmp_path / "all.json", as_old_readers_get_it), "--validate")
    bad = write(tmp_path / "bad.json", card_of(url) | {"version": 3, "capabilities": "streaming"})
    refused = accord("card", "get", bad, "--validate", code=1).output
    [verdict] = [
        result
        for result in json.loads(accord("check", bad, "-o", "json", code=1).stdout)["results"]
        if result["id"] == "card.valid"
    ]
    assert verdict["reason"] in refused


def test_the_signature_of_a_card_is_reported_as_it_is(url, tmp_path):
    """CARD_GET_004: verified, unverifiable or absent; absent is no failure."""
    assert "Signature: verified" in accord("card", "get", url, "-o", "text").stdout
    card = card_of(url)
    forged = accord("card", "get", write(tmp_path / "c.json", card, name="Evil"), "-o", "text")
    assert "Signature: unverifiable" in forged.stdout
    assert "Warning:" in forged.stderr
    del card["signatures"]
    plain = accord("card", "get", write(tmp_path / "c.json", card), "-o", "text")
    assert "Signature: absent" in plain.stdout


@pytest.mark.parametrize("order", [["HTTP+JSON", "JSONRPC"], ["JSONRPC", "HTTP+JSON"]])
def test_the_card_s_order_of_interfaces_counts(url, tmp_path, order):
    """TX_001, TX_002, TX_003: and the tenant it names goes with every request."""
    card = card_of(url)
    del card["signatures"]
    first = {one["protocolBinding"]: one for one in card["supportedInterfaces"]
             if one["protocolVersion"] == "1.0"}  # fmt: skip
    file = write(tmp_path / "c.json", card, supportedInterfaces=[first[name] for name in order])
    wire = accord("send", file, "x", "--debug").stderr
    assert ('"jsonrpc"' in wire) == (order[0] == "JSONRPC")
    tenant = [first["JSONRPC"] | {"tenant": "acme"}]
    file = write(tmp_path / "t.json", card, supportedInterfaces=tenant)
    assert '"tenant":"acme"' in accord("send", file, "x", "--debug").stderr
    get = CliRunner().invoke(main, ["task", "get", file, "t", "--debug"]).stderr
    assert '"tenant":"acme"' in get


@pytest.mark.parametrize("version", ["0.3", "0.2", "0.1"])
def test_an_older_version_is_spoken_and_said(url, tmp_path, version):
    """VER_001: an agent that has no newer one is found without being told which, and it is said;
    whoever insists on another version gets an error, and nothing is sent.
    """
    card = card_of(url)
    del card["signatures"]
    old = [{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": version}]
    file = write(tmp_path / "c.json", card, supportedInterfaces=old)
    sent = accord("send", file, "x")
    assert sent.stdout == "hi\n"
    assert f"speaks A2A {version}, so that is used" in sent.stderr
    assert accord("send", file, "x", "--a2a-version", version).stdout == "hi\n"
    assert "Name: " in accord("card", "get", file, "-o", "text").stdout
    refused = accord("send", file, "x", "--a2a-version", "1.0", "-o", "json", "--debug", code=1)
    error = json.loads(refused.stdout)["error"]
    assert (error["code"], error["a2aCode"]) == ("VersionNotSupportedError", None)
    assert f"does not offer A2A 1.0, but {version}" in error["message"]
    assert "POST" not in refused.stderr


@pytest.mark.parametrize("version", ["0.2.5", "0.2", "0.3.0", None])
def test_an_old_agent_is_found_by_its_address(version):
    """Its card is at the old place and in the old form, with or without its version."""
    parts = [{"kind": "text", "text": "hi"}]
    message = {"kind": "message", "messageId": "m", "role": "agent", "parts": parts}
    card = {
        "name": "Old",
        "description": "An agent of last year.",
        "version": "1",
        "capabilities": {},
        "defaultInputModes": ["text"],
        "defaultOutputModes": ["text"],
        "skills": [{"id": "s", "name": "S", "description": "Says hi.", "tags": []}],
    } | ({"protocolVersion": version} if version else {})

    def answer(path, given):
        if path == "/.well-known/agent.json":
            return card | {"url": f"{url}/"}
        if path != "/" or given["method"] != "message/send":
            return None
        return {"jsonrpc": "2.0", "id": given["id"], "result": message}

    with serving_json(answer) as url:
        assert accord("send", url, "x").stdout == "hi\n"
        assert accord("card", "get", url).stdout.startswith("Old 1\n")


def test_what_a_card_requires_or_lacks_is_said_before_anything_is_sent(url, tmp_path):
    """VER_002, VER_003, SEND_003: extensions, streaming, push and the extended card."""
    card = card_of(url)
    del card["signatures"]
    lacks = write(tmp_path / "lacks.json", card, capabilities={})
    assert accord("send", lacks, "x", "--stream").stdout == "hi\n"
    for words, name in [
        (["card", "get", lacks, "--extended"], "UnsupportedOperationError"),
        (["task", "push-config", "list", lacks, "t"], "PushNotificationNotSupportedError"),
    ]:
        done = accord(*words, "-o", "json", "--debug", code=1)
        assert json.loads(done.stdout)["error"]["code"] == name
        assert "POST" not in done.stderr
    needed = [{"uri": "urn:x:tax", "required": True}]
    needs = write(tmp_path / "needs.json", card, capabilities={"extensions": needed})
    done = accord("send", needs, "x", "-o", "json", code=1)
    assert json.loads(done.stdout)["error"]["code"] == "ExtensionSupportRequiredError"
    wire = accord("send", needs, "x", "--extension", "urn:x:tax", "--debug").stderr
    assert "A2A-Extensions: urn:x:tax" in wire


def test_a_key_is_sent_where_the_card_says(tmp_path, monkeypatch):
    """AUTH_001, AUTH_002: the option wins over the variable; missing and wrong are told apart."""
    (tmp_path / "clerk.py").write_text(CLERK)
    key = accord("key", "new", "ada", "--agent", "clerk.py").stdout.strip()
    with served("clerk.py", cwd=tmp_path) as (_, url):
        missing = accord("send", url, "x", "-o", "json", code=4)
        error = json.loads(missing.stdout)["error"]
        assert error["code"] == "A2ACLI_ERR_CREDENTIALS_MISSING"
        assert "accord auth login" in error["hint"]
        wrong = accord("send", url, "x", "--api-key", "wr0ng", "-o", "json", code=4)
        assert json.loads(wrong.stdout)["error"]["code"] == "A2ACLI_ERR_AUTH_FAILED"
        assert "wr0ng" not in wrong.output
        monkeypatch.setenv("A2ACLI_API_KEY", key)
        assert accord("send", url, "x").stdout == "ada\n"
        accord("send", url, "x", "--api-key", "wr0ng", code=4)


def test_help_and_version(url):
    """CLI_001: and the parameters of services are not presented as authentication (AUTH_001)."""
    assert importlib.metadata.version("accord") in accord("--version").output
    assert accord("-v").output == accord("--version").output
    for words in (["--help"], ["-h"], ["send", "--help"], ["task", "get", "--help"]):
        assert "Usage:" in accord(*words).output
    assert "Usage:" in accord("help", "send").output
    assert "Usage:" in accord("help").output


SHOP = (
    "from accord import Agent\nfrom accord.auth import ApiKeys\n"
    "agent = Agent('Shop', auth=ApiKeys(keys={'the-key-of-mia-0123456789': 'mia'}))\n"
    "@agent.skill\ndef buy(text: str) -> str:\n    return text\n"
    "@agent.extended_card\ndef extend(card, caller):\n"
    "    card.description = f'for {caller.name}'\n"
)


def test_the_extended_card_is_fetched_with_a_credential(tmp_path):
    """CARD_GET_003: by a scheme that the public card declares."""
    (tmp_path / "shop.py").write_text(SHOP)
    with served("shop.py", "--store", "memory://", cwd=tmp_path) as (_, url):
        key = ("--api-key", "the-key-of-mia-0123456789")
        found = accord("card", "get", url, "--extended", "-o", "json", *key)
        assert json.loads(found.stdout)["description"] == "for mia"
        assert json.loads(accord("card", "get", url, "-o", "json").stdout)["description"] == "Shop"
        refused = accord("card", "get", url, "--extended", "-o", "json", code=4)
        code = json.loads(refused.stdout)["error"]["code"]
        assert code == "A2ACLI_ERR_CREDENTIALS_MISSING"


def test_a_description_of_several_lines_is_shown_as_one(tmp_path):
    """Its second line would stand where skills begin."""
    (tmp_path / "clerk.py").write_text(
        "from accord import Agent\nagent = Agent('Clerk')\n@agent.skill(tags=['texts'])\n"
        'def echo(text: str) -> str:\n    """Repeat a text,\n    word by word."""\n'
        "    return text\n"
    )
    with served("clerk.py", "--store", "memory://", cwd=tmp_path) as (_, url):
        said = CliRunner().invoke(main, ["card", "get", url]).stdout
    assert "  echo   Repeat a text, word by word.\n         texts\n" in said
