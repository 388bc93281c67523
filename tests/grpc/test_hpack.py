"""HPACK: the examples its specification gives, and what no encoder may send."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.wire import huffman
from accord.wire.hpack import BOMB_BYTES, TABLE_BYTES, BadBlock, Decoder, TooLarge, size_of, written

MOST = 1 << 14

COOKIE = (b"set-cookie", b"foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1")
DATE = b"Mon, 21 Oct 2013 20:13:%d GMT"
GET = [(b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/"), (b":authority", b"www.example.com")]
REQUESTS = [
    GET,
    [*GET, (b"cache-control", b"no-cache")],
    [
        (b":method", b"GET"),
        (b":scheme", b"https"),
        (b":path", b"/index.html"),
        (b":authority", b"www.example.com"),
        (b"custom-key", b"custom-value"),
    ],
]
PLACE = (b"location", b"https://www.example.com")
RESPONSES = [
    [(b":status", b"302"), (b"cache-control", b"private"), (b"date", DATE % 21), PLACE],
    [(b":status", b"307"), (b"cache-control", b"private"), (b"date", DATE % 21), PLACE],
    [(b":status", b"200"), (b"cache-control", b"private"), (b"date", DATE % 22), PLACE, (b"content-encoding", b"gzip"), COOKIE],
]
SMALL_TABLE = "3fe101"  # 256 bytes, as the examples of responses have it


def read(decoder: Decoder, text: str) -> list[tuple[bytes, bytes]]:
    return decoder.decode(bytes.fromhex(text), MOST)


@pytest.mark.parametrize(
    ("block", "pair"),
    [
        ("400a637573746f6d2d6b65790d637573746f6d2d686561646572", (b"custom-key", b"custom-header")),
        ("040c2f73616d706c652f70617468", (b":path", b"/sample/path")),
        ("100870617373776f726406736563726574", (b"password", b"secret")),
        ("82", (b":method", b"GET")),
    ],
)
def test_one_header_in_every_form(block, pair):
    """RFC 7541, C.2."""
    assert read(Decoder(), block) == [pair]


@pytest.mark.parametrize(
    "blocks",
    [
        [
            "828684410f7777772e6578616d706c652e636f6d",
            "828684be58086e6f2d6361636865",
            "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
        ],
        ["828684418cf1e3c2e5f23a6ba0ab90f4ff", "828684be5886a8eb10649cbf", "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf"],
    ],
    ids=["plain", "huffman"],
)
def test_requests_after_each_other(blocks):
    """RFC 7541, C.3 and C.4: later ones refer to earlier ones."""
    decoder = Decoder()
    assert [read(decoder, block) for block in blocks] == REQUESTS


@pytest.mark.parametrize(
    "blocks",
    [
        [
            SMALL_TABLE + "4803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a323120474d54"
            "6e1768747470733a2f2f7777772e6578616d706c652e636f6d",
            "4803333037c1c0bf",
            "88c1611d4d6f6e2c203231204f637420323031332032303a31333a323220474d54c05a04677a69707738666f6f3d4153444a4b48514b425a584f"
            "5157454f50495541585157454f49553b206d61782d6167653d333630303b2076657273696f6e3d31",
        ],
        [
            SMALL_TABLE
            + "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae82ae43d3",
            "4883640effc1c0bf",
            "88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b335dfdfcd5b3960d5af27087f3672c1ab27"
            "0fb5291f9587316065c003ed4ee5b1063d5007",
        ],
    ],
    ids=["plain", "huffman"],
)
def test_responses_with_a_table_too_small_for_all(blocks):
    """RFC 7541, C.5 and C.6: old entries make room."""
    decoder = Decoder()
    assert [read(decoder, block) for block in blocks] == RESPONSES


def packed(text: bytes) -> bytes:
    """`text` in HPACK's Huffman code."""
    bits = length = 0
    for byte in text:
        code, size = huffman.CODES[byte]
        bits, length = bits << size | code, length + size
    fill = -length % 8
    return (bits << fill | (1 << fill) - 1).to_bytes((length + fill) // 8, "big")


@given(st.binary(max_size=200))
def test_every_byte_can_be_packed(text):
    """And comes back."""
    assert huffman.decode(packed(text)) == text


@pytest.mark.parametrize(
    "data",
    [
        "ffffffff",  # the end of the text, inside it
        "ff",  # eight bits that say nothing
        "1fff",  # an a, and more than seven bits to fill up
        "18",  # an a, filled up with zeros
    ],
)
def test_what_fills_the_last_byte_is_checked(data):
    """RFC 7541, 5.2: ones, fewer than eight, and never the whole end."""
    with pytest.raises(huffman.BadHuffman):
        huffman.decode(bytes.fromhex(data))


@pytest.mark.parametrize(
    "block",
    [
        "80",  # the entry with the number 0
        "be",  # a table with nothing in it
        "ffffffffff0f",  # a number of the wrong size
        "ff80808080808000",  # one that never ends
        "ff",  # one that is cut off
        "40",
        "400a6375",  # a name that is cut off
        "0005616263",
        "40816100",  # a name that is no Huffman
        "823fe101",  # the table changes its size after the first header
        "3fe21f",  # to more than we allow
    ],
)
def test_a_broken_block_is_refused(block):
    """As the error it is: the next block could not be understood."""
    with pytest.raises(BadBlock):
        read(Decoder(), block)


def test_a_list_too_large_leaves_the_table_right():
    """Who sends too much is refused; what it sends next is understood."""
    decoder = Decoder()
    new = b"\x40\x01a\x01b"
    large = b"\x00\x01x\x7f\xd1\x0e" + b"x" * 2000
    with pytest.raises(TooLarge):
        decoder.decode(new + large, 1000)
    assert decoder.decode(b"\xbe", 1000) == [(b"a", b"b")]


def test_few_bytes_cannot_stand_for_many():
    """One entry, asked for again and again, is stopped before it fills the memory."""
    decoder = Decoder()
    decoder.decode(b"\x40\x01a\x7f\xa1\x1e" + b"x" * 4000, MOST)
    with pytest.raises(BadBlock):
        decoder.decode(b"\xbe" * (BOMB_BYTES // 4000), MOST)


def test_an_entry_larger_than_the_table_empties_it():
    """RFC 7541, 4.4: that is no error."""
    decoder = Decoder()
    read(decoder, "4001610162")
    name = b"x" * TABLE_BYTES
    assert decoder.decode(b"\x40\x7f\x81\x1f" + name + b"\x00", MOST) == [(name, b"")]
    with pytest.raises(BadBlock):
        read(decoder, "be")


texts = st.binary(max_size=300)


@given(st.lists(st.tuples(texts, texts) | st.sampled_from([pair for block in REQUESTS + RESPONSES for pair in block]), max_size=20))
def test_what_is_written_can_be_read(pairs):
    """And changes no table: it can be said on any connection at any time."""
    decoder = Decoder()
    assert decoder.decode(written(pairs), size_of(pairs)) == pairs
    assert decoder.changes == 0


@given(st.lists(st.binary(max_size=60), max_size=5))
def test_any_bytes_are_read_or_refused(blocks):
    """Nothing else happens, however often."""
    decoder = Decoder()
    for block in blocks:
        with contextlib.suppress(BadBlock, TooLarge):
            decoder.decode(block, MOST)
