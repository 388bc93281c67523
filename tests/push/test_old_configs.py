"""Push configs as 0.3 and 0.1 write them, and what their webhooks get."""

import pytest

from accord import Context
from tests.legacy.wire import Json, say_0_1, say_0_3, say_rest, talking_to

from .webhook import Webhook

HERE = {"allow_hosts": ["127.0.0.1"]}
URL = "https://hooks.example/a2a"


async def work(request: str, ctx: Context):
    if request == "ask":
        return await ctx.ask("What?")
    return request


async def test_0_3_sets_gets_lists_and_deletes():
    """Nested objects, a bare list, and null for a delete; without an id a config has the task's."""
    async with talking_to(work) as client:
        task = await client.result("message/send", say_0_3("ask"))
        hook = {"url": URL, "token": "t", "authentication": {"schemes": ["Bearer"]}}
        set_ = {"taskId": task["id"], "pushNotificationConfig": hook}
        made = await client.result("tasks/pushNotificationConfig/set", set_)
        expected = {"taskId": task["id"], "pushNotificationConfig": {"id": task["id"], **hook}}
        assert made == expected
        for asked in (
            {"id": task["id"]},
            {"id": task["id"], "pushNotificationConfigId": task["id"]},
            {"id": task["id"], "pushNotificationConfigId": "default"},
            {"taskId": task["id"], "configId": "default"},
        ):
            assert await client.result("tasks/pushNotificationConfig/get", asked) == expected
        other = {"taskId": task["id"], "pushNotificationConfig": {"id": "h2", "url": URL}}
        await client.result("tasks/pushNotificationConfig/set", other)
        listed = await client.result("tasks/pushNotificationConfig/list", {"id": task["id"]})
        assert listed == [expected, other]
        delete = {"id": task["id"], "pushNotificationConfigId": "h2"}
        assert await client.result("tasks/pushNotificationConfig/delete", delete) is None
        listed = await client.result("tasks/pushNotificationConfig/list", {"id": task["id"]})
        assert listed == [expected]
        unknown = {"id": task["id"], "pushNotificationConfigId": "h2"}
        assert (await client.error("tasks/pushNotificationConfig/get", unknown))["code"] == -32001


async def test_0_3_over_rest():
    """Every form of the body in use; the path's task counts (0.3, HTTP+JSON)."""
    async with talking_to(work) as client:
        task = (await client.ok("POST", "/v1/message:send", say_rest("ask")))["task"]
        path = f"/v1/tasks/{task['id']}/pushNotificationConfigs"
        name = f"tasks/{task['id']}/pushNotificationConfigs/c"
        hook = {"id": "c", "url": URL}
        for body in (
            {
                "parent": f"tasks/{task['id']}",
                "configId": "c",
                "config": {"name": name, "pushNotificationConfig": hook},
            },
            {"config": {"pushNotificationConfig": hook}},
            {"name": name, "pushNotificationConfig": {"url": URL}},
        ):
            made = await client.ok("POST", path, body)
            assert (made["name"], made["pushNotificationConfig"]["url"]) == (name, URL)
        got = await client.ok("GET", path + "/c")
        assert got["name"] == name
        assert [one["name"] for one in (await client.ok("GET", path))["configs"]] == [name]
        status, _ = await client.rest("DELETE", path + "/c")
        assert status == 204
        assert (await client.ok("GET", path))["configs"] == []


async def test_0_1_sets_gets_and_takes_away():
    """One config per task; null takes it away, and is what stands where none is."""
    async with talking_to(work) as client:
        await client.result("tasks/send", say_0_1("t", "ask"))
        none = {"id": "t", "pushNotificationConfig": None}
        assert await client.result("tasks/pushNotification/get", {"id": "t"}) == none
        hook = {"url": URL, "token": "n", "authentication": {"schemes": ["Bearer"]}}
        config = {"id": "t", "pushNotificationConfig": hook}
        assert await client.result("tasks/pushNotification/set", config) == config
        assert await client.result("tasks/pushNotification/get", {"id": "t"}) == config
        assert await client.result("tasks/pushNotification/set", none) == none
        assert await client.result("tasks/pushNotification/get", {"id": "t"}) == none


