"""The conformance kit, on each of our stores."""

import pytest

from accord.testing import store_suite

from .conftest import Box


@pytest.mark.parametrize("check", store_suite.CHECKS, ids=lambda check: check.name)
async def test_our_stores_keep_every_promise_of_the_contract(
    check: store_suite.StoreCheck, box: Box
) -> None:
    """What others can put their own stores through."""
    await check.run(box)
