"""Whether a caller may send a message to an agent, and which of its skills it may use."""

from collections.abc import Sequence

from ...auth import Caller
from ...model import ContentTypeNotSupported, InvalidParams, PermissionDenied
from ..access import Policy, Principals
from ..records import Refusals
from ..registry import Entry, Registry, skill_id
from .limits import CallLimits
from .upstream import key_of

__all__ = ["Permits"]


class Permits:
    """Decides on messages to agents: by rules, limits, and the kinds of content."""

    def __init__(
        self,
        registry: Registry,
        policy: Policy,
        principals: Principals,
        limits: CallLimits,
        refusals: Refusals,
    ) -> None:
        self._registry = registry
        self._policy = policy
        self._principals = principals
        self._limits = limits
        self._refusals = refusals

    def skills(self, entry: Entry, caller: Caller) -> list[str]:
        """Return the ids of the skills that a caller may see and call."""
        decide = self._policy.decide
        return [
            skill.id
            for skill in entry.card.skills
            if decide(caller, entry, skill.id, "call").is_allowed
            and decide(caller, entry, skill.id, "see").is_allowed
        ]

    def owns(self, caller: Caller, entry: Entry) -> bool:
        """Whether an entry is the caller's own; to admins all are."""
        return self._principals.of(caller).owns(entry.owner)

    def permit(self, name: str, caller: Caller, skill: str) -> tuple[str, str]:
        """Decide on a message to an entry, for whoever sends it another way. Return the entry's
        `key_of`, and the skill the message may use; empty for any.

        Raises:
            InvalidParams: There is no such agent, or none for this caller.
            PermissionDenied, TooManyRequests, ContentTypeNotSupported
        """
        entry = self._registry.get_visible(name, caller)
        if entry is None:
            what = f"no agent {name!r:.80} here; name a skill as agent/skill"
            raise InvalidParams(what, violations=(("message.metadata.skill", what),))
        return key_of(entry), self.permit_entry(entry, caller, skill, ())

    def permit_entry(self, entry: Entry, caller: Caller, named: str, modes: Sequence[str]) -> str:
        """Decide on a message to an entry that its caller sees. Return the skill it may use.

        Raises:
            PermissionDenied, TooManyRequests, ContentTypeNotSupported
        """
        choice = self._policy.choose_skill(caller, entry, skill_id(entry.card, named))
        principal = self._principals.of(caller)
        if not choice.decision.is_allowed:
            self._refusals.count(principal, entry.name)
            raise PermissionDenied(choice.decision.reason)
        self._limits.take_call(entry, caller, choice.decision.limit, is_admin=principal.is_admin)
        _check_modes(entry, choice.skill, modes)
        return choice.skill

    def permit_upload(self, entry: Entry, caller: Caller) -> None:
        """Decide on an upload: it is for those who may send a message to the entry. The message
        is decided on when it comes.

        Raises:
            PermissionDenied
        """
        decision = self._policy.choose_skill(caller, entry).decision
        if decision.is_allowed:
            return
        skills = (skill.id for skill in entry.card.skills)
        if not any(
            self._policy.choose_skill(caller, entry, id_).decision.is_allowed for id_ in skills
        ):
            self._refusals.count(self._principals.of(caller), entry.name)
            raise PermissionDenied(decision.reason)


def _check_modes(entry: Entry, skill: str, wanted: Sequence[str]) -> None:
    """Raise ContentTypeNotSupported if the agent gives nothing the caller takes."""
    card = entry.card
    given = {
        mode
        for one in card.skills
        if not skill or one.id == skill
        for mode in one.output_modes or card.default_output_modes
    }
    if not wanted or not given or "*/*" in (*wanted, *given) or given & set(wanted):
        return
    raise ContentTypeNotSupported(
        f"you accept {', '.join(wanted)}; agent {entry.name!r} gives {', '.join(sorted(given))}",
        parameter="configuration.acceptedOutputModes",
    )
