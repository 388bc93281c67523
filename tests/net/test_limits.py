"""The one token bucket: for callers, failed logins, quotas of a hub and floods of HTTP/2."""

import math

from accord.net import Rate, TokenBucket, TokenBuckets, backoff_s


def test_a_bucket_gives_a_burst_and_then_its_rate():
    now = [100.0]
    bucket = TokenBucket(Rate(3, 0.5), lambda: now[0])
    assert [bucket.take() for _ in range(4)] == [0, 0, 0, 2.0]
    now[0] += 1.5
    assert bucket.take() == 0.5
    now[0] += 0.5
    assert [bucket.take(), bucket.take()] == [0, 2.0]
    now[0] += 1000
    assert [bucket.take(3), bucket.take(4)] == [0, math.inf], "it holds no more than its burst"


def test_what_is_refused_costs_nothing():
    """Who asks too often is not kept out for longer by asking."""
    now = [0.0]
    bucket = TokenBucket(Rate(1, 1), lambda: now[0])
    assert bucket.take() == 0
    assert [bucket.take() for _ in range(100)] == [1.0] * 100
    assert bucket.wait_s() == 1.0


def test_a_rate_that_changes_keeps_what_was_spent():
    """A hub's share of a limit changes when another hub comes or goes."""
    buckets = TokenBuckets(clock=lambda: 0.0)
    assert [buckets.take("a", Rate(4, 0)) for _ in range(2)] == [0, 0]
    assert buckets.take("a", Rate(2, 1)) == 1.0
    assert buckets.take("a", Rate(4, 0)) == 0


def test_the_keys_not_used_for_longest_are_forgotten():
    """Whoever makes up names does not fill the memory, and does not free who keeps calling."""
    buckets = TokenBuckets(2, clock=lambda: 0.0)
    once = Rate(1, 0)
    assert [buckets.take("a", once), buckets.take("b", once)] == [0, 0]
    assert buckets.take("a", once) == math.inf
    assert buckets.take("c", once) == 0
    assert buckets.wait_s("a", once) == math.inf
    assert buckets.wait_s("b", once) == 0


def test_pauses_grow_up_to_the_longest():
    assert [backoff_s(n, first_s=0.5, most_s=3.0) for n in range(5)] == [0.5, 1, 2, 3, 3]
    assert backoff_s(10**6, first_s=0.5, most_s=3.0, factor=1.5) == 3.0
    assert backoff_s(10**6, first_s=0.0, most_s=3.0) in (0.0, 3.0)
