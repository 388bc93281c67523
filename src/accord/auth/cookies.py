"""Cookies of a request (RFC 6265).

`http.cookies` takes the square of the length for a value with many backslashes, in the versions of
Python before that was mended, and reads nothing at all behind a cookie it does not like: any other
program of the same host may have set one.
"""

__all__ = ["read_cookie"]


def read_cookie(header: str, name: str) -> str:
    """Return a cookie of the header `Cookie`, the last of its name; empty if there is none."""
    found = ""
    for pair in header.split(";"):
        key, is_pair, value = pair.partition("=")
        if is_pair and key.strip() == name:
            found = value.strip()
    is_quoted = len(found) > 1 and found[0] == found[-1] == '"'
    return found[1:-1] if is_quoted else found
