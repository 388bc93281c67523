"""The kit is enough: a store written from it alone passes, and each of its faults is found."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from accord.store import Ages, Append, Create, Post
from accord.testing import store_suite

from .dict_store import DictKeys, DictPushes, DictStore, DictTask, Shelf


@pytest.mark.parametrize("check", store_suite.CHECKS, ids=lambda check: check.name)
async def test_a_store_written_from_the_contract_alone_passes(
    check: store_suite.StoreCheck,
) -> None:
    """It shares no code with ours."""
    async with store_suite.opened(Shelf()) as box:
        await check.run(box)


async def passes(check: store_suite.StoreCheck) -> bool:
    try:
        async with asyncio.timeout(2), store_suite.opened(Shelf()) as box:
            await check.run(box)
    except Exception:
        return False
    return True


def _resting(add: Any) -> Any:
    def rests(self: DictStore, task: DictTask, item: Any, at_ms: int) -> None:
        add(self, task, item, at_ms)
        if item.leaves:
            task.record.owner = 0

    return rests


Change = Callable[[Any], Any]  # of a method, given the one there is

MUTATIONS: dict[str, tuple[type, str, Change]] = {
    "two tasks may have one id": (
        DictStore,
        "is_right",
        lambda old: lambda self, item: isinstance(item, Create) or old(self, item),
    ),
    "anybody appends": (
        DictStore,
        "is_right",
        lambda old: (
            lambda self, item: (
                (item.key in self.shelf.tasks) if isinstance(item, Append) else old(self, item)
            )
        ),
    ),
    "posts to nobody are taken": (
        DictStore,
        "is_right",
        lambda old: lambda self, item: isinstance(item, Post) or old(self, item),
    ),
    "a used key is used again": (Shelf, "is_used", lambda old: lambda self, key: False),
    "a task rests on an unread post": (DictStore, "add", lambda old: _resting(old)),
    "the dead go on writing": (DictStore, "beat", lambda old: lambda self: asyncio.sleep(0)),
    "a snapshot comes with all rows": (
        DictTask,
        "seen",
        lambda old: lambda self: replace(self.record, rows=list(self.log)),
    ),
    "logs go while webhooks need them": (Shelf, "is_needed", lambda old: lambda self, task: False),
    "an outcome counts whoever says it": (
        DictPushes,
        "settle",
        lambda old: (
            lambda self, outcomes: old(
                self,
                [
                    replace(one, claim=self.shelf.hooks[one.task, one.id].claim)
                    for one in outcomes
                    if (one.task, one.id) in self.shelf.hooks
                ],
            )
        ),
    ),
    "a webhook is taken by everyone": (
        DictPushes,
        "take",
        lambda old: lambda self, *values, **more: old(self, *values, **(more | {"lease_ms": 0})),
    ),
    "a key is revoked again and again": (
        DictKeys,
        "revoke",
        lambda old: lambda self, name, at_ms: asyncio.sleep(0, True),
    ),
    "nobody is woken": (
        DictStore,
        "load",
        lambda old: lambda self, namespace, task, *, watch=False: old(self, namespace, task),
    ),
    "what is new is old": (
        DictStore,
        "purge",
        lambda old: lambda self, ages, limit: old(self, Ages(1, 1, 1, 1), limit),
    ),
    "a key stays used for ever": (
        Shelf,
        "is_used",
        lambda old: lambda self, key: key is not None and (key.namespace, key.key) in self.used,
    ),
    "a key has its sender's time": (
        Shelf,
        "use",
        lambda old: lambda self, key: _used_without_a_time(self, key),
    ),
    "a pause has no end": (
        DictPushes,
        "settle",
        lambda old: (
            lambda self, outcomes: old(
                self, [replace(one, pause_ms=one.pause_ms * 10_000) for one in outcomes]
            )
        ),
    ),
    "an outage is an error of its driver": (
        Shelf,
        "reached",
        lambda old: lambda self: _away(self, OSError("connection refused")),
    ),
    "what can't be written is not tried again": (
        Shelf,
        "written",
        lambda old: lambda self: _away(self, ValueError("away")),
    ),
    "an outage is taken for a death": (
        Shelf,
        "written",
        lambda old: lambda self: self.is_away and self.living.clear(),
    ),
    "a page says it is the last": (
        DictStore,
        "page",
        lambda old: lambda self, query: _last(old(self, query)),
    ),
}


def _away(shelf: Shelf, error: Exception) -> None:
    if shelf.is_away:
        raise error


def _used_without_a_time(shelf: Shelf, key: Any) -> None:
    if key is not None:
        shelf.used[key.namespace, key.key] = key


async def _last(page: Any) -> Any:
    found = await page
    found.next = None
    return found


@pytest.mark.parametrize("name", MUTATIONS)
async def test_a_store_with_one_fault_fails_a_check(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class_, method, change = MUTATIONS[name]
    monkeypatch.setattr(class_, method, change(getattr(class_, method)))
    failed = [check.name for check in store_suite.CHECKS if not await passes(check)]
    assert failed, f"no check notices that {name}"
