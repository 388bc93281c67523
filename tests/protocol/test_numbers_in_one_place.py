"""Numbers of versions stand in `protocol/` and in the table, and nowhere else: so a version is a
folder and its rows.
"""

import ast
import re
from pathlib import Path

import accord

SOURCE = Path(accord.__file__).parent
NUMBER = re.compile(r"[01]\.\d?")
# What looks like one and is none.
OTHERS = {
    "cli/example.py": "a number in an example",
    "client/bindings/asgi.py": "HTTP",
    "server/http1/parser.py": "HTTP",
    "hub/api/catalog.py": "AI Catalog",
    "server/http/catalog.py": "AI Catalog",
}


def _numbers(path: Path) -> list[str]:
    tree = ast.parse(path.read_text())
    return [
        f"{path.relative_to(SOURCE)}:{node.lineno} {node.value!r}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str | bytes)
        and NUMBER.fullmatch(
            node.value if isinstance(node.value, str) else node.value.decode("latin-1")
        )
    ]


def test_numbers_of_versions_stand_in_one_place():
    """A version that is deleted there is gone, in the client and in the checks too."""
    found = [
        number
        for path in SOURCE.rglob("*.py")
        if path.relative_to(SOURCE).parts[0] != "protocol"
        and path != SOURCE / "operations/table.py"
        and path.relative_to(SOURCE).as_posix() not in OTHERS
        for number in _numbers(path)
    ]
    assert found == []
    assert _numbers(SOURCE / "protocol/spoken.py")  # else nothing is looked at


def test_client_and_server_know_the_same_versions():
    """A preview here is a preview there."""
    from accord.operations import PREVIEWS, VERSIONS, numbers
    from accord.protocol import SPOKEN

    assert set(SPOKEN) == numbers((*VERSIONS, *PREVIEWS))
    assert {one.number for one in SPOKEN.values() if one.is_preview} == numbers(PREVIEWS)
