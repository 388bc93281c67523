"""The four operations on push configs, and the config that comes with a send."""

from typing import Any

import pytest

from accord import Context
from accord.model import Limits
from tests.drive import refusal_of, say

from .webhook import Webhook

HERE = {"allow_hosts": ["127.0.0.1"]}
URL = "https://hooks.example/a2a"
SECRET = "Basic-secret-7f3a"


async def work(request: str, ctx: Context):
    if request == "ask":
        return await ctx.ask("What?")
    return request


async def test_a_config_is_created_read_listed_and_deleted(connect):
    """With an id the server gives, or the client's; of an open task and of one that has ended
    (PCF-1, PCF-3, PCF-4, PCF-5, PCF-7).
    """
    async with connect(work) as client:
        for text in ("ask", "done"):
            task = (await client.send(text))["task"]
            made = await client.create_push_config(task["id"], {"url": URL, "token": "t-1"})
            assert made["id"]
            assert (made["taskId"], made["url"], made["token"]) == (task["id"], URL, "t-1")
            named = await client.create_push_config(task["id"], {"url": URL + "/2", "id": "mine"})
            assert named["id"] == "mine"
            assert await client.get_push_config(task["id"], made["id"]) == made
            listed = await client.list_push_configs(task["id"])
            assert listed["configs"] == [made, named]
            for _ in range(2):
                await client.delete_push_config(task["id"], "mine")
            assert (await client.list_push_configs(task["id"]))["configs"] == [made]
            gone = await refusal_of(client.get_push_config(task["id"], "mine"))
            assert gone.reason == "TASK_NOT_FOUND"


async def test_configs_of_what_is_not_there_are_not_found(connect):
    """Unknown tasks on all four, unknown configs on get (PCF-2)."""
    async with connect(work) as client:
        for call in (
            client.create_push_config("nobody", {"url": URL}),
            client.get_push_config("nobody", "c"),
            client.list_push_configs("nobody"),
            client.delete_push_config("nobody", "c"),
        ):
            assert (await refusal_of(call)).reason == "TASK_NOT_FOUND"


async def test_the_same_id_replaces(connect):
    async with connect(work) as client:
        task = (await client.send("ask"))["task"]
        for path in ("/1", "/2"):
            await client.create_push_config(task["id"], {"url": URL + path, "id": "c"})
        [config] = (await client.list_push_configs(task["id"]))["configs"]
        assert config["url"] == URL + "/2"


async def test_credentials_are_told_to_nobody(connect):
    """The scheme and the token are; what proves the server to the webhook is not (PDL-9)."""
    async with connect(work) as client:
        task = (await client.send("ask"))["task"]
        authentication = {"scheme": "Basic", "credentials": SECRET}
        config = {"url": URL, "id": "c", "token": "t", "authentication": authentication}
        answers = [
            await client.create_push_config(task["id"], config),
            await client.get_push_config(task["id"], "c"),
            *(await client.list_push_configs(task["id"]))["configs"],
        ]
        for answer in answers:
            assert answer["authentication"] == {"scheme": "Basic"}
            assert SECRET not in str(answer)


async def test_configs_come_in_pages(connect_rest):
    """As large as asked for; the token of the last page is empty. One that is not ours is
    refused.
    """
    async with connect_rest(work) as client:
        task = (await client.send("ask"))["task"]
        for n in range(5):
            await client.create_push_config(task["id"], {"url": URL, "id": f"c{n}"})
        path = f"{client.url}/tasks/{task['id']}/pushNotificationConfigs"
        seen, token = [], ""
        while True:
            query = {"pageSize": "2"} | ({"pageToken": token} if token else {})
            async with client.http.get(path, params=query) as response:
                page = await response.json(content_type=None)
            seen.append([config["id"] for config in page["configs"]])
            token = page.get("nextPageToken", "")
            if not token:
                break
        assert seen == [["c0", "c1"], ["c2", "c3"], ["c4"]]
        for query in ({"pageToken": "bm9uc2Vuc2U"}, {"pageSize": "-1"}, {"pageSize": "101"}):
            async with client.http.get(path, params=query) as response:
                assert response.status == 400


