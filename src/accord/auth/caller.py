"""The party behind a request, as far as the server has made sure of it."""

import msgspec

__all__ = ["ANONYMOUS", "Caller"]


class Caller(msgspec.Struct, frozen=True):
    """Who is calling. Tasks belong to their caller: nobody else finds them.

    `name` is empty for everyone who did not have to prove anything; all of those are one caller.
    """

    name: str = ""

    @property
    def is_anonymous(self) -> bool:
        return not self.name


ANONYMOUS = Caller()
