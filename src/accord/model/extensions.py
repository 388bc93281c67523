"""The names of our own extensions, as cards and the A2A-Extensions header carry them."""

__all__ = [
    "FILES",
    "FORK",
    "IDEMPOTENT",
    "PROBE",
    "PROGRESS",
    "PUSH_ARTIFACTS",
    "QUESTION",
    "RESUME",
    "SCHEMA",
]

RESUME = "urn:accord:resume:1"
IDEMPOTENT = "urn:accord:idempotent:1"
SCHEMA = "urn:accord:schema:1"
# Files of any size are uploaded at the address in the card. Activated with a call: addresses in
# its answer are signed.
FILES = "urn:accord:files:1"
PUSH_ARTIFACTS = "urn:accord:push-artifacts:1"
# A message with metadata.probe is answered by an echo, without calling a skill.
PROBE = "urn:accord:probe:1"
# In the metadata of a status: how far the work is, as numbers. Nobody has to ask for it.
PROGRESS = "urn:accord:progress:1"
# In the metadata of a question: its id and its deadline; of a message: the id of the question that
# it answers. Nobody has to ask for it.
QUESTION = "urn:accord:question:1"
# In the metadata of a message: which task is to be forked, and at which of its events; of a task:
# which one it was forked from. It has to be activated with the message.
FORK = "urn:accord:fork:1"
