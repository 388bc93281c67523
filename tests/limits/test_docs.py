"""The page about limits says what is so."""

import re
from pathlib import Path

from msgspec.structs import fields

from accord.model import Limits

PAGE = Path(__file__).parents[2] / "docs" / "limits.md"


def test_every_setting_is_on_the_page_with_its_default():
    """In the order of the settings, so that nothing is missing and nothing is left from before."""
    rows = re.findall(r"^\| `(\w+)` \| ([\d.]+) \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    assert [(name, default) for name, default, _ in rows] == [
        (field.name, str(field.default)) for field in fields(Limits)
    ]
    assert all(len(what) > 20 for _, _, what in rows)
