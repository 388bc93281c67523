"""Connect to an agent by its URL."""


def connect(url: str) -> None:
    raise NotImplementedError(url)
