"""The answer to a probe: an echo, through the real log, without calling a skill of the user's."""

from ...model import AgentSkill, Message, SendMessageRequest
from .skill import Skill

__all__ = ["PROBE_SKILL", "is_probe"]

_MOST = 1000  # characters


async def _echo(message: Message) -> str:
    return message.text[:_MOST]


PROBE_SKILL = Skill(
    _echo,
    AgentSkill(id="accord:probe", name="Probe", description="Answers a probe.", tags=["probe"]),
)
PROBE_SKILL.resolve()


def is_probe(request: SendMessageRequest) -> bool:
    """Whether a message is a probe: `metadata.probe` is true."""
    metadata = request.message.metadata
    return metadata is not None and metadata.get("probe") is True
