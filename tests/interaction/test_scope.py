"""Tenants: what belongs to one is not there for another."""

import pytest

from tests.drive import refusal_of, say, state_of


async def echo(request: str):
    return request


async def test_any_tenant_is_accepted_and_keeps_its_own_tasks(connect, store):
    """An opaque string that scopes everything (TEN-2, TEN-5, LST-1, AZN-1)."""
    async with connect(echo, store=store) as client:
        mine = (await client.send(say(tenant="acme")))["task"]
        assert state_of(mine) == "completed"
        assert await client.get(mine["id"], tenant="acme") == mine
        assert [task["id"] for task in (await client.list(tenant="acme"))["tasks"]] == [mine["id"]]
        assert (
            (await client.list(tenant="other"))["totalSize"]
            == (await client.list())["totalSize"]
            == 0
        )


async def test_a_task_of_another_tenant_cannot_be_told_from_none(connect, store):
    """Get, cancel, subscribe and send answer as for an id that never was (GEN-5, GET-2, CAN-4,
    AZN-2, AZN-4).
    """
    async with connect(echo, store=store) as client:
        task_id = (await client.send(say(tenant="acme")))["task"]["id"]
        for tenant in ("other", ""):
            for id_ in (task_id, "never"):
                for call in (
                    client.get(id_, tenant=tenant),
                    client.cancel(id_, tenant=tenant),
                    client.subscribe(id_, tenant=tenant),
                    client.send(say(tenant=tenant, taskId=id_)),
                ):
                    refused = await refusal_of(call)
                    assert (refused.reason, refused.message) == (
                        "TASK_NOT_FOUND",
                        f"Task not found: {id_}",
                    )


@pytest.mark.parametrize("tenant", ["a/b", "ünïcode", "tasks", "with space", "%2e%2e"])
async def test_a_tenant_may_be_any_text(connect, tenant):
    """Percent-encoded it is one segment of a path, whatever is in it (TEN-2, TEN-3)."""
    async with connect(echo) as client:
        task = (await client.send(say(tenant=tenant)))["task"]
        assert (await client.get(task["id"], tenant=tenant))["id"] == task["id"]


async def test_the_tenant_may_be_in_path_body_or_query(connect_rest):
    """All three are one tenant (TEN-3)."""
    async with connect_rest(echo) as client:
        _, by_path = await client.post("/acme/message:send", say())
        _, by_body = await client.post("/message:send", say(tenant="acme"))
        async with client.http.get(f"{client.url}/tasks?tenant=acme") as response:
            listed = await response.json(content_type=None)
        assert [t["id"] for t in listed["tasks"]] == [by_body["task"]["id"], by_path["task"]["id"]]


async def test_a_tenant_said_twice_must_be_the_same(connect_rest):
    """Path and body that disagree are refused, not guessed at (TEN-5)."""
    async with connect_rest(echo) as client:
        status, answer = await client.post("/acme/message:send", say(tenant="other"))
        assert (status, answer["error"]["details"][0]["reason"]) == (400, "INVALID_PARAMS")
        status, _ = await client.post("/acme/message:send", say(tenant="acme"))
        assert status == 200


async def test_every_path_can_have_a_tenant_in_front(connect_rest):
    """Get, list, cancel and the rest are found behind it (TEN-3)."""
    async with connect_rest(echo) as client:
        _, sent = await client.post("/acme/message:send", say())
        task_id = sent["task"]["id"]
        seen = {}
        for verb, path in (
            ("GET", f"/acme/tasks/{task_id}"),
            ("GET", "/acme/tasks"),
            ("POST", f"/acme/tasks/{task_id}:cancel"),
            ("GET", f"/acme/tasks/{task_id}:subscribe"),
            ("GET", f"/acme/tasks/{task_id}/pushNotificationConfigs"),
            ("GET", "/acme/extendedAgentCard"),
        ):
            async with client.http.request(verb, client.url + path) as response:
                answer = await response.json(content_type=None)
                seen[path] = (
                    response.status
                    if response.status == 200
                    else answer["error"]["details"][0]["reason"]
                )
        assert list(seen.values()) == [
            200,
            200,
            "TASK_NOT_CANCELABLE",
            "UNSUPPORTED_OPERATION",
            200,
            "UNSUPPORTED_OPERATION",
        ]
