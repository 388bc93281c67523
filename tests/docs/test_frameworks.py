"""The page on other frameworks shows the examples as they are; those are run where the frameworks
are installed.
"""

import pytest

from accord.integrations.wrapping import KINDS
from tests.docs.page import ROOT

EXAMPLES = sorted((ROOT / "examples" / "frameworks").glob("[!_]*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_on_the_page_as_it_is(path):
    code = path.read_text().split('"""', 2)[2].strip()
    assert f"```python\n{code}\n```" in (ROOT / "docs" / "frameworks.md").read_text()


def test_every_framework_has_an_example():
    shown = {path.stem.removesuffix("_agent").removesuffix("_flow") for path in EXAMPLES}
    assert shown == set(KINDS.values()) - {"a2a_sdk", "mcp"}
