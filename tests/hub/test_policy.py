"""Who may see and call what: a table of decisions."""

import msgspec
import pytest

from accord.auth import ANONYMOUS, Caller, Keyring
from accord.hub import HubSettings
from accord.hub.access.policy import Policy, PolicyRule
from accord.hub.access.principals import GUEST, Principals
from accord.hub.records import Audit, Changes
from accord.hub.registry.entries import (
    Entry,
    EntrySettings,
    EntryState,
    Health,
    SignatureReport,
    Visibility,
)
from accord.model import SCHEMA, AgentCapabilities, AgentCard, AgentExtension, AgentSkill
from accord.store.sqlite import SqliteStore
from tests.hub.hubs import hub_at, serving_card


def skill(id: str, *tags: str) -> AgentSkill:
    return AgentSkill(id=id, name=id, description="", tags=list(tags))


def entry(
    name: str = "hr",
    *,
    state: EntryState = EntryState.APPROVED,
    visibility: Visibility = Visibility.PUBLIC,
    team: str = "",
    honours: bool = True,
    tags: tuple[str, ...] = (),
) -> Entry:
    extensions = [AgentExtension(uri=SCHEMA)] if honours else []
    card = AgentCard(
        name=name,
        description="",
        supported_interfaces=[],
        version="1",
        capabilities=AgentCapabilities(extensions=extensions),
        default_input_modes=[],
        default_output_modes=[],
        skills=[skill("hire", "people"), skill("fire", "people", "danger"), skill("pay", "money")],
    )
    return Entry(
        id=name, name=name, state=state, visibility=visibility, team=team, owner="apiKey//owner",
        card_url="", card=card, card_raw=b"", card_sha256="", approved=1, latest=1,
        signature=SignatureReport(), notes=(), origins=(), members=(),
        settings=EntrySettings(tags=tags), health=Health(), score=None, beat_ms=0, created_ms=0,
        revision=1, changed=1,
    )  # fmt: skip


def key(name: str, role: str, *teams: str) -> Caller:
    return Caller(name, claims={"role": role, "teams": teams}, scheme="apiKey")


PEOPLE = {
    "admin": key("root", "admin"),
    "owner": key("owner", "publisher"),
    "hr": key("mia", "user", "hr"),
    "it": key("bob", "user", "it"),
    "intern": key("kim", "user", "hr", "interns"),
    "norole": Caller("x", scheme="apiKey"),
    "token": Caller("ada", claims={"iss": "https://id", "groups": ["hr"], "dept": "pay"},
                    scheme="oidc"),
    "typed": Caller("tom", claims={"iss": "https://id", "groups": "hr", "external": True,
                                   "level": 3, "sites": [7, False], "none": None}, scheme="oidc"),
    # Whoever asks for a token may ask for any scope: it gives no role.
    "forged": Caller("eve", scopes=frozenset(["role:admin", "team:hr"]),
                     claims={"iss": "https://id"}, scheme="oidc"),
    "guest": GUEST,
    "nobody": ANONYMOUS,
}  # fmt: skip

PUBLIC = entry()
TEAM = entry(visibility=Visibility.TEAM, team="hr")
PRIVATE = entry(visibility=Visibility.PRIVATE)
PENDING = entry(state=EntryState.PENDING)
SUSPENDED = entry(state=EntryState.SUSPENDED)
TAGGED = entry(tags=("danger",))
NO_RULES: tuple[str, ...] = ()

