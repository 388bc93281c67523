"""What is a request and what is not, and where it ends: bytes alone, no connection."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.server.http1.parser import Bad, Chunked, Sized, read_head

POST = b"POST / HTTP/1.1\r\nhost: a\r\n"


def head(lines: bytes, first: bytes = POST):
    return read_head(first + lines + b"\r\n")


@pytest.mark.parametrize(("first", "path", "raw", "query"), [
    (b"GET /a/b?c=d&e HTTP/1.1", "/a/b", "/a/b", b"c=d&e"),
    (b"GET /a%2Fb%20c HTTP/1.1", "/a/b c", "/a%2Fb%20c", b""),
    (b"GET /%C3%A9?%3F HTTP/1.1", "/\u00e9", "/%C3%A9", b"%3F"),
    (b"GET /? HTTP/1.1", "/", "/", b""),
    (b"GET //a//b HTTP/1.1", "//a//b", "//a//b", b""),
    (b"GET /a#b?c HTTP/1.1", "/a", "/a", b""),
    (b"GET http://x:81/a?b HTTP/1.1", "/a", "/a", b"b"),
    (b"GET http://x HTTP/1.1", "/", "/", b""),
    (b"GET HTTPS://x?b HTTP/1.1", "/", "/", b"b"),
    (b"OPTIONS * HTTP/1.1", "*", "*", b""),
])  # fmt: skip
def test_a_target_in_every_form(first, path, raw, query):
    """RFC 9112, 3.2: a path, a whole URL, an empty path, a star. Undecoded too, for ids with a
    slash in them.
    """
    target = head(b"", first + b"\r\nhost: a\r\n").target
    assert (target.path, target.raw, target.query) == (path, raw, query)


def test_the_host_of_a_whole_url_counts():
    """RFC 9112, 3.2.2: whatever the Host header says."""
    assert (
        head(b"", b"GET http://me@x:81/a HTTP/1.1\r\nhost: other\r\n").headers[b"host"] == b"x:81"
    )


@pytest.mark.parametrize(("lines", "length", "is_keep_alive", "is_waiting"), [
    (b"", 0, True, False),
    (b"content-length: 5\r\n", 5, True, False),
    (b"Content-Length:  005 \r\n", 5, True, False),
    (b"transfer-encoding: chunked\r\n", -1, True, False),
    (b"Transfer-Encoding: Chunked\r\n", -1, True, False),
    (b"connection: close\r\n", 0, False, False),
    (b"connection: Keep-Alive\r\n", 0, True, False),
    (b"connection: TE, Close\r\n", 0, False, False),
    (b"connection: close\r\nconnection: keep-alive\r\n", 0, False, False),
    (b"connection: keep-alive\r\nconnection: te\r\nconnection: close\r\n", 0, False, False),
    (b"expect: 100-Continue\r\ncontent-length: 5\r\n", 5, True, True),
    (b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: "
b"AAMA\r\ncontent-length: 5\r\n", 5, True, False),
])  # fmt: skip
def test_what_the_headers_say(lines, length, is_keep_alive, is_waiting):
    found = head(lines)
    assert (found.length, found.is_keep_alive, found.is_waiting, found.is_old) == (
        length,
        is_keep_alive,
        is_waiting,
        False,
    )


@pytest.mark.parametrize(
    ("lines", "is_keep_alive"),
    [(b"", False), (b"connection: keep-alive\r\n", True), (b"connection: x\r\n", False)],
)
def test_the_old_version_closes_unless_it_says_otherwise(lines, is_keep_alive):
    """HTTP/1.0: no Host is needed, and a connection is for one request."""
    found = head(lines, b"GET / HTTP/1.0\r\n")
    assert (found.is_old, found.is_keep_alive) == (True, is_keep_alive)


def test_names_are_in_lower_case_and_the_last_counts():
    found = head(b"X-A: 1\r\nx-a: 2\r\n")
    assert found.headers[b"x-a"] == b"2"
    assert [value for name, value in found.pairs if name == b"x-a"] == [b"1", b"2"]


BAD = {
    "length and chunks": (
        POST + b"content-length: 5\r\ntransfer-encoding: chunked\r\n",
        400,
        "Transfer-Encoding",
    ),
    "chunks and length": (
        POST + b"transfer-encoding: chunked\r\ncontent-length: 5\r\n",
        400,
        "Content-Length",
    ),
    "two lengths": (POST + b"content-length: 5\r\ncontent-length: 6\r\n", 400, "Content-Length"),
    "a length twice": (POST + b"content-length: 5\r\ncontent-length: 5\r\n", 400, "Content-Length"),
    "a list of lengths": (POST + b"content-length: 5, 5\r\n", 400, "Content-Length"),
    "a length with a sign": (POST + b"content-length: +5\r\n", 400, "Content-Length"),
    "a length below nothing": (POST + b"content-length: -5\r\n", 400, "Content-Length"),
    "a length in hex": (POST + b"content-length: 0x5\r\n", 400, "Content-Length"),
    "a length beyond numbers": (
        POST + b"content-length: 99999999999999999999999\r\n",
        400,
        "overflow",
    ),
    "chunks inside something": (
        POST + b"transfer-encoding: chunked, gzip\r\n",
        400,
        "Transfer-Encoding",
    ),
    "something inside chunks": (POST + b"transfer-encoding: gzip, chunked\r\n", 501, "chunked"),
    "no chunks at all": (POST + b"transfer-encoding: identity\r\n", 400, "Transfer-Encoding"),
    "nearly chunks": (POST + b"transfer-encoding: xchunked\r\n", 400, "Transfer-Encoding"),
    "chunks twice": (
        POST + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
        400,
        "Transfer-Encoding",
    ),
    "chunks of the old version": (
        b"POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n",
        400,
        "ambiguous",
    ),
    "a folded header": (POST + b"x-a: b\r\n c\r\n", 400, "whitespace"),
    "a header of nothing": (POST + b": b\r\n", 400, "header"),
    "no header": (POST + b"abc\r\n", 400, "header"),
    "a space before the colon": (POST + b"x-a : b\r\n", 400, "header"),
    "a space before the name": (POST + b" x-a: b\r\n", 400, "whitespace"),
    "NUL in a value": (POST + b"x-a: b\0c\r\n", 400, "header value"),
    "CR in a value": (POST + b"x-a: b\rc\r\n", 400, "LF"),
    "LF in a value": (POST + b"x-a: b\nc: d\r\n", 400, "CR"),
    "a control character": (POST + b"x-a: \x01\r\n", 400, "header value"),
    "no host": (b"GET / HTTP/1.1\r\n", 400, "Host"),
    "two hosts": (POST + b"host: b\r\n", 400, "Host"),
    "a letter beyond ASCII": (b"GET /\xe9 HTTP/1.1\r\nhost: a\r\n", 400, "url"),
    "no path": (b"GET a HTTP/1.1\r\nhost: a\r\n", 400, "url"),
    "a star for a path": (b"GET * HTTP/1.1\r\nhost: a\r\n", 400, "path"),
    "another scheme": (b"GET ftp://a/b HTTP/1.1\r\nhost: a\r\n", 400, "path"),
    "a tunnel": (b"CONNECT a:80 HTTP/1.1\r\nhost: a\r\n", 501, "CONNECT"),
    "an unknown method": (b"BREW / HTTP/1.1\r\nhost: a\r\n", 501, "method"),
    "a method in small letters": (b"get / HTTP/1.1\r\nhost: a\r\n", 501, "method"),
    "HTTP/0.9": (b"GET /\r\n", 505, "HTTP/1.1"),
    "HTTP/2": (b"GET / HTTP/2.0\r\nhost: a\r\n", 505, "HTTP/1.1"),
    "HTTP/2 for real": (b"PRI * HTTP/2.0\r\n", 505, "gRPC"),
    "a version that never was": (b"GET / HTTP/1.7\r\nhost: a\r\n", 400, "version"),
    "257 headers": (POST + b"a:\r\n" * 256, 431, "256"),
    "an expectation": (POST + b"expect: a miracle\r\n", 417, "expectation"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_is_no_request_is_named(what):
    """Whatever leaves room for two opinions about where a request ends is refused (RFC 9112, 11.2),
    and said in words.
    """
    lines, status, word = BAD[what]
    with pytest.raises(Bad) as bad:
        read_head(lines + b"\r\n")
    assert bad.value.status == status
    assert word in str(bad.value)


def fed(body, data: bytes, cuts: list[int]) -> bytes | None:
    """Give a body its bytes in pieces, all that come after it too; return what follows it."""
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    pieces = [data[a:b] for a, b in itertools.pairwise(places)]
    for i, piece in enumerate(pieces):
        rest = body.feed(piece)
        if rest is not None:
            return rest + b"".join(pieces[i + 1 :])
    return None


CHUNKS = st.lists(st.binary(min_size=1, max_size=40), max_size=6)
CUTS = st.lists(st.integers(0, 400), max_size=12)
EXTENSIONS = st.sampled_from([b"", b";a=b", b';a="b c"'])
TRAILERS = st.sampled_from([b"", b"x-a: b\r\n"])


@given(
    CHUNKS,
    st.sampled_from([b"", b";a=b", b';a="b c"']),
    st.sampled_from([b"", b"x-a: b\r\n"]),
    CUTS,
    st.binary(max_size=20),
)
def test_chunks_come_out_whole_however_they_come_in(chunks, extension, trailer, cuts, after):
    data = (
        b"".join(b"%x%b\r\n%b\r\n" % (len(chunk), extension, chunk) for chunk in chunks)
        + b"0\r\n"
        + trailer
        + b"\r\n"
    )
    body = Chunked(10_000)
    assert fed(body, data + after, cuts) == after
    assert bytes(body.data) == b"".join(chunks)


@given(st.binary(min_size=1, max_size=100), CUTS, st.binary(max_size=20))
def test_a_body_of_a_length_comes_out_whole(content, cuts, after):
    body = Sized(len(content))
    assert fed(body, content + after, cuts) == after
    assert bytes(body.data) == content


SIZES = [b"+5", b"-5", b"0x5", b" 5", b"5 ", b"5;\x01", b"5;a\rb", b"g", b"", b"1_0", b"\xd9\xa5"]
ODD = [
    *(size + b"\r\nhello\r\n0\r\n\r\n" for size in SIZES),
    b"5\nhello\r\n0\r\n\r\n",
    b"5\r\nhello0\r\n\r\n",
    b"5\r\nhello\n0\r\n\r\n",
    b"5\r\nhelloo\r\n0\r\n\r\n",
    b"0\r\nx-a b\r\n\r\n",
    b"0\r\n x: y\r\n\r\n",
    b"0\r\nx: y\n\r\n",
]


@pytest.mark.parametrize("data", ODD)
@pytest.mark.parametrize("cuts", [[], list(range(30))])
def test_what_is_no_chunk_is_refused(data, cuts):
    """Every one of these has been read in two ways by two servers."""
    with pytest.raises(Bad):
        fed(Chunked(10_000), data, cuts)


def test_chunks_are_too_many():
    body = Chunked(1_000)
    assert body.feed(b"3e8\r\n" + b"x" * 1_000 + b"\r\n") is None
    assert not body.is_too_large
    assert body.feed(b"1\r\nx") is None
    assert body.is_too_large
    assert len(body.data) == 1_000


@pytest.mark.parametrize(
    ("first", "line"), [(b"", b"1;" + b"x" * 100 + b"\r\nx\r\n"), (b"0\r\n", b"a: b\r\n")]
)
def test_what_is_said_about_chunks_is_bounded(first, line):
    """Extensions and trailers mean nothing here, and must not be a way to keep a server busy
    (CVE-2023-39326).
    """
    body = Chunked(1 << 20)
    body.feed(first)

    def feed():
        for _ in range(10_000):
            body.feed(line)

    with pytest.raises(Bad, match="chunk extensions"):
        feed()


def test_chunks_of_a_byte_each_are_bounded():
    """Some thousands are lawful; a body of nothing else keeps a server busier than its client."""
    body = Chunked(1 << 20)
    for _ in range(4_000):
        body.feed(b"1\r\nx\r\n")
    with pytest.raises(Bad, match="chunks of less"):
        body.feed(b"1\r\nx\r\n" * 1_000)


def test_a_body_full_of_ends_is_read_to_its_own():
    """What looks like the end of the chunks inside of one is none."""
    body, content = Chunked(1 << 20), b"0\r\n\r\n" * 1_000
    assert body.feed(b"%x\r\n%b\r\n0\r\n\r\nGET" % (len(content), content)) == b"GET"
    assert bytes(body.data) == content
