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
        Check("reach.connects", 6, "The interface answers"),
        Check("reach.task", 6, "An unknown task is TaskNotFound"),
        Check("reach.version", 4, "An unknown version is refused"),
        Check("reach.method", 4, "An unknown method is refused"),
        Check("reach.params", 3, "A send without a message is InvalidParams"),
        Check("reach.body", 2, "A body of text/plain is refused as such"),
        Check("send.answers", 9, "A message is answered"),
        Check("send.shape", 7, "The answer is well-formed"),
        Check("send.get", 4, "GetTask agrees with the answer"),
        Check("send.wait", 4, "A blocking send waits for the end"),
        Check("send.history", 3, "historyLength bounds the history"),
        Check("send.follow", 3, "A message to a task that is over, or unknown, is refused"),
        Check("stream.first", 6, "A stream begins with the task or the message"),
        Check("stream.end", 5, "A stream ends when the task does"),
        Check("stream.subscribe", 4, "Subscribing to an unknown task is TaskNotFound"),
        Check("rest.list", 4, "The task is in the list of tasks"),
        Check("rest.cancel", 3, "A task that is over can't be canceled"),
        Check("rest.push", 3, "Push notifications are as the card declares"),
        # of a version that is not released: it costs nobody points
        Check("rest.generation", 0, "Generations count the changes of a task"),
        Check("rest.match", 0, "A message for another generation is refused"),
    )
}
