"""The address at which clients reach an app, as it stands in cards."""

from ..net import parse_url

__all__ = ["PublicAddress"]

_NOWHERE = "http://localhost"  # the address of an app in a host that does not say where it is


class PublicAddress:
    """Knows where an app is reached: at the address its user gave, else where HTTP is served."""

    def __init__(self, url: str | None) -> None:
        """Raises ValueError for a URL that no client can use."""
        self.given = _public_url(url) if url else None
        self.base = self.given or _NOWHERE  # the app sets it when it is served

    @property
    def is_known(self) -> bool:
        return self.base != _NOWHERE

    def below(self, path: str) -> str:
        """Return the address of the agent at a path."""
        return f"{self.base}/{path}" if path else self.base

    def given_below(self, path: str) -> str | None:
        """Return the address of the agent at a path, if the user gave one; else its card has the
        address that a client used.
        """
        return f"{self.given}/{path}" if self.given and path else self.given


def _public_url(url: str) -> str:
    """Return the address for the card. Raises ValueError for one that no client can use."""
    try:
        parts = parse_url(url)
    except ValueError as error:
        raise ValueError(
            f"url={url!r} is not an address that clients can call: {error}; write it like "
            "https://hr.corp.example"
        ) from None
    if parts.query or "#" in url or "@" in url.partition("/")[2]:
        raise ValueError(
            f"url={url!r}: an address in a card must not have a user, a query or a fragment"
        )
    return url.rstrip("/")
