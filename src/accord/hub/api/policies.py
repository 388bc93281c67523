"""Routes of the rules."""

from typing import Any

import msgspec

from ...auth import Caller
from ..access import GUEST, KEYS, HubRole, May, Policy, PolicyRule, applies, honours_skill
from ..errors import EntryNotFound
from ..registry import Entry, Registry
from ..teams import team_name
from .router import ApiCall, ApiRoute

__all__ = ["PolicyRoutes"]


class Try(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether somebody may do something, and which rule says so."""

    agent: str
    skill: str = ""
    may: May = "call"
    name: str = ""  # of the caller; empty for a guest
    role: HubRole = HubRole.USER
    teams: tuple[str, ...] = ()


class Verdict(msgspec.Struct, frozen=True):
    effect: str
    reason: str
    rule: PolicyRule | None
    note: str = ""


def _binds_badly(rule: PolicyRule, entry: Entry) -> bool:
    """Whether a rule is about some skills of an agent that does not keep to metadata.skill."""
    if rule.effect == "allow" or rule.may != "call" or honours_skill(entry):
        return False
    hit = [applies(rule, entry, skill.id) for skill in entry.card.skills]
    return any(hit) and not all(hit)


class PolicyRoutes:
    """The rules."""

    def __init__(
        self,
        policy: Policy,
        registry: Registry,
    ) -> None:
        self._policy = policy
        self._registry = registry

    def table(self) -> tuple[ApiRoute, ...]:
        return (
            ApiRoute("GET", "/policies", "admin", self._policies, "List the rules"),
            ApiRoute(
                *("POST", "/policies", "admin", self._add_policy, "Add a rule"),
                takes=PolicyRule,
                status=201,
            ),
            ApiRoute(
                "DELETE",
                "/policies/{id}",
                "admin",
                self._remove_policy,
                "Remove a rule",
                status=204,
            ),
            ApiRoute(
                *(
                    "POST",
                    "/policies:try",
                    "admin",
                    self._try,
                    "Ask what the rules say of somebody",
                ),
                takes=Try,
                gives=Verdict,
            ),
        )

    async def _policies(self, call: ApiCall) -> Any:
        return {"policies": self._policy.rules}

    async def _add_policy(self, call: ApiCall) -> Any:
        rule = await self._policy.add(call.principal, call.body)
        bound = [entry for entry in self._registry.all() if _binds_badly(rule, entry)]
        note = ""
        if bound:
            names = ", ".join(entry.name for entry in bound[:10])
            note = (
                f"{names} can't be held to a skill: a caller whom this rule keeps from some of its "
                "skills may not call it at all. Set honours_skill if it does what metadata.skill "
                "says."
            )
        return msgspec.to_builtins(rule) | {"note": note}

    async def _remove_policy(self, call: ApiCall) -> Any:
        await self._policy.remove(call.principal, call.path["id"])

    async def _try(self, call: ApiCall) -> Any:
        asked: Try = call.body
        entry = self._registry.get(asked.agent)
        if entry is None:
            raise EntryNotFound.of_agent(asked.agent)
        claims = {"role": asked.role, "teams": [team_name(team) for team in asked.teams]}
        caller = Caller(asked.name, claims=claims, scheme=KEYS) if asked.name else GUEST
        decision = self._policy.decide(caller, entry, asked.skill or None, asked.may)
        note = ""
        if asked.may == "call":
            choice = self._policy.choose_skill(caller, entry, asked.skill)
            if choice.decision.effect != decision.effect:
                decision, note = (
                    choice.decision,
                    "for a message that names "
                    + (f"the skill {asked.skill}" if asked.skill else "no skill"),
                )
        return Verdict(decision.effect, decision.reason, decision.rule, note)
