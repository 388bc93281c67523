"""Which id a message has at the other agent: the caller's own, wherever no other caller's can have
the same one there.

Callers share the relay's credential, and an agent may take a message with an id it knows for the
same message once more. So an id belongs to the caller who used it first.
"""

import hashlib
import uuid

from ..client import Client
from ..engine.runs import Run
from ..model import now_ms
from ..store import Idempotency, Namespace

__all__ = ["id_at_agent"]

_OWNERS = "relay/message-ids"  # no caller is called so: identities have three parts, or one


async def id_at_agent(run: Run, client: Client, message_id: str) -> str:
    """Return the id under which a message is sent on: the same one whenever it is asked for."""
    if client.deduplicates or _is_unique(message_id):
        return message_id  # keys of our making tell callers apart; or nobody else has it
    namespace = run.log.namespace
    owner = hashlib.sha256("\0".join(namespace).encode()).digest()
    if await _claim(run, namespace.agent, message_id, owner):
        return message_id
    return hashlib.sha256(owner + message_id.encode()).hexdigest()[:32]


async def _claim(run: Run, agent: str, message_id: str, owner: bytes) -> bool:
    """Whether an id belongs to this caller, from now on or already."""
    tasks, ids = run.runs.tasks, Namespace(agent, "", _OWNERS)
    key = hashlib.sha256(message_id.encode()).hexdigest()  # whatever its length
    known = await tasks.store.idempotency(ids, key, 0)
    if known is None:
        if await tasks.writer.submit(Idempotency(ids, key, owner, now_ms(), reply=b"-")):
            return True
        known = await tasks.store.idempotency(ids, key, 0)  # another one was faster
    return known is not None and known.digest == owner


def _is_unique(message_id: str) -> bool:
    """Whether only who made an id can have it: as SDKs make them, at random."""
    try:
        return str(uuid.UUID(message_id)) == message_id.lower()
    except ValueError:
        return False
