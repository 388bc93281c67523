"""Names of a package that are imported when they are first used."""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

__all__ = ["lazy"]


def lazy(
    package: str, where: dict[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a package.

    The first imports a name from the module that has it. The second lists the names in `__all__` of
    the package, which are those for users; if it has none, those in `where`.
    """

    def load(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f".{where[name]}", package), name)
        vars(sys.modules[package])[name] = value  # found without this function from now on
        return value

    def names() -> list[str]:
        return sorted(vars(sys.modules[package]).get("__all__", where))

    return load, names
