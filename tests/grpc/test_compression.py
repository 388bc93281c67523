"""Header compression with a cache gives what it gives without."""

from hpack import Decoder, Encoder, HeaderTuple, NeverIndexedHeaderTuple
from hypothesis import given
from hypothesis import strategies as st

from accord.server.grpc.compression import CachingDecoder, CachingEncoder

# Few and large: they meet again, and drive each other out of the table.
PAIRS = [(b":path", b"/a"), (b"x-id", b"1"), (b"x-id", b"2"), (b"long", b"a" * 200), (b"b", b"")]
HEADERS = st.sampled_from(
    [HeaderTuple(*pair) for pair in PAIRS] + [NeverIndexedHeaderTuple(*pair) for pair in PAIRS]
)
LISTS = st.lists(st.lists(HEADERS, min_size=1, max_size=4), min_size=1, max_size=4)
# Which of the lists is sent, and the size the table gets before, if it changes.
SENT = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([None, None, None, 0, 64, 300, 4096])), max_size=30
)


@given(LISTS, SENT)
def test_what_is_decoded_is_the_same(
    lists: list[list[HeaderTuple]], sent: list[tuple[int, int | None]]
) -> None:
    encoder, plain, caching = Encoder(), Decoder(), CachingDecoder()
    for n, size in sent:
        if size is not None:
            encoder.header_table_size = size
        block = encoder.encode(lists[n % len(lists)])
        expected = list(plain.decode(block, raw=True))
        assert list(caching.decode(block, raw=True)) == expected
        assert caching.header_table.dynamic_entries == plain.header_table.dynamic_entries


@given(LISTS, SENT)
def test_what_is_encoded_is_the_same(
    lists: list[list[HeaderTuple]], sent: list[tuple[int, int | None]]
) -> None:
    plain, caching = Encoder(), CachingEncoder()
    for n, size in sent:
        if size is not None:
            plain.header_table_size = caching.header_table_size = size
        headers = lists[n % len(lists)]
        assert caching.encode(headers) == plain.encode(headers)


def test_a_block_that_comes_again_is_not_decoded_again() -> None:
    encoder, decoder = Encoder(), CachingDecoder()
    headers = [HeaderTuple(*pair) for pair in PAIRS]
    decoder.decode(encoder.encode(headers))  # fills the table
    block = encoder.encode(headers)

    assert decoder.decode(block) is decoder.decode(block)


def test_many_different_blocks_are_not_kept() -> None:
    encoder, decoder = Encoder(), CachingDecoder()
    for n in range(1000):
        decoder.decode(encoder.encode([NeverIndexedHeaderTuple(b"x-id", b"%d" % n)]))

    assert len(decoder._cache._known) <= 16
