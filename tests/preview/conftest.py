"""Servers with the preview of A2A 1.1, and doors that name it."""

from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from tests.conftest import Connect, over_grpc, over_http
from tests.preview.doors import DOORS


@pytest.fixture(params=DOORS)
def connect(request: pytest.FixtureRequest) -> Connect:
    """As tests/conftest.py has it, in 1.1."""
    return preview(request.param)


def preview(binding: str) -> Connect:
    """What connects to a server with the preview over one binding."""

    def connect(agent: Any, **options: Any) -> AbstractAsyncContextManager[Any]:
        options.setdefault("previews", ["1.1"])
        if binding == "grpc":
            return over_grpc(agent, DOORS["grpc"], **options)
        return over_http(DOORS[binding])(agent, **options)

    return connect
