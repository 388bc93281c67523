"""Cards that change: what counts at once, and what waits for an admin."""

import copy
import json
from typing import Any

import pytest

from accord import connect
from accord.client.discovery import card_of
from accord.hub.registry.differences import RULES, Side, differences, passes, worst
from accord.hub.registry.entries import EntrySettings, SignatureReport
from tests.hub.hubs import CardServer, agent_named, hub_at, serving_card
from tests.hub.test_aggregate import department

Card = dict[str, Any]


def base() -> Card:
    server = CardServer()
    server.url = "https://baker.example"
    return server.base(
        provider={"organization": "Bakers", "url": "https://bakers.example"},
        securitySchemes={"key": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}}},
        securityRequirements=[{"schemes": {"key": {"list": []}}}],
        capabilities={"streaming": True, "extensions": [SCHEMAS]},
    )


def side(card: Card, signature: SignatureReport | None = None) -> Side:
    url = "https://baker.example/.well-known/agent-card.json"
    return Side(card_of(card, url, []), url, signature or SignatureReport())


def interface(url: str, binding: str = "JSONRPC", version: str = "1.0") -> Card:
    return {"url": url, "protocolBinding": binding, "protocolVersion": version}


def changed(**more: Any) -> Card:
    return base() | more


def with_skill(i: int, **more: Any) -> Card:
    card = copy.deepcopy(base())
    card["skills"][i] |= more
    return card


EXTENSION = {"uri": "urn:example:pay", "required": True}
SCHEMAS = {"uri": "urn:example:schemas", "params": {"a": 1}}
NEW_SCHEMAS = {"uri": "urn:example:more", "params": {"description": "Pays."}}
NEW_SKILL = {"id": "cut", "name": "Cut", "description": "Cuts bread.", "tags": []}
SIGNED = SignatureReport(status="trusted", key_id="k", thumbprint="1", key_from="a file")
OTHER_KEY = SignatureReport(status="trusted", key_id="k", thumbprint="2", key_from="a file")

# A change, its kind, its weight, and whether it passes under hold, follow and pin.
KINDS = [
    (changed(supportedInterfaces=[interface("https://evil.example/")]),
     "interface at a new origin", "material", "waits waits waits"),
    (changed(supportedInterfaces=[interface("https://baker.example", "HTTP+JSON")]),
     "interface of a new binding or version", "material", "waits passes waits"),
    (changed(securityRequirements=[]), "security changed", "material", "waits passes waits"),
    (changed(provider={"organization": "Millers", "url": "https://m.example"}),
     "provider changed", "material", "waits passes waits"),
    (changed(skills=base()["skills"][:1]), "skill removed", "material", "waits passes waits"),
    (changed(capabilities={"streaming": True, "extensions": [SCHEMAS, EXTENSION]}),
     "extension required", "material", "waits passes waits"),
    (changed(defaultOutputModes=["text/plain"]),
     "output modes removed", "material", "waits passes waits"),
    (changed(skills=[*base()["skills"], NEW_SKILL]),
     "skill added", "material", "waits passes waits"),
    # A second one of the same id, before or behind it.
    (changed(skills=[base()["skills"][0] | {"description": "Pays."}, *base()["skills"]]),
     "skill added", "material", "waits passes waits"),
    (changed(skills=[*base()["skills"], base()["skills"][0] | {"description": "Pays."}]),
     "skill added", "material", "waits passes waits"),
    (with_skill(0, description="Bakes cakes."),
     "text of a skill changed", "material", "waits passes waits"),
    (with_skill(0, name="Pay"), "text of a skill changed", "material", "waits passes waits"),
    (with_skill(0, tags=["pay"]), "text of a skill changed", "material", "waits passes waits"),
    (with_skill(0, examples=["Pay"]), "text of a skill changed", "material", "waits passes waits"),
    (changed(name="Bank"), "name or description changed", "material", "waits passes waits"),
    (changed(description="Pays."), "name or description changed", "material", "waits passes waits"),
    (changed(capabilities={"streaming": True, "extensions": [SCHEMAS | {"params": {"b": 1}}]}),
     "extension changed", "material", "waits passes waits"),
    (changed(capabilities={"streaming": True, "extensions": [SCHEMAS, NEW_SCHEMAS]}),
     "extension changed", "material", "waits passes waits"),
    (changed(supportedInterfaces=[interface("https://baker.example") | {"tenant": "other"}]),
     "interface moved or removed", "notable", "passes passes waits"),
    (changed(supportedInterfaces=[interface("https://baker.example/rpc")]),
     "interface moved or removed", "notable", "passes passes waits"),
    (changed(capabilities={"streaming": False, "extensions": [SCHEMAS]}),
     "capabilities changed", "notable", "passes passes waits"),
    (changed(defaultInputModes=["application/json"]),
     "input modes removed", "notable", "passes passes waits"),
    (changed(version="2"), "text changed", "cosmetic", "passes passes waits"),
]  # fmt: skip


