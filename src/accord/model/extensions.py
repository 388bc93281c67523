"""The names of our own extensions, as cards and the A2A-Extensions header carry them."""

__all__ = ["IDEMPOTENT", "PROBE", "PROGRESS", "PUSH_ARTIFACTS", "RESUME", "SCHEMA"]

RESUME = "urn:accord:resume:1"
IDEMPOTENT = "urn:accord:idempotent:1"
SCHEMA = "urn:accord:schema:1"
PUSH_ARTIFACTS = "urn:accord:push-artifacts:1"
# A message with metadata.probe is answered by an echo, without calling a skill.
PROBE = "urn:accord:probe:1"
# In the metadata of a status: how far the work is, as numbers. Nobody has to ask for it.
PROGRESS = "urn:accord:progress:1"