# Rules, an entry, who, which skill, may: the effect. `hidden`: it does not exist for them.
TABLE = [
    # Visibility alone
    (NO_RULES, PUBLIC, "guest", "", "see", "allow"),
    (NO_RULES, PUBLIC, "nobody", "", "see", "allow"),
    (NO_RULES, PUBLIC, "it", "", "see", "allow"),
    (NO_RULES, PUBLIC, "it", "", "call", "allow"),
    (NO_RULES, PUBLIC, "guest", "", "call", "allow"),
    (NO_RULES, PUBLIC, "norole", "", "see", "allow"),
    (NO_RULES, TEAM, "hr", "", "see", "allow"),
    (NO_RULES, TEAM, "hr", "", "call", "allow"),
    (NO_RULES, TEAM, "it", "", "see", "hidden"),
    (NO_RULES, TEAM, "it", "", "call", "hidden"),
    (NO_RULES, TEAM, "guest", "", "see", "hidden"),
    (NO_RULES, TEAM, "token", "", "see", "allow"),
    (NO_RULES, TEAM, "forged", "", "see", "hidden"),
    (NO_RULES, TEAM, "norole", "", "see", "hidden"),
    (NO_RULES, PRIVATE, "hr", "", "see", "hidden"),
    (NO_RULES, PRIVATE, "owner", "", "see", "allow"),
    (NO_RULES, PRIVATE, "owner", "", "call", "allow"),
    (NO_RULES, PRIVATE, "admin", "", "see", "allow"),
    (NO_RULES, PRIVATE, "forged", "", "see", "hidden"),
    # States
    (NO_RULES, PENDING, "it", "", "see", "hidden"),
    (NO_RULES, PENDING, "owner", "", "see", "allow"),
    (NO_RULES, PENDING, "owner", "", "call", "deny"),
    (NO_RULES, PENDING, "admin", "", "see", "allow"),
    (NO_RULES, PENDING, "admin", "", "call", "deny"),
    (NO_RULES, SUSPENDED, "it", "", "call", "hidden"),
    (NO_RULES, SUSPENDED, "admin", "", "call", "deny"),
    # Agents
    (("deny anyone call agent:hr",), PUBLIC, "it", "", "call", "deny"),
    (("deny anyone call agent:hr",), PUBLIC, "it", "", "see", "allow"),
    (("deny anyone call agent:hr",), PUBLIC, "admin", "", "call", "deny"),
    (("deny anyone see agent:hr",), PUBLIC, "it", "", "see", "hidden"),
    (("deny anyone see agent:hr",), PUBLIC, "it", "", "call", "hidden"),
    (("deny anyone see agent:hr",), PUBLIC, "admin", "", "see", "allow"),
    (("deny anyone call agent:h*",), PUBLIC, "it", "", "call", "deny"),
    (("deny anyone call agent:x*",), PUBLIC, "it", "", "call", "allow"),
    (("deny anyone call *",), PUBLIC, "it", "hire", "call", "deny"),
    # Who
    (("deny signed-in call *",), PUBLIC, "guest", "", "call", "allow"),
    (("deny signed-in call *",), PUBLIC, "it", "", "call", "deny"),
    (("deny user:bob call *",), PUBLIC, "it", "", "call", "deny"),
    (("deny user:bob call *",), PUBLIC, "hr", "", "call", "allow"),
    (("deny team:hr call *",), PUBLIC, "hr", "", "call", "deny"),
    (("deny team:hr call *",), PUBLIC, "token", "", "call", "deny"),
    (("deny !team:hr call *",), PUBLIC, "hr", "", "call", "allow"),
    (("deny !team:hr call *",), PUBLIC, "it", "", "call", "deny"),
    (("deny role:guest call *",), PUBLIC, "guest", "", "call", "deny"),
    (("deny role:admin call *",), PUBLIC, "forged", "", "call", "allow"),
    (("deny key:bob call *",), PUBLIC, "it", "", "call", "deny"),
    (("deny key:ada call *",), PUBLIC, "token", "", "call", "allow"),
    (("deny claim:dept=pay call *",), PUBLIC, "token", "", "call", "deny"),
    (("deny claim:groups=hr call *",), PUBLIC, "token", "", "call", "deny"),
    (("deny claim:dept=it call *",), PUBLIC, "token", "", "call", "allow"),
    # A claim may be a number or a truth value, or one value instead of a list
    (("deny claim:external=true call *",), PUBLIC, "typed", "", "call", "deny"),
    (("deny claim:external=false call *",), PUBLIC, "typed", "", "call", "allow"),
    (("deny claim:level=3 call *",), PUBLIC, "typed", "", "call", "deny"),
    (("deny claim:sites=7 call *",), PUBLIC, "typed", "", "call", "deny"),
    (("deny claim:sites=false call *",), PUBLIC, "typed", "", "call", "deny"),
    (("deny claim:none=null call *",), PUBLIC, "typed", "", "call", "allow"),
    (("deny claim:groups=hr call *",), PUBLIC, "typed", "", "call", "deny"),
    (("deny team:hr call *",), PUBLIC, "typed", "", "call", "deny"),
    # Skills and tags
    (("deny anyone call skill:hr/fire",), PUBLIC, "it", "fire", "call", "deny"),
    (("deny anyone call skill:hr/fire",), PUBLIC, "it", "hire", "call", "allow"),
    (("deny anyone call skill:*/f*",), PUBLIC, "it", "fire", "call", "deny"),
    (("deny anyone call skill:it/*",), PUBLIC, "it", "fire", "call", "allow"),
    (("deny anyone see skill:hr/fire",), PUBLIC, "it", "fire", "see", "hidden"),
    (("deny anyone see skill:hr/fire",), PUBLIC, "it", "", "see", "allow"),
    (("deny anyone call tag:danger",), PUBLIC, "it", "fire", "call", "deny"),
    (("deny anyone call tag:danger",), PUBLIC, "it", "hire", "call", "allow"),
    (("deny anyone call tag:danger",), PUBLIC, "it", "", "call", "allow"),
    (("deny anyone call tag:danger",), TAGGED, "it", "", "call", "deny"),
    # The strongest counts
    (("allow team:hr see agent:hr",), PRIVATE, "hr", "", "see", "allow"),
    (("allow team:hr see agent:hr",), PRIVATE, "it", "", "see", "hidden"),
    (("allow team:hr see agent:hr",), PENDING, "hr", "", "see", "hidden"),
    (("deny team:interns call *", "allow team:hr call *"), PUBLIC, "intern", "", "call", "deny"),
    (("deny team:interns call *", "allow team:hr call *"), PUBLIC, "hr", "", "call", "allow"),
    (("allow anyone call *", "deny team:it call skill:hr/pay"), PUBLIC, "it", "pay", "call",
     "deny"),
]  # fmt: skip