@pytest.mark.parametrize(("card", "kind", "weight", "effects"), KINDS, ids=[k[1] for k in KINDS])
def test_each_kind_of_change_has_its_weight(card, kind, weight, effects):
    found = differences(side(base()), side(card))
    assert kind in {one.kind for one in found}
    assert worst(found) == weight
    given = " ".join(
        "passes" if passes(found, EntrySettings(changes=policy)) else "waits"
        for policy in ("hold", "follow", "pin")
    )
    assert given == effects


def test_signatures_that_are_lost_or_of_another_key_wait():
    lost = differences(side(base(), SIGNED), side(base()))
    other = differences(side(base(), SIGNED), side(base(), OTHER_KEY))
    assert [one.kind for one in lost] == ["signature lost"]
    assert [one.kind for one in other] == ["signed by another key"]
    for found in (lost, other):
        assert not passes(found, EntrySettings(changes="hold"))
        assert not passes(found, EntrySettings(changes="follow"))


def test_all_kinds_are_tried():
    tried = {kind for _, kind, _, _ in KINDS} | {"signature lost", "signed by another key"}
    assert tried == {rule.kind for rule in RULES}
    print(f"\n{len(tried)} kinds of change")


def test_the_same_card_has_no_differences():
    assert differences(side(base()), side(base())) == ()


async def test_a_material_change_waits_and_the_approved_card_stays_in_use(tmp_path, store):
    async with hub_at(tmp_path, **store) as desk, serving_card() as server:
        server.etag = '"1"'
        await desk.add(server.url)
        before = desk.hub.registry.get("baker")
        assert (await desk.call("POST", "/agents/baker:refresh")).body["latest"] == 1
        assert server.asked[-1]["If-None-Match"] == '"1"'
        moved = [interface("http://127.0.0.1:9/"), *server.base()["supportedInterfaces"]]
        server.card, server.etag = server.base(supportedInterfaces=moved), '"2"'
        answer = await desk.call("POST", "/agents/baker:refresh")
        assert answer.body["waiting"] is True
        entry = desk.hub.registry.get("baker")
        assert entry.card == before.card
        assert entry.origins == before.origins
        (alert,) = await desk.hub.inbox.open_alerts()
        assert alert.kind == "card"
        assert "interface at a new origin" in alert.said
        shown = await desk.call("GET", "/agents/baker/cards/latest")
        assert shown.body["decision"] == "waiting"
        assert shown.body["differences"][0]["weight"] == "material"
        # Only by its number: the latest may have changed since somebody looked.
        for n, status in (("latest", 400), ("0", 400), ("1", 200)):
            answer = await desk.call("POST", f"/agents/baker/cards/{n}:approve")
            assert answer.status == status
        assert await desk.hub.inbox.open_alerts() == [alert]  # the second version still waits
        await desk.call("POST", "/agents/baker/cards/2:approve")
        entry = desk.hub.registry.get("baker")
        assert "http://127.0.0.1:9" in entry.origins
        assert entry.approved == 2
        assert await desk.hub.inbox.open_alerts() == []
        # Back to the first one: a version that was in use can be used again.
        await desk.call("POST", "/agents/baker/cards/1:approve")
        assert desk.hub.registry.get("baker").card == before.card


