"""Agents and skills as users write them."""

from typing import TYPE_CHECKING

from ...lazy_imports import lazy_imports

if TYPE_CHECKING:
    from .agent import Agent as Agent
    from .agent import definition_of as definition_of
    from .card import edited as edited
    from .context import NO_DEFAULT as NO_DEFAULT
    from .context import NO_RESOURCES as NO_RESOURCES
    from .context import Context as Context
    from .context import Fail as Fail
    from .context import Reject as Reject
    from .context import current as current
    from .definition import AgentDefinition as AgentDefinition
    from .definition import is_of_mode as is_of_mode
    from .definition import skill_named as skill_named
    from .lifespan import Lifespan as Lifespan
    from .middleware import Rewrite as Rewrite
    from .middleware import SkillCall as SkillCall
    from .middleware import call_around as call_around
    from .middleware import rewritten as rewritten
    from .probe import PROBE_SKILL as PROBE_SKILL
    from .probe import is_probe as is_probe
    from .skill import Cancellation as Cancellation
    from .skill import Skill as Skill
    from .values import Ask as Ask
    from .values import File as File
    from .values import Reply as Reply
    from .values import StatusMessage as StatusMessage
    from .values import file_of as file_of
    from .values import to_parts as to_parts

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy_imports(__name__)
