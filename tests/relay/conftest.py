"""Where tasks of a relay outlive its process."""

from tests.engine.conftest import disk

__all__ = ["disk"]