async def test_every_kind_of_change_is_told(tmp_path, capsys):
    """In a hub: an alert that names the kind, and what is material waits."""
    told = 0
    async with hub_at(tmp_path) as desk, serving_card() as server:
        place = ("https://baker.example", server.url)
        for card, kind, weight, _ in KINDS:
            server.card = json.loads(json.dumps(base()).replace(*place))
            await desk.add(server.url)
            server.card = json.loads(json.dumps(card).replace(*place))
            answer = await desk.call("POST", "/agents/baker:refresh")
            waits = weight == "material"
            assert answer.body.get("waiting", False) is waits, kind
            assert desk.hub.registry.get("baker").approved == (1 if waits else 2)
            [alert] = [one for one in await desk.hub.inbox.open_alerts() if one.agent == "baker"]
            assert (alert.kind, kind in alert.said) == ("card" if waits else "news", True)
            await desk.call("POST", f"/inbox/{alert.id}:dismiss")
            await desk.call("DELETE", "/agents/baker")
            told += 1
    with capsys.disabled():
        print(f"\n{told} kinds of change in a hub: right class, an alert each; and 2 of signatures")


async def test_the_gateway_calls_the_old_address_until_the_new_one_is_approved(tmp_path):
    async with (
        agent_named("Baker").app().serving() as old,
        department("Baker", "echo", "Say it again.", []).app().serving() as new,
        hub_at(tmp_path) as desk,
        serving_card() as server,
    ):
        server.card = server.base(supportedInterfaces=[interface(old)])
        await desk.add(server.url)
        async with connect(f"{desk.url}/agents/baker") as client:
            assert (await client.send("hi")).text == "hi"
            server.card = server.base(supportedInterfaces=[interface(new)])
            changed = await desk.call("POST", "/agents/baker:refresh")
            assert changed.body["waiting"] is True
            assert (await client.send("hi")).text == "hi"
            await desk.call("POST", "/agents/baker/cards/2:approve")
            assert (await client.send("hi")).text == "Baker did: hi"


async def test_a_card_that_cannot_be_read_changes_nothing(tmp_path):
    async with hub_at(tmp_path) as desk, serving_card() as server:
        await desk.add(server.url)
        before = desk.hub.registry.get("baker")
        deep = b'{"a":' * 40 + b"1" + b"}" * 40
        for card, status in ((b"<html>", 200), (b"{}", 200), (deep, 200),
                             (b" " * (2 << 20), 200), (b"", 500)):  # fmt: skip
            server.card, server.status = card, status
            answer = await desk.call("POST", "/agents/baker:refresh")
            assert answer.status == 422, answer.body
            assert answer.body["error"]["fix"]
            assert desk.hub.registry.get("baker") == before


async def test_a_notable_change_passes_and_is_told(tmp_path):
    async with hub_at(tmp_path) as desk, serving_card() as server:
        await desk.add(server.url)
        server.card = server.base(capabilities={})
        answer = await desk.call("POST", "/agents/baker:refresh")
        assert answer.body["approved"] == 2
        (alert,) = await desk.hub.inbox.open_alerts()
        assert alert.kind == "news"
        assert "capabilities changed" in alert.said
        # An entry that is pinned waits for everything.
        await desk.call("PATCH", "/agents/baker", {"settings": {"changes": "pin"}})
        server.card = server.base(description="Other words.")
        answer = await desk.call("POST", "/agents/baker:refresh")
        assert (answer.body["approved"], answer.body["latest"]) == (2, 3)


async def test_the_audit_log_says_who_dismissed_an_alert(tmp_path, store):
    async with hub_at(tmp_path, **store) as desk, serving_card() as server:
        await desk.key("ada", "admin")
        await desk.add(server.url)
        server.card = server.base(version="2")
        await desk.call("POST", "/agents/baker:refresh")
        (alert,) = await desk.hub.inbox.open_alerts()
        at = f"/inbox/{alert.id}:dismiss"
        assert [(await desk.call("POST", at, by="ada")).status for _ in range(2)] == [204, 404]
        found = await desk.call("GET", "/audit?find=alert.")
        [row] = found.body["rows"]  # what was refused is no row
        assert (row["who"], row["did"], row["what"]) == ("ada", "alert.dismiss", "baker")
        assert json.loads(row["detail"]) == {"id": alert.id, "kind": "news"}
        for words in ("ada", "baker", "alert.dismiss"):
            rows = (await desk.call("GET", f"/audit?find={words}")).body["rows"]
            assert row in rows
            assert len(rows) < len(await desk.hub.audit.rows())
        assert (await desk.call("GET", "/audit?find=dismiss")).body["rows"] == []


