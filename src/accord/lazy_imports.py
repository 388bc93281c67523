"""Names of a package that are imported when they are first used."""

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from types import CodeType, SimpleNamespace
from typing import Any

__all__ = ["lazy_imports"]


def lazy_imports(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a package, whose `__init__` calls this.

    The first imports a name that the package imports `if TYPE_CHECKING`. The second lists the names
    in `__all__` of the package, which are those for users; if it has none, all of these names.
    """
    body = sys._getframe(1)
    where = {name: at for name, at in _imports(body.f_code).items() if name not in body.f_globals}

    def load(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(where[name], package), name)
        vars(sys.modules[package])[name] = value  # found without this function from now on
        return value

    def names() -> list[str]:
        return sorted(vars(sys.modules[package]).get("__all__", where))

    return load, names


def _imports(code: CodeType) -> dict[str, str]:
    """Return the names that the body of a module imports for type checkers, and from where.

    Type checkers and editors follow nothing but import statements, so these are the one table of
    names. The body is run once more, as a type checker reads it, with imports that are only noted:
    unlike its source, or a stub, the code is there in a frozen program too. So a body that calls
    `lazy_imports` has only imports and plain values: no builtin function is there in that run.
    """
    found: dict[str, str] = {}

    def note(
        module: str, scope: object, local: object, names: Sequence[str] | None, level: int
    ) -> SimpleNamespace:
        found.update(dict.fromkeys(names or (), "." * level + module))
        return SimpleNamespace(**dict.fromkeys(names or (), True))  # so TYPE_CHECKING is true

    exec(code, {"__builtins__": {"__import__": note}})
    return found