def rule(words: str) -> PolicyRule:
    fields = dict(zip(("effect", "who", "may", "what"), words.split(), strict=True))
    return msgspec.convert(fields, PolicyRule)


@pytest.fixture
def policy(tmp_path):
    """The policy of a hub where guests may call, without its database: rules are set by hand."""
    db = SqliteStore(tmp_path / "hub.db").database
    changes = Changes(db, 1.0)
    audit = Audit(db, Keyring.in_memory)
    principals = Principals(db, changes, audit, HubSettings(), "call")
    return Policy(db, changes, principals, audit)


@pytest.mark.parametrize(("rules", "what", "who", "skill_id", "may", "effect"), TABLE)
def test_decisions(policy, rules, what, who, skill_id, may, effect):
    policy.use([rule(words) for words in rules])
    decision = policy.decide(PEOPLE[who], what, skill_id or None, may)
    found = "hidden" if decision.is_hidden else decision.effect
    assert found == effect, decision.reason


def test_the_table_has_at_least_sixty_decisions():
    print(f"\n{len(TABLE)} decisions")
    assert len(TABLE) >= 60


def test_rules_that_cannot_be_read_deny_everything(policy):
    for who in PEOPLE.values():
        decision = policy.decide(who, PUBLIC, None, "see")
        assert (decision.effect, decision.is_hidden) == ("deny", True)


FIRE = ("deny team:it call skill:hr/fire",)
ONLY_HIRE = ("deny team:it call skill:hr/fire", "deny team:it call skill:hr/pay")


@pytest.mark.parametrize(
    ("rules", "honours", "named", "effect", "chosen", "said"),
    [
        (FIRE, True, "hire", "allow", "hire", ""),  # (a) the message names one: it is checked
        (FIRE, True, "fire", "deny", "fire", "rule:"),
        (FIRE, True, "dance", "deny", "dance", "has no skill"),
        # A skill that the card does not list: the agent may have it all the same.
        (("deny team:it call skill:hr/d*",), True, "dance", "deny", "dance", "rule:"),
        (("deny team:it call skill:hr/d*",), False, "dance", "deny", "dance", "rule:"),
        (("deny team:it call skill:hr/d*",), True, "hire", "allow", "hire", ""),
        # One that is hidden is as if it were missing.
        (("deny team:it see skill:hr/fire",), True, "fire", "deny", "fire", "has no skill"),
        (("deny team:it see skill:hr/fire",), True, "hire", "allow", "hire", ""),
        (("deny team:it see skill:hr/fire",), True, "", "allow", "", ""),
        (("deny team:hr see skill:hr/fire",), True, "fire", "allow", "fire", ""),
        (NO_RULES, True, "", "allow", "", ""),  # (b) none is named, all are allowed
        (NO_RULES, False, "", "allow", "", ""),
        (NO_RULES, False, "dance", "allow", "dance", ""),
        (ONLY_HIRE, True, "", "allow", "hire", ""),  # (c) one is allowed: it is set
        (FIRE, True, "", "deny", "", "hire, pay"),  # several: refused with their names
        (FIRE, False, "hire", "deny", "", "can't be held"),  # (d) the agent can't be held to it
        (FIRE, False, "", "deny", "", "can't be held"),
        (("deny team:it call skill:hr/*",), True, "", "deny", "", "no skill"),
    ],
)
def test_a_message_has_no_skill_unless_it_names_one(
    policy, rules, honours, named, effect, chosen, said
):
    policy.use([rule(words) for words in rules])
    choice = policy.choose_skill(PEOPLE["it"], entry(honours=honours), named)
    assert choice.decision.effect == effect
    assert choice.skill == chosen
    assert said in choice.decision.reason


def test_an_owner_may_say_that_an_agent_honours_the_choice(policy):
    policy.use([rule(words) for words in FIRE])
    agent = entry(honours=False)
    agent = msgspec.structs.replace(agent, settings=EntrySettings(honours_skill=True))
    assert policy.choose_skill(PEOPLE["it"], agent, "hire").decision.is_allowed


@pytest.mark.parametrize(
    "words",
    ["deny everyone call *", "deny team: call *", "deny anyone call hr", "ask anyone call *"],
)
def test_a_rule_that_says_nothing_is_refused(words):
    with pytest.raises(msgspec.ValidationError, match=r"who|what|effect"):
        rule(words)


async def test_a_rule_that_cannot_be_read_denies_everything_until_it_can(tmp_path):
    async with hub_at(tmp_path) as desk, serving_card() as server:
        await desk.add(server.url)
        await desk.key("mia")
        with pytest.raises(msgspec.DecodeError):
            await desk.hub.changes.write(
                lambda db: db.execute(
                    "INSERT INTO policies (id, rule, created_ms) VALUES ('x', '{', 1)"
                )
            )
        assert (await desk.call("GET", "/agents/baker", by="mia")).status == 404
        await desk.hub.db.execute("DELETE FROM policies")
        await desk.hub.changes.sync()
        assert (await desk.call("GET", "/agents/baker", by="mia")).status == 200