async def test_another_tenants_configs_are_not_found(connect_rpc):
    """Configs belong to who owns the task (PCF-6)."""
    async with connect_rpc(work) as client:
        task = (await client.send(say("ask", tenant="acme")))["task"]
        other = {"tenant": "other", "taskId": task["id"], "id": "c"}
        mine = other | {"tenant": "acme"}
        await client.method("CreateTaskPushNotificationConfig", mine | {"url": URL})
        assert (await client.method("GetTaskPushNotificationConfig", mine))["tenant"] == "acme"
        for operation, params in (
            ("CreateTaskPushNotificationConfig", other | {"url": URL}),
            ("GetTaskPushNotificationConfig", other),
            ("ListTaskPushNotificationConfigs", {"tenant": "other", "taskId": task["id"]}),
            ("DeleteTaskPushNotificationConfig", other),
        ):
            assert (await refusal_of(client.method(operation, params))).reason == "TASK_NOT_FOUND"


BAD = {
    "no url": ({}, "url"),
    "no host": ({"url": "https://"}, "url"),
    "a word": ({"url": "hook"}, "url"),
    "http": ({"url": "http://hooks.example/"}, "url"),
    "a port": ({"url": "https://hooks.example:8443/"}, "url"),
    "this machine": ({"url": "https://localhost/"}, "url"),
    "long": ({"url": URL + "x" * 3000}, "url"),
    "token with a line break": ({"url": URL, "token": "a\r\nb: c"}, "token"),
    "token of letters no header has": ({"url": URL, "token": "ключ"}, "token"),
    "long token": ({"url": URL, "token": "x" * 5000}, "token"),
    "id with a line break": ({"url": URL, "id": "a\nb"}, "id"),
    "no scheme": ({"url": URL, "authentication": {"scheme": ""}}, "authentication.scheme"),
    "two words": ({"url": URL, "authentication": {"scheme": "a b"}}, "authentication.scheme"),
    "credentials with a line break": (
        {"url": URL, "authentication": {"scheme": "Basic", "credentials": "a\nb"}},
        "authentication.credentials",
    ),
    "no secret": (
        {"url": URL, "authentication": {"scheme": "Standard-Webhooks"}},
        "authentication.credentials",
    ),
    "a short secret": (
        {
            "url": URL,
            "authentication": {"scheme": "standard-webhooks", "credentials": "whsec_AA=="},
        },
        "authentication.credentials",
    ),
    "a secret that is no base64": (
        {"url": URL, "authentication": {"scheme": "standard-webhooks", "credentials": "whsec_§"}},
        "authentication.credentials",
    ),
}


@pytest.mark.parametrize("what", BAD)
async def test_a_bad_config_fails_when_it_is_created(connect_rpc, what):
    """Never silently when it is delivered to (N7): the field is named, its secret is not repeated.
    As part of a send nothing is made of the message.
    """
    config, field = BAD[what]
    async with connect_rpc(work) as client:
        task = (await client.send("ask"))["task"]
        refused = await refusal_of(client.create_push_config(task["id"], config))
        assert refused.reason == "INVALID_PARAMS"
        assert field in [v["field"] for v in refused.error["data"][-1]["fieldViolations"]]
        inline = {"taskPushNotificationConfig": config}
        refused = await refusal_of(client.send(say("hello", configuration=inline)))
        assert refused.reason == "INVALID_PARAMS"
        fields = [v["field"] for v in refused.error["data"][-1]["fieldViolations"]]
        assert any(one.endswith(field) for one in fields)
        assert (await client.list())["totalSize"] == 1


async def test_a_task_has_no_more_configs_than_allowed(connect):
    async with connect(work, limits=Limits(push_configs_per_task=2)) as client:
        task = (await client.send("ask"))["task"]
        for n in range(2):
            await client.create_push_config(task["id"], {"url": URL, "id": str(n)})
        await client.create_push_config(task["id"], {"url": URL, "id": "1"})  # replaces
        refused = await refusal_of(client.create_push_config(task["id"], {"url": URL, "id": "2"}))
        assert refused.reason == "INVALID_PARAMS"