@pytest.mark.parametrize("empty", [{}, {"schemes": []}, {"schemes": [], "credentials": ""}, None])
async def test_an_empty_authentication_is_none(hook: Webhook, empty: Json | None):
    """The kits of 0.x write an empty object where they mean no authentication: in every version
    and binding that has a push config of 0.x.
    """
    given = {"id": "c", "url": hook.url, "authentication": empty}
    kept = {"id": "c", "url": hook.url}
    async with talking_to(work, **HERE) as client:
        inline = say_0_3("ask", configuration={"pushNotificationConfig": given})
        task = await client.result("message/send", inline)
        got = {"id": task["id"], "pushNotificationConfigId": "c"}
        found = await client.result("tasks/pushNotificationConfig/get", got)
        assert found["pushNotificationConfig"] == kept
        set_ = {"taskId": task["id"], "pushNotificationConfig": given}
        made = await client.result("tasks/pushNotificationConfig/set", set_)
        assert made["pushNotificationConfig"] == kept
        path = f"/v1/tasks/{task['id']}/pushNotificationConfigs"
        made = await client.ok("POST", path, {"config": {"pushNotificationConfig": given}})
        assert made["pushNotificationConfig"] == kept
        await client.result("tasks/send", say_0_1("t", "ask"))
        old = {"id": "t", "pushNotificationConfig": {"url": hook.url, "authentication": empty}}
        made = await client.result("tasks/pushNotification/set", old)
        assert made["pushNotificationConfig"] == {"url": hook.url}


@pytest.mark.parametrize(
    "odd", [{"credentials": "secret"}, {"schemes": "Bearer"}, {"schemes": [7]}, "Bearer", []]
)
async def test_an_authentication_that_makes_no_sense_is_refused(odd: object):
    """Credentials without a scheme would never be sent, and nobody would notice."""
    async with talking_to(work) as client:
        task = await client.result("message/send", say_0_3("ask"))
        hook = {"url": URL, "authentication": odd}
        set_ = {"taskId": task["id"], "pushNotificationConfig": hook}
        assert (await client.error("tasks/pushNotificationConfig/set", set_))["code"] == -32602


@pytest.mark.parametrize("how", ["inline", "set"])
async def test_a_webhook_of_0_3_gets_the_task(hook: Webhook, how: str):
    """A bare task with `kind`, as it stood at each event; plain JSON."""
    config = {"url": hook.url, "token": "n-1"}
    async with talking_to(work, **HERE) as client:
        inline = {"pushNotificationConfig": config} if how == "inline" else {}
        task = await client.result("message/send", say_0_3("ask", configuration=inline))
        if how == "set":
            await client.result(
                "tasks/pushNotificationConfig/set",
                {"taskId": task["id"], "pushNotificationConfig": config},
            )
        await client.result("message/send", say_0_3("that", taskId=task["id"]))
        calls = await hook.ended()
    states = [(call.json["kind"], call.json["status"]["state"]) for call in calls]
    first = ["submitted", "working", "input-required"] if how == "inline" else []
    assert states == [("task", state) for state in (*first, "working", "completed")]
    last = calls[-1]
    assert last.json["artifacts"][0]["parts"][0] == {"kind": "text", "text": "that"}
    assert last.headers["content-type"] == "application/json"
    assert last.headers["a2a-version"] == "0.3"
    assert last.headers["x-a2a-notification-token"] == "n-1"


async def test_a_webhook_of_0_3_over_rest_gets_the_same(hook: Webhook):
    """By the version it was registered in, not by the binding."""
    async with talking_to(work, **HERE) as client:
        config = {"pushNotification": {"url": hook.url}, "blocking": True}
        await client.ok("POST", "/v1/message:send", say_rest("hi", configuration=config))
        calls = await hook.ended()
    assert {call.json["kind"] for call in calls} == {"task"}


async def test_a_webhook_of_0_1_gets_the_task_of_0_1(hook: Webhook):
    async with talking_to(work, **HERE) as client:
        await client.result("tasks/send", say_0_1("t.1", "hi", pushNotification={"url": hook.url}))
        calls = await hook.ended()
    states = [(call.json["id"], call.json["status"]["state"]) for call in calls]
    assert states == [("t.1", "submitted"), ("t.1", "working"), ("t.1", "completed")]
    assert "kind" not in calls[-1].json
    assert calls[-1].json["artifacts"][0]["parts"] == [{"type": "text", "text": "hi"}]
    assert calls[-1].headers["webhook-id"] == "t%2E1/4/t%2E1"
