"""The id of a message at the other agent: the caller's own, unless another caller used it there.

Callers share the relay's credential. An agent may take a message with a known id for a repetition.
So an id belongs to the caller who used it first; others get an id made from theirs.
"""

import hashlib
import uuid

from ..client import Client
from ..engine.runs import Run
from ..store import Idempotency, Namespace

__all__ = ["id_at_agent"]

_OWNERS = "relay/message-ids"  # no caller has this identity: those have three parts, or one


async def id_at_agent(run: Run, client: Client, message_id: str) -> str:
    """Return the id under which a message is sent on: the same one whenever it is asked for."""
    if client.deduplicates or _is_unique(message_id):
        return message_id  # the idempotency key keeps callers apart, or nobody else has this id
    namespace = run.log.namespace
    owner = hashlib.sha256("\0".join(namespace).encode()).digest()
    if await _claim(run, namespace.agent, message_id, owner):
        return message_id
    return hashlib.sha256(owner + message_id.encode()).hexdigest()[:32]


async def _claim(run: Run, agent: str, message_id: str, owner: bytes) -> bool:
    """Claim an id for a caller; return whether it is theirs."""
    tasks, ids = run.runs.tasks, Namespace(agent, "", _OWNERS)
    key = hashlib.sha256(message_id.encode()).hexdigest()  # ids may be long
    known = await tasks.store.idempotency(ids, key)
    if known is None:
        if await tasks.writer.submit(Idempotency(ids, key, owner, reply=b"-")):
            return True
        known = await tasks.store.idempotency(ids, key)  # another one was faster
    return known is not None and known.digest == owner


def _is_unique(message_id: str) -> bool:
    """Return whether an id is a UUID, as SDKs make them: no other caller has the same."""
    try:
        return str(uuid.UUID(message_id)) == message_id.lower()
    except ValueError:
        return False
