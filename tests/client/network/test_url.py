"""URLs: what is read from them, what is refused, and what is never told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.net import host_of, origin_of, safe_url
from accord.net import parse_url as parse


@pytest.mark.parametrize(
    ("text", "origin", "target"),
    [
        ("http://dock.example", "http://dock.example", "/"),
        ("HTTPS://Dock.Example:443/A", "https://dock.example", "/A"),
        ("http://dock.example:80?x=1", "http://dock.example", "/?x=1"),
        ("http://dock.example:443/", "http://dock.example:443", "/"),
        ("http://[::1]:8000/a", "http://[::1]:8000", "/a"),
        ("https://[2001:DB8:0::1]/", "https://[2001:db8::1]", "/"),
        ("http://bücher.example/", "http://xn--bcher-kva.example", "/"),
        ("http://dock.example./a", "http://dock.example.", "/a"),
        ("http://dock_1.example/a%2Fb;c=d", "http://dock_1.example", "/a%2Fb;c=d"),
        ("http://ada:pw@dock.example/a#b", "http://dock.example", "/a"),
        ("http://dock.example/ä ö?ü", "http://dock.example", "/%C3%A4%20%C3%B6?%C3%BC"),
    ],
)
def test_what_is_read(text, origin, target):
    """Origin and target, in the one form they are compared and sent in."""
    url = parse(text)
    assert (url.origin, url.target) == (origin, target)
    assert str(parse(str(url))) == str(url)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "dock.example",
        "//dock.example/",
        "ftp://dock.example/",
        "http://",
        "http:///a",
        "http://:80/",
        "http://dock.example:0/",
        "http://dock.example:65536/",
        "http://dock.example:x/",
        "http://dock example/",
        "http://dock.example\\@evil.example/",
        "http://dock..example/",
        "http://%64ock.example/",
        "http://[::1/",
        "http://[fe80::1%25eth0]/",
        "http://[dock.example]/",
        "http://stra\u00dfe.example/",  # one name in 2003, another today
        "http://dock.example/\r\nX-Evil: 1",
        "http://dock.example/\t",
        "http://dock\0.example/",
        "http://" + "a" * 64 + ".example/",
    ],
)
def test_what_is_refused(text):
    """It would lead elsewhere, or nowhere, or out of the request."""
    with pytest.raises(ValueError):  # the reasons differ, and are not told to anyone  # noqa: PT011
        parse(text)
    assert host_of(text) == ""


@pytest.mark.parametrize(
    "text",
    [
        "http://ada:s3cret@dock.example/a?key=s3cret",
        "http://ada:s3cret@[::1/a?s3cret",
        "x://ada:s3cret@h:x/?s3cret#s3cret",
    ],
)
def test_nothing_secret_is_told(text):
    """Messages and logs name the place, not how to get in."""
    assert "s3cret" not in safe_url(text)


@given(st.text(max_size=40))
def test_whatever_is_typed(text):
    """A URL, or a ValueError; and always something that can be put in a line of a log."""
    for given_ in (text, "http://" + text, "http://dock.example/" + text):
        try:
            url = parse(given_)
        except ValueError:
            pass
        else:
            line = f"GET {url.target} HTTP/1.1 {url.authority} {origin_of(given_)}"
            assert line.isascii()
            assert line.isprintable()
            assert url.target.count(" ") == 0
        assert "\n" not in safe_url(given_)
