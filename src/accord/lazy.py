"""Names of a package that are imported when they are first used."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

__all__ = ["lazy"]


def lazy(package: str, where: dict[str, str]) -> Callable[[str], Any]:
    """Return a `__getattr__` for a package: it imports a name from the module that has it."""

    def load(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f".{where[name]}", package), name)

    return load
