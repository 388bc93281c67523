"""Decide who may see and call what, by visibility and by rules for agents, skills and tags.

`decide` is the one function every face of the hub asks. A rule is
`{who, what, may, effect, limit}`; `deny` counts before `allow`. Without a rule visibility decides.

An A2A message has no place for a skill. A rule by skill binds only at agents that do what
`metadata.skill` names; a caller who may use some of another agent's skills may not call it at all
(`choose_skill`).
"""

import re
import secrets
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias

import msgspec

from ...auth import Caller
from ...model import SCHEMA, InvalidParams
from ...store import Database
from ..errors import EntryNotFound
from ..records import Audit, Change, Changes
from ..registry import Entry, EntryState, Visibility
from ..teams import team_name
from .principals import KEYS, HubRole, Principal, Principals, claim_values

__all__ = [
    "Decision",
    "Effect",
    "May",
    "Policy",
    "PolicyRule",
    "SkillChoice",
    "applies",
    "honours_skill",
]

Effect: TypeAlias = Literal["allow", "deny"]
May: TypeAlias = Literal["see", "call"]

_ORDER: tuple[Effect, ...] = ("deny", "allow")
_WHO = re.compile(r"!?(anyone|signed-in|(user|team|role|key):[^\s]+|claim:[^\s=]+=\S+)")
_WHAT = re.compile(r"\*|agent:[^\s/]+|skill:[^\s/]+/\S+|tag:\S+")


class PolicyRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rule. Globs (`*`, `?`) may stand in `what`; `!` before `who` means everyone else."""

    who: str  # anyone, signed-in, user:ada, team:hr, role:publisher, key:ci, claim:dept=hr
    what: str  # *, agent:hr-*, skill:hr/fire*, tag:payroll
    may: May = "call"  # see or call
    effect: Effect = "deny"  # allow or deny
    limit: int = 0  # calls per minute of each caller it allows; 0: none
    id: str = ""  # given by the hub

    def __post_init__(self) -> None:
        if not _WHO.fullmatch(self.who):
            raise ValueError(
                f"who: {self.who!r} is not one of anyone, signed-in, user:NAME, team:NAME, "
                "role:NAME, key:NAME, claim:NAME=VALUE (with ! in front: everyone else)"
            )
        if not _WHAT.fullmatch(self.what):
            raise ValueError(
                f"what: {self.what!r} is not one of *, agent:NAME, skill:AGENT/SKILL, tag:TAG"
            )

    @property
    def words(self) -> str:
        return f"{self.effect} {self.who} {self.may} {self.what}"


class Decision(msgspec.Struct, frozen=True):
    """Hold what was decided, and why. `is_hidden`: say that there is no such agent."""

    effect: Effect
    reason: str
    rule: PolicyRule | None = None
    is_hidden: bool = False
    limit: int = 0

    @property
    def is_allowed(self) -> bool:
        return self.effect == "allow"


class SkillChoice(msgspec.Struct, frozen=True):
    """Name the skill a message may use: `skill` is passed on as metadata.skill; empty for none."""

    decision: Decision
    skill: str = ""
    allowed: tuple[str, ...] = ()  # those the caller may call, if they are not all


class Policy:
    """The rules, and what they say."""

    def __init__(
        self, db: Database, changes: Changes, principals: Principals, audit: Audit
    ) -> None:
        self._db = db
        self._changes = changes
        self._principals = principals
        self._audit = audit
        self._rules: list[PolicyRule] | None = None  # None: not loaded, so everything is denied
        changes.watch(self._load)

    @property
    def rules(self) -> list[PolicyRule]:
        return list(self._rules or ())

    def is_guest(self, caller: Caller) -> bool:
        return self._principals.of(caller).role is HubRole.GUEST

    def decide(self, caller: Caller, entry: Entry, skill: str | None, may: May) -> Decision:
        """Return whether a caller may see or call an entry, or one skill of it."""
        if self._rules is None:
            return Decision("deny", "the hub's rules can't be read", is_hidden=True)
        principal = self._principals.of(caller)
        seen = self._sees(principal, caller, entry, None)
        if not seen.is_allowed:
            return seen
        if may == "see":
            return self._sees(principal, caller, entry, skill) if skill is not None else seen
        if not entry.is_callable:
            return Decision("deny", f"{entry.name} is {entry.state}")
        if principal.role is HubRole.GUEST and self._principals.guests != "call":
            return Decision("deny", "callers without a login may not call agents here")
        rule = self._strongest(principal, caller, entry, skill, "call")
        if rule is None:
            return Decision("allow", "no rule says otherwise")
        return Decision(rule.effect, f"rule: {rule.words}", rule, limit=rule.limit)

    def choose_skill(self, caller: Caller, entry: Entry, named: str = "") -> SkillChoice:
        """Return which skill a message to an agent may use; `named` is the one it names itself."""
        whole = self.decide(caller, entry, None, "call")
        if not whole.is_allowed:
            return SkillChoice(whole)
        if not self._rules:  # then skills don't differ
            return SkillChoice(whole, named)
        if named and not self.decide(caller, entry, named, "see").is_allowed:
            return SkillChoice(Decision("deny", f"{entry.name} has no skill {named!r:.80}"), named)
        skills = [skill.id for skill in entry.card.skills]
        each = {id_: self.decide(caller, entry, id_, "call") for id_ in skills}
        allowed = tuple(id_ for id_, decision in each.items() if decision.is_allowed)
        if len(allowed) == len(skills):  # not restricted
            # A rule may also be about a skill that the card does not list: agents may have such.
            decision = self.decide(caller, entry, named, "call") if named else whole
            return SkillChoice(decision, named)
        if not honours_skill(entry):
            reason = (
                f"{entry.name} does not say that it keeps to metadata.skill, so a caller who may "
                "use only some of its skills can't be held to them and may not call it"
            )
            return SkillChoice(Decision("deny", reason), allowed=allowed)
        if named:
            found = each.get(named) or Decision("deny", f"{entry.name} has no skill {named!r:.80}")
            return SkillChoice(found, named, allowed)
        if len(allowed) == 1:
            return SkillChoice(each[allowed[0]], allowed[0], allowed)
        reason = (
            f"name the skill in metadata.skill: {', '.join(allowed)}"
            if allowed
            else f"no skill of {entry.name} is allowed to this caller"
        )
        return SkillChoice(Decision("deny", reason), allowed=allowed)

    def lapsing(self, entry: Entry, changed: Entry) -> list[str]:
        """Return the rules that bind an entry, or a skill of it, and would no longer bind it as
        `changed`: what its maker or owner writes must not undo what an admin decided.

        A skill may go. But if there is also a new skill that the rule does not bind, it may be the
        same skill under another name.
        """
        return [rule.words for rule in self._rules or () if _lapses(rule, entry, changed)]

    async def add(self, by: Principal, rule: PolicyRule) -> PolicyRule:
        if rule.limit < 0:
            raise InvalidParams(f"limit={rule.limit}: give calls per minute; 0 for no limit")
        kind, _, name = rule.who.removeprefix("!").partition(":")
        if kind == "team":
            team_name(name)
        made = msgspec.structs.replace(rule, id=secrets.token_hex(6))

        async def write(db: Change) -> None:
            await db.execute(
                "INSERT INTO policies (id, rule, created_ms) VALUES (?,?,?)",
                *(made.id, msgspec.json.encode(made).decode(), self._db.now_ms()),
            )
            await self._audit.write(by.name, "policy.add", made.id, made.words, within=db)

        await self._changes.write(write)
        return made

    async def remove(self, by: Principal, id: str) -> None:
        async def write(db: Change) -> None:
            if not await db.execute("DELETE FROM policies WHERE id = ?", id):
                raise EntryNotFound(
                    f"there is no rule {id[:80]!r}",
                    fix="see which there are with: accord hub policy list",
                )
            await self._audit.write(by.name, "policy.remove", id, within=db)

        await self._changes.write(write)

    def use(self, rules: list[PolicyRule]) -> None:
        """Decide by these rules from now on."""
        self._rules = rules

    async def _load(self) -> None:
        try:
            rows = await self._db.fetch("SELECT rule FROM policies ORDER BY created_ms, id")
            rules = [msgspec.json.decode(row["rule"], type=PolicyRule) for row in rows]
        except BaseException:
            self._rules = None  # they can't be read: everything is denied
            raise
        self.use(rules)  # until here those before count, not none

    def _sees(
        self, principal: Principal, caller: Caller, entry: Entry, skill: str | None
    ) -> Decision:
        if principal.is_admin:
            return Decision("allow", "admins see every agent")
        if principal.identity and principal.identity == entry.owner:
            return Decision("allow", "it is this caller's own")
        if entry.state is not EntryState.APPROVED:
            return Decision("deny", f"it is {entry.state}", is_hidden=True)
        rule = self._strongest(principal, caller, entry, skill, "see")
        if rule is not None:
            return Decision(
                rule.effect, f"rule: {rule.words}", rule, is_hidden=rule.effect == "deny"
            )
        match entry.visibility:
            case Visibility.PUBLIC:
                return Decision("allow", "it is public")
            case Visibility.TEAM if entry.team in principal.teams:
                return Decision("allow", f"it is for team {entry.team}")
            case Visibility.TEAM:
                return Decision("deny", f"it is for team {entry.team} only", is_hidden=True)
        return Decision("deny", "it is private", is_hidden=True)

    def _strongest(
        self, principal: Principal, caller: Caller, entry: Entry, skill: str | None, may: May
    ) -> PolicyRule | None:
        if not self._rules:
            return None
        fitting = [
            rule
            for rule in self._rules
            if rule.may == may and applies(rule, entry, skill) and _is_who(rule, principal, caller)
        ]
        return min(fitting, key=lambda rule: _ORDER.index(rule.effect), default=None)


def honours_skill(entry: Entry) -> bool:
    """Whether an agent does what `metadata.skill` names."""
    declared = any(one.uri == SCHEMA for one in entry.card.capabilities.extensions)
    return declared or entry.settings.honours_skill


def _lapses(rule: PolicyRule, entry: Entry, changed: Entry) -> bool:
    if rule.effect == "allow" and not rule.limit:
        return False
    if applies(rule, entry, None) and not applies(rule, changed, None):
        return True
    before = {skill.id for skill in entry.card.skills}
    after = {skill.id for skill in changed.card.skills}
    bound = {id_ for id_ in before if applies(rule, entry, id_)}
    free = {id_ for id_ in after if not applies(rule, changed, id_)}
    return bool(bound & free) or (bool(bound - after) and bool(free - before))


def applies(rule: PolicyRule, entry: Entry, skill: str | None) -> bool:
    """Whether a rule is about an agent, or one skill of it."""
    kind, _, name = rule.what.partition(":")
    match kind:
        case "*":
            return True
        case "agent":
            return fnmatchcase(entry.name, name)
        case "tag":
            tags = list(entry.settings.tags)
            for one in entry.card.skills:
                if skill is None or one.id == skill:
                    tags += one.tags
            # Of an agent as a whole a tag says something only if all its skills have it.
            if skill is None and not any(fnmatchcase(tag, name) for tag in entry.settings.tags):
                return bool(entry.card.skills) and all(
                    any(fnmatchcase(tag, name) for tag in one.tags) for one in entry.card.skills
                )
            return any(fnmatchcase(tag, name) for tag in tags)
    agent, _, wanted = name.partition("/")
    return skill is not None and fnmatchcase(entry.name, agent) and fnmatchcase(skill, wanted)


def _is_who(rule: PolicyRule, principal: Principal, caller: Caller) -> bool:
    found = _is_named(rule.who.removeprefix("!"), principal, caller)
    return not found if rule.who.startswith("!") else found


def _is_named(who: str, principal: Principal, caller: Caller) -> bool:
    kind, _, name = who.partition(":")
    match kind:
        case "anyone":
            return True
        case "signed-in":
            return principal.role is not HubRole.GUEST
        case "user":
            return bool(principal.identity) and name in (principal.name, principal.identity)
        case "team":
            return name in principal.teams
        case "role":
            return name == principal.role
        case "key":
            return caller.scheme == KEYS and caller.name == name
    claim, _, value = name.partition("=")
    return value in claim_values(caller, claim)