async def test_many_changes_hide_nothing_that_waits(tmp_path, store):
    """One news of each entry, decisions before news, and owners have their own before the limit."""
    async with hub_at(tmp_path, **store) as desk, serving_card() as one, serving_card() as other:
        await desk.key("pub", "publisher")
        await desk.key("mia", "publisher")
        waits = (await desk.add(other.url, by="mia", name="waits"))["name"]
        await desk.approve(await desk.add(one.url, by="pub", name="baker"))
        for n in range(3):
            one.card = one.base(version=str(n + 2))
            await desk.call("POST", "/agents/baker:refresh", by="pub")
        inbox = desk.hub.inbox
        shown = [(alert.kind, alert.agent) for alert in await inbox.open_alerts()]
        assert shown == [("approval", waits), ("news", "baker")]
        own = [await desk.call("GET", "/inbox", by=by) for by in ("pub", "mia")]
        agents = [[alert["agent"] for alert in answer.body["alerts"]] for answer in own]
        assert agents == [["baker"], [waits]]
        owner = desk.hub.registry.get("baker").owner
        assert [alert.agent for alert in await inbox.open_alerts(1, owner=owner)] == ["baker"]


async def test_an_approved_agent_does_not_take_over_the_work_of_others(tmp_path):
    """By what it says of itself later: until an admin has looked, search finds what was approved.
    An admin may let texts pass.
    """
    words = [NEW_SKILL | {"name": "Payroll", "description": "Pays salaries."}]
    async with hub_at(tmp_path) as desk, serving_card() as server:
        await desk.add(server.url)
        server.card = server.base(skills=[*server.base()["skills"], *words])
        assert (await desk.call("POST", "/agents/baker:refresh")).body["waiting"] is True
        found = await desk.call("GET", "/search?text=pay%20salaries")
        assert found.body["untrusted"] == []
        await desk.call("POST", "/agents/baker/cards/2:reject")
        await desk.call("PATCH", "/agents/baker", {"settings": {"texts": "follow"}})
        server.card = server.base(skills=[*server.base()["skills"], *words], version="3")
        assert (await desk.call("POST", "/agents/baker:refresh")).body["approved"] == 3
        found = await desk.call("GET", "/search?text=pay%20salaries")
        assert [one["agent"] for one in found.body["untrusted"]] == ["baker"]


@pytest.mark.parametrize(
    "settings",
    [{"changes": "follow"}, {"texts": "follow"}, {"description": "Pays."}, {"tags": ["pay"]}],
)
async def test_an_owner_does_not_let_pass_what_an_admin_has_to_approve(tmp_path, settings):
    """Nor gives the agent other texts than those that were approved."""
    async with hub_at(tmp_path) as desk, serving_card() as server:
        await desk.key("pub", "publisher")
        entry = await desk.add(server.url, by="pub", name="baker")
        place = f"/agents/{entry['name']}"
        before = await desk.call("PATCH", place, {"settings": {"tags": ["x"]}}, by="pub")
        assert before.status == 200  # an admin sees it when they approve
        await desk.approve(entry)
        by_owner = await desk.call("PATCH", "/agents/baker", {"settings": settings}, by="pub")
        assert by_owner.status == 403, by_owner.body
        stricter = await desk.call(
            "PATCH", "/agents/baker", {"settings": {"changes": "pin"}}, by="pub"
        )
        assert stricter.status == 200
        by_admin = await desk.call("PATCH", "/agents/baker", {"settings": settings})
        assert by_admin.status == 200


TAGGED = {"id": "fire", "name": "Fire", "description": "Fires.", "tags": ["danger"]}
PLAIN = {"id": "hire", "name": "Hire", "description": "Hires.", "tags": []}
DANGER = {"who": "anyone", "what": "tag:danger", "effect": "deny"}

