"""What every store promises of tasks and their logs, asked of each of them."""

import pytest

from accord.store.open import open_store


@pytest.mark.parametrize("url", ["redis://x", "memory://x", "sqlite://", "sqlite:///", "tasks.db"])
def test_an_unknown_store_is_named_with_the_way_out(url: str) -> None:
    with pytest.raises(ValueError, match="use memory:// or sqlite:///"):
        open_store(url)