async def test_a_config_that_comes_with_a_send_is_counted_too(connect):
    """The message is refused with it, and the task goes on waiting."""

    def answer(id: str) -> dict[str, Any]:
        config = {"taskPushNotificationConfig": {"url": hook, "id": id}}
        return say("that", configuration=config, taskId=task["id"])

    hook = "http://127.0.0.1:9/"
    async with connect(work, limits=Limits(push_configs_per_task=2), **HERE) as client:
        task = (await client.send("ask"))["task"]
        for n in range(2):
            await client.create_push_config(task["id"], {"url": hook, "id": str(n)})
        refused = await refusal_of(client.send(answer("2")))
        assert refused.reason == "INVALID_PARAMS"
        assert (await client.get(task["id"]))["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        await client.send(answer("1"))  # replaces
        configs = (await client.list_push_configs(task["id"]))["configs"]
        assert {config["id"] for config in configs} == {"0", "1"}


async def test_a_config_comes_with_a_send(connect, hook: Webhook):
    """It is registered before anything happens: the first call tells the task (SND-11) (PDL-1)."""
    async with connect(work, **HERE) as client:
        inline = {"taskPushNotificationConfig": {"url": hook.url, "token": "k"}}
        task = (await client.send(say("hello", configuration=inline)))["task"]
        calls = await hook.ended()
        assert [call.kind for call in calls] == ["task", "working", "completed"]
        assert {call.task_id for call in calls} == {task["id"]}
        [config] = (await client.list_push_configs(task["id"]))["configs"]
        assert (config["url"], config["token"]) == (hook.url, "k")


async def test_a_config_comes_with_a_follow_up(connect, hook: Webhook):
    """It counts for what follows the message, and not for what was before."""
    async with connect(work, **HERE) as client:
        task = (await client.send("ask"))["task"]
        inline = {"taskPushNotificationConfig": {"url": hook.url}}
        await client.send(say("that", configuration=inline, taskId=task["id"]))
        assert [call.kind for call in await hook.ended()] == ["working", "completed"]


async def test_a_config_counts_for_what_is_committed_after_it(connect, hook: Webhook, store):
    async with connect(work, store=store, **HERE) as client:
        task = (await client.send("ask"))["task"]
        await client.create_push_config(task["id"], {"url": hook.url})
        await client.send(say("that", taskId=task["id"]))
        assert [call.kind for call in await hook.ended()] == ["working", "completed"]


async def test_a_deleted_config_gets_no_more_calls(connect_rpc, hook: Webhook):
    """Delete is for good (PCF-5)."""
    async with connect_rpc(work, **HERE) as client:
        task = (await client.send("ask"))["task"]
        for name in ("gone", "stays"):
            config = {"url": f"{hook.url}/{name}", "id": name}
            await client.create_push_config(task["id"], config)
        await client.delete_push_config(task["id"], "gone")
        await client.send(say("that", taskId=task["id"]))
        assert {call.path for call in await hook.ended()} == {"/hook/stays"}


async def test_configs_survive_a_restart(connect_rpc, hook: Webhook, lasting):
    """And so do their secrets, which can be read with the key beside the store only."""
    authentication = {"scheme": "Basic", "credentials": SECRET}
    async with connect_rpc(work, store=lasting, **HERE) as client:
        task = (await client.send("ask"))["task"]
        config = {"url": hook.url, "authentication": authentication}
        await client.create_push_config(task["id"], config)
    for file in _files(lasting):
        assert SECRET.encode() not in file.read_bytes()
        assert hook.url.encode() not in file.read_bytes()
    async with connect_rpc(work, store=lasting, **HERE) as client:
        await client.send(say("that", taskId=task["id"]))
        calls = await hook.ended()
        assert {call.headers["authorization"] for call in calls} == {f"Basic {SECRET}"}


def _files(store: str):
    from pathlib import Path

    path = Path(store.removeprefix("sqlite:///"))
    return [file for file in path.parent.iterdir() if not file.name.endswith(".keys")]


async def test_the_card_says_that_there_is_push(connect):
    async with connect(work) as client:
        assert (await client.card())["capabilities"]["pushNotifications"] is True
