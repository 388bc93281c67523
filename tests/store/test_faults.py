"""Faults of a part of a store: when they are said."""

import logging

import pytest

from accord.store.faults import Faults


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [one.message for one in caplog.records if one.levelno >= logging.WARNING]
    caplog.clear()
    return found


def test_a_part_that_comes_back_a_moment_after_the_store_is_not_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    faults = Faults()
    for _ in range(2):  # two outages
        faults.failed("reading", "no server")
        faults.say()
        faults.works("reading")
        faults.say()
    assert said(caplog) == []


def test_a_part_that_fails_while_the_store_is_written_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    faults = Faults()
    for _ in range(4):
        faults.failed("reading", "no server")
        faults.say()
    assert said(caplog) == [
        "reading fails, though the store can be written; trying again: no server"
    ]
    faults.works("reading")
    faults.works("reading")
    assert said(caplog) == ["reading works again"]
