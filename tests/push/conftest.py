from collections.abc import AsyncIterator

import pytest

from .webhook import Webhook, webhook


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a blocking send waits for comes on the slowest machine."""
    monkeypatch.setattr("accord.push.outbox.FIRST_ATTEMPT_S", 30.0)


@pytest.fixture
async def hook() -> AsyncIterator[Webhook]:
    async with webhook() as made:
        yield made