# A rule, the skills before and after: whether the change waits though the entry follows changes.
LAPSES = {
    "a skill drops the tag": (DANGER, [TAGGED, PLAIN], [TAGGED | {"tags": []}, PLAIN], True),
    "a skill comes back under another id": (
        DANGER, [TAGGED, PLAIN], [TAGGED | {"id": "dismiss", "tags": []}, PLAIN], True),
    "a skill without it comes to an agent that has it": (
        DANGER, [TAGGED], [TAGGED, PLAIN], True),
    "a skill that a rule names comes back under another id": (
        {"who": "anyone", "what": "skill:baker/fire", "effect": "deny"},
        [TAGGED, PLAIN], [TAGGED | {"id": "dismiss"}, PLAIN], True),
    "a skill with it is gone": (DANGER, [TAGGED, PLAIN], [PLAIN], False),
    "another text": (DANGER, [TAGGED, PLAIN], [TAGGED, PLAIN | {"description": "Now."}], False),
    "no rule is about it": (
        DANGER | {"what": "tag:money"}, [TAGGED, PLAIN], [TAGGED | {"tags": []}, PLAIN], False),
}  # fmt: skip


@pytest.mark.parametrize(("rule", "before", "after", "waits"), LAPSES.values(), ids=LAPSES)
async def test_a_rule_does_not_lapse_by_what_the_agent_says(tmp_path, rule, before, after, waits):
    async with hub_at(tmp_path) as desk, serving_card() as server:
        server.card = server.base(skills=before)
        await desk.add(server.url, settings={"changes": "follow"})
        assert (await desk.call("POST", "/policies", rule)).status == 201
        server.card = server.base(skills=after)
        answer = await desk.call("POST", "/agents/baker:refresh")
        assert answer.body.get("waiting", False) is waits
        alerts = [one for one in await desk.hub.inbox.open_alerts() if one.kind == "card"]
        assert [rule["what"] in one.said for one in alerts] == ([True] if waits else [])


async def test_a_rule_does_not_lapse_by_what_the_owner_sets(tmp_path):
    """A rule by a tag of the entry: only an admin takes the tag away."""
    async with hub_at(tmp_path) as desk, serving_card() as server:
        await desk.key("pub", "publisher")
        settings = {"tags": ["danger"], "changes": "follow"}
        await desk.approve(await desk.add(server.url, by="pub", name="baker", settings=settings))
        await desk.call("POST", "/policies", DANGER)
        away = {"settings": {"tags": []}}
        refused = await desk.call("PATCH", "/agents/baker", away, by="pub")
        assert (refused.status, "tag:danger" in refused.body["error"]["message"]) == (403, True)
        assert (await desk.call("PATCH", "/agents/baker", away)).status == 200


async def test_versions_nobody_decided_on_are_kept_to_a_number(tmp_path, store):
    """The last 20 of them; those that were in use stay."""
    async with hub_at(tmp_path, **store) as desk, serving_card() as server:
        await desk.add(server.url)
        await desk.call("PATCH", "/agents/baker", {"settings": {"changes": "pin"}})
        for n in range(2, 26):
            server.card = server.base(version=str(n))
            await desk.call("POST", "/agents/baker:refresh")
        kept = (await desk.call("GET", "/agents/baker/cards")).body["cards"]
        dropped = await desk.call("POST", "/agents/baker/cards/2:approve")
    assert [card["n"] for card in kept] == [*range(25, 4, -1), 1]
    assert dropped.status == 404


async def test_versions_that_counted_at_once_are_kept_to_a_number_and_a_size(tmp_path, store):
    """A card that changes with every look must not fill the disk. What a person approved stays, and
    what is in use.
    """
    large = "x" * 900_000
    async with hub_at(tmp_path, **store) as desk, serving_card() as server:
        server.card = server.base(documentationUrl=f"https://a.example/{large}")
        await desk.add(server.url)
        for n in range(2, 33):
            long_ = large if n < 12 else ""
            server.card = server.base(version=str(n), documentationUrl=f"https://a.example/{long_}")
            taken = await desk.call("POST", "/agents/baker:refresh")
            assert taken.body["approved"] == n, taken.body
            kept = (await desk.call("GET", "/agents/baker/cards")).body["cards"]
            if n == 11:
                assert [card["n"] for card in kept] == [11, 10, 9, 8, 1]
    assert [card["n"] for card in kept] == [*range(32, 12, -1), 1]
    assert {card["decision"] for card in kept[:-1]} == {"taken"}
    assert kept[-1]["decision"] == "approved"
