"""A refusal names types as a user knows them."""

from typing import Annotated, Any

import msgspec
import pytest

from accord.protocol.text import in_plain_words


@pytest.mark.parametrize(
    ("type_", "value", "said"),
    [
        (int | None, "x", "expected a whole number or null, got text"),
        (Annotated[int, msgspec.Meta(ge=0)], -1, "expected a whole number >= 0"),
        (list[bool], [1], "expected true or false, got a whole number - at `$[0]`"),
        (bytes, 3, "expected text in base64, got a whole number"),
        (dict[str, float], [], "expected an object, got a list"),
    ],
)
def test_types_are_named_as_a_user_knows_them(type_: Any, value: Any, said: str):
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.convert(value, type_)
    assert in_plain_words(refused.value) == said


def test_other_complaints_stay_as_they_are():
    """A field may have the name of a type, and a quoted value may look like a complaint."""
    for said in ("Object missing required field `date`", "Invalid enum value 'Expected `int`'"):
        assert in_plain_words(said) == said
