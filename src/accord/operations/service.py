"""What every operation works with."""

from ..engine import offload
from ..engine.runs import Engine
from ..model import AgentCard, ExtensionSupportRequired
from ..protocol import Codec, CodecChoice
from ..store import Namespace
from .call import Call
from .idempotency import IdempotentSends

__all__ = ["Service"]


class Service:
    """One agent being served: its engine, its card, and what its card promises."""

    def __init__(self, engine: Engine, card: AgentCard) -> None:
        self.engine = engine
        self.limits = engine.limits
        self.card = card
        self.tasks = engine.tasks
        self.sends = IdempotentSends(engine.tasks, engine.retention.keys_s)
        self.required = frozenset(e.uri for e in card.capabilities.extensions if e.required)
        self.offered = frozenset(e.uri for e in card.capabilities.extensions)

    async def choose(self, choice: CodecChoice, operation: str, params: bytes, call: Call) -> Codec:
        """Return the codec a request is in, where its name leaves that open: it tells, or the task
        it is about does.
        """
        found = await offload(len(params), choice.codec_or_task_id, operation, call.version, params)
        if not isinstance(found, str):
            return found
        return choice.for_origin(await self.tasks.origin(self.namespace("", call), found))

    def namespace(self, tenant: str, call: Call) -> Namespace:
        """Whose tasks a call is about."""
        return Namespace(self.engine.agent.name, tenant, call.caller.name)

    def check_extensions(self, call: Call) -> None:
        """Raise ExtensionSupportRequired if the card requires an extension the caller did not
        activate.
        """
        missing = self.required - call.extensions
        if missing:
            names = ", ".join(sorted(missing))
            raise ExtensionSupportRequired(
                f"activate {names} with the A2A-Extensions header", extensions=names
            )
