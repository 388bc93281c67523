"""The checks: what each is called, what it is worth, and which function makes it.

The functions stand in `card.py` (checks of the card, once) and `calls.py` (once per interface, in
this order).
"""

from typing import NamedTuple

__all__ = ["CHECKS", "GROUPS", "Check"]

GROUPS = {
    "card": "The card",
    "reach": "Reaching it",
    "send": "Sending",
    "stream": "Streaming",
    "rest": "The rest",
}


class Check(NamedTuple):
    id: str
    points: int
    title: str

    @property
    def group(self) -> str:
        return self.id.partition(".")[0]


CHECKS = {
    check.id: check
    for check in (
        Check("card.found", 5, "The card is at its well-known address"),
        Check("card.valid", 6, "The card is valid for its version, without repair"),
        Check("card.origin", 4, "The interfaces use TLS and are where the card is"),
        Check("card.skills", 3, "Agent and skills are described"),
        Check("card.signature", 2, "The signature holds"),
        Check("reach.connects", 8, "The interface answers"),
        Check("reach.task", 9, "An unknown task is TaskNotFound"),
        Check("reach.version", 4, "An unknown version is refused"),
        Check("reach.method", 4, "An unknown method is refused"),
        Check("send.answers", 12, "A message is answered"),
        Check("send.shape", 8, "The answer is well-formed"),
        Check("send.get", 5, "GetTask agrees with the answer"),
        Check("send.wait", 5, "A blocking send waits for the end"),
        Check("stream.first", 6, "A stream begins with the task or the message"),
        Check("stream.end", 5, "A stream ends when the task does"),
        Check("stream.subscribe", 4, "Subscribing to an unknown task is TaskNotFound"),
        Check("rest.list", 4, "The task is in the list of tasks"),
        Check("rest.cancel", 3, "A task that is over can't be canceled"),
        Check("rest.push", 3, "Push notifications are as the card declares"),
    )
}
