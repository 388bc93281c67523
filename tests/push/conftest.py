from collections.abc import AsyncIterator

import pytest

from .webhook import Webhook, webhook


@pytest.fixture
async def hook() -> AsyncIterator[Webhook]:
    async with webhook() as made:
        yield made
