"""0.1: the client names its task, and streams show statuses and artifacts only."""

import asyncio

from accord import Context, Reply
from tests.drive import PATIENCE_S
from tests.legacy.wire import echo, say_0_1, say_0_3, talking_to


async def test_a_send_makes_the_task_the_client_named():
    """0.1 clients choose the id; a new one makes the task, and the answer is always a task (legacy
    2.2, 10.3).
    """
    async with talking_to(echo) as client:
        task = await client.result(
            "tasks/send", say_0_1("t-mine", "hi", sessionId="s-1", historyLength=2)
        )
        assert (task["id"], task["sessionId"], task["status"]["state"]) == (
            "t-mine",
            "s-1",
            "completed",
        )
        assert task["artifacts"] == [{"index": 0, "parts": [{"type": "text", "text": "HI"}]}]
        assert task["history"] == [{"role": "user", "parts": [{"type": "text", "text": "hi"}]}]
        assert await client.result("tasks/get", {"id": "t-mine", "historyLength": 2}) == task


async def test_history_comes_only_when_asked_for():
    """Absent, null and 0 all mean no history in 0.1."""
    async with talking_to(echo) as client:
        for asked in ({}, {"historyLength": None}, {"historyLength": 0}):
            task = await client.result(
                "tasks/send", say_0_1(f"t-{len(asked)}-{asked.get('historyLength')}", **asked)
            )
            assert "history" not in task
            assert "history" not in await client.result("tasks/get", {"id": task["id"], **asked})


async def test_a_task_without_id_gets_one():
    """Requests of the first drafts had none; so had their envelopes."""
    async with talking_to(echo) as client:
        params = {"message": {"parts": [{"text": "hi"}]}}
        answer = await client.rpc("tasks/send", params, jsonrpc=None, id=None)
        assert answer["id"] is None
        assert answer["result"]["id"]
        assert answer["result"]["artifacts"][0]["parts"] == [{"type": "text", "text": "HI"}]


async def test_a_stream_is_statuses_and_artifacts_and_ends_with_final():
    """No whole task and no message is ever shown; `final` is true on the last status alone (legacy
    2.3).
    """

    async def tell(request: str):
        yield "one "
        yield "two"

    async with talking_to(tell) as client:
        events = await client.events("tasks/sendSubscribe", say_0_1("t-1"))
        assert all(event["id"] == "t-1" and "kind" not in event for event in events)
        statuses = [
            (event["status"]["state"], event["final"]) for event in events if "status" in event
        ]
        assert statuses == [("submitted", False), ("working", False), ("completed", True)]
        artifacts = [event["artifact"] for event in events if "artifact" in event]
        assert [(a["index"], a["append"], a["parts"][0]["text"]) for a in artifacts] == [
            (0, False, "one "),
            (0, True, "two"),
        ]


async def test_artifacts_are_numbered_by_their_first_appearance():
    """The index is an artifact's identity in 0.1; it is the same in every event and in the task."""

    async def two(request: str, ctx: Context):
        ctx.artifact("a", name="first")
        ctx.artifact("b", name="second")

    async with talking_to(two) as client:
        events = await client.events("tasks/sendSubscribe", say_0_1("t-1"))
        streamed = [
            (e["artifact"]["name"], e["artifact"]["index"], e["artifact"]["lastChunk"])
            for e in events
            if "artifact" in e
        ]
        assert streamed == [("first", 0, True), ("second", 1, True)]
        task = await client.result("tasks/get", {"id": "t-1"})
        assert [(a["name"], a["index"]) for a in task["artifacts"]] == [("first", 0), ("second", 1)]


async def test_a_question_ends_the_stream_with_final_and_the_same_id_answers_it():
    """`final` is true on input-required, and the task goes on with the next send to its id (legacy
    2.3, 2.4).
    """

    async def book(request: str, ctx: Context):
        return await ctx.ask("When?")

    async with talking_to(book) as client:
        events = await client.events("tasks/sendSubscribe", say_0_1("t-1"))
        assert (events[-1]["status"]["state"], events[-1]["final"]) == ("input-required", True)
        assert events[-1]["status"]["message"]["parts"] == [{"type": "text", "text": "When?"}]
        task = await client.result("tasks/send", say_0_1("t-1", "noon"))
        assert (task["status"]["state"], task["artifacts"][0]["parts"][0]["text"]) == (
            "completed",
            "noon",
        )


async def test_a_finished_task_is_reopened_by_the_next_message(store):
    """0.1 clients send to a completed task and expect it to begin anew, keeping what it had (legacy
    2.4, seed 001).
    """
    async with talking_to(echo, store=store) as client:
        await client.result("tasks/send", say_0_1("t-1", "one"))
        task = await client.result("tasks/send", say_0_1("t-1", "two", historyLength=10))
        assert task["status"]["state"] == "completed"
        assert [a["parts"][0]["text"] for a in task["artifacts"]] == ["ONE", "TWO"]
        assert [m["parts"][0]["text"] for m in task["history"]] == ["one", "two"]
        events = await client.events("tasks/sendSubscribe", say_0_1("t-1", "three"))
        assert [e["artifact"]["parts"][0]["text"] for e in events if "artifact" in e][-1] == "THREE"
        assert (events[-1]["status"]["state"], events[-1]["final"]) == ("completed", True)


async def test_only_0_1_reopens():
    """To every other version a finished task stays finished, whoever made it."""
    async with talking_to(echo) as client:
        await client.result("tasks/send", say_0_1("t-1"))
        assert (await client.error("message/send", say_0_3(taskId="t-1")))["code"] == -32004


async def test_a_reopened_task_is_kept_through_a_restart(lasting):
    """The second life of a task is as durable as its first."""
    async with talking_to(echo, store=lasting) as client:
        await client.result("tasks/send", say_0_1("t-1", "one"))
        await client.result("tasks/send", say_0_1("t-1", "two"))
    async with talking_to(echo, store=lasting) as client:
        task = await client.result("tasks/get", {"id": "t-1"})
        assert [a["parts"][0]["text"] for a in task["artifacts"]] == ["ONE", "TWO"]


async def test_a_reopened_task_that_waits_is_found_waiting_after_a_restart(lasting):
    """What was logged after the first end is replayed over it."""

    async def book(request: str, ctx: Context):
        return request.upper() if request != "ask" else await ctx.ask("When?")

    async with talking_to(book, store=lasting) as client:
        await client.result("tasks/send", say_0_1("t-1", "one"))
        await client.result("tasks/send", say_0_1("t-1", "ask"))
    async with talking_to(book, store=lasting) as client:
        task = await client.result("tasks/get", {"id": "t-1", "historyLength": 9})
        assert (task["status"]["state"], task["artifacts"][0]["parts"][0]["text"]) == (
            "input-required",
            "ONE",
        )
        assert [message["parts"][0]["text"] for message in task["history"]] == ["one", "ask"]


async def test_a_reopened_task_is_counted_once(store):
    """Lists and totals follow a task into its second life."""
    async with talking_to(echo, store=store) as client:
        for text in ("one", "two", "three"):
            await client.result("tasks/send", say_0_1("t-1", text))
        assert (await client.result("ListTasks", {"status": "TASK_STATE_COMPLETED"}))[
            "totalSize"
        ] == 1
        assert (await client.result("ListTasks", {"status": "TASK_STATE_SUBMITTED"}))[
            "totalSize"
        ] == 0
        assert (await client.result("ListTasks", {}))["totalSize"] == 1


async def test_two_sends_of_one_new_id_make_one_task(store):
    """A client that sends twice at once continues the task it has just made."""
    begun, gate = asyncio.Event(), asyncio.Event()

    async def slow(request: str):
        begun.set()
        await gate.wait()
        return request

    async with talking_to(slow, store=store) as client:
        sends = [
            asyncio.ensure_future(client.rpc("tasks/send", say_0_1("t-1", text)))
            for text in ("one", "two")
        ]
        await asyncio.wait_for(begun.wait(), PATIENCE_S)
        gate.set()
        answers = await asyncio.gather(*sends)
        assert {answer["result"]["id"] for answer in answers if "result" in answer} == {"t-1"}
        assert (await client.result("ListTasks", {}))["totalSize"] == 1


async def test_a_bare_reply_becomes_a_task_that_can_be_read_again():
    """0.1 has no reply without a task, so one is kept and answered as a task."""

    async def greet(name: str) -> Reply:
        return Reply(f"Hello, {name}")

    async with talking_to(greet) as client:
        task = await client.result("tasks/send", say_0_1("t-1", "Ada"))
        assert (task["id"], task["status"]["state"]) == ("t-1", "completed")
        assert task["status"]["message"] == {
            "role": "agent",
            "parts": [{"type": "text", "text": "Hello, Ada"}],
        }
        assert await client.result("tasks/get", {"id": "t-1"}) == task
        assert (await client.result("message/send", say_0_3("Ada")))["kind"] == "message"


async def test_states_0_1_does_not_know_are_mapped_down_and_marked():
    """rejected is failed and auth-required is input-required; the true state is in the message's
    metadata.
    """

    async def refuse(request: str, ctx: Context):
        ctx.reject("not today")

    async with talking_to(refuse) as client:
        status = (await client.result("tasks/send", say_0_1("t-1")))["status"]
        assert status["state"] == "failed"
        assert status["message"]["metadata"]["a2a_compat"]["state"] == "TASK_STATE_REJECTED"


async def test_resubscribing_shows_the_status_first_then_what_follows():
    """A whole task is its status and its artifacts to a 0.1 stream."""
    gate = asyncio.Event()

    async def slow(request: str):
        yield "half"
        await gate.wait()
        yield " done"

    async with talking_to(slow) as client:
        async with client.open("tasks/sendSubscribe", say_0_1("t-1")) as first:
            while "artifact" not in (await first.next())["result"]:
                pass
            async with client.open("tasks/resubscribe", {"id": "t-1"}) as late:
                opening = [(await late.next())["result"], (await late.next())["result"]]
                gate.set()
                rest = [event["result"] for event in await late.rest()]
        assert (opening[0]["status"]["state"], opening[0]["final"]) == ("working", False)
        assert opening[1]["artifact"]["parts"] == [{"type": "text", "text": "half"}]
        assert rest[0]["artifact"]["append"] is True
        assert rest[-1]["final"] is True


async def test_resubscribing_to_a_finished_task_gives_its_artifacts_and_the_final_status():
    """The snapshot, then the end; `final` comes last because clients stop there."""
    async with talking_to(echo) as client:
        await client.result("tasks/send", say_0_1("t-1", "hi"))
        events = await client.events("tasks/resubscribe", {"id": "t-1"})
        assert [("artifact" in event, event.get("final")) for event in events] == [
            (True, None),
            (False, True),
        ]


async def test_a_task_is_canceled_once():
    """Cancelling what has ended is TaskNotCancelable, a canceled task too."""

    async def wait(request: str, ctx: Context):
        await ctx.ask("?")

    async with talking_to(wait) as client:
        await client.result("tasks/send", say_0_1("t-1"))
        assert (await client.result("tasks/cancel", {"id": "t-1"}))["status"]["state"] == "canceled"
        assert (await client.error("tasks/cancel", {"id": "t-1"}))["code"] == -32002


async def test_a_file_without_content_is_taken():
    """The text of 0.1 allows a file that is a name only."""

    async def count(request: str, ctx: Context):
        return str(len(ctx.message.parts))

    async with talking_to(count) as client:
        parts = [
            {"type": "text", "text": "see"},
            {"type": "file", "file": {"mimeType": "application/pdf"}, "metadata": None},
        ]
        params = {"id": "t-1", "message": {"role": "user", "parts": parts}, "historyLength": 1}
        task = await client.result("tasks/send", params)
        assert task["history"][0]["parts"][1] == {
            "type": "file",
            "file": {"mimeType": "application/pdf"},
        }


async def test_errors_have_the_numbers_0_1_gives_them():
    """Codes from -32006 on mean other things in 0.1; none of ours are sent there."""
    async with talking_to(echo, push=False) as client:
        error = await client.error("tasks/get", {"id": "nobody"})
        assert (error["code"], error["message"]) == (-32001, "Task not found: nobody")
        assert (await client.error("tasks/send", {"id": "t", "message": {"role": "user"}}))[
            "code"
        ] == -32602
        assert (await client.error("tasks/send", {"id": "", "message": say_0_1("t")["message"]}))[
            "code"
        ] == -32602
        assert (await client.error("tasks/send", say_0_1("t", historyLength=-1)))["code"] == -32602
        assert (
            await client.error(
                "tasks/send", say_0_1("t", pushNotification={"url": "https://example.net"})
            )
        )["code"] == -32003
        params = {"id": "t", "pushNotificationConfig": {"url": "https://example.net"}}
        assert (await client.error("tasks/pushNotification/set", params))["code"] == -32003
        assert (await client.error("tasks/pushNotification/get", {"id": "t"}))["code"] == -32003
        assert (await client.result("ListTasks", {}))["totalSize"] == 0  # nothing was half made


async def test_a_send_can_be_repeated_safely_though_0_1_messages_have_no_ids(store):
    """The same words under the same key are the same send; other words are refused (design, rule
    17).
    """
    said = []

    async def hear(request: str):
        said.append(request)
        return request

    async with talking_to(hear, store=store) as client:
        key = {"Idempotency-Key": "k-1"}
        copies = [client.result("tasks/send", say_0_1("t-1", "hi"), headers=key) for _ in range(3)]
        tasks = [
            *await asyncio.gather(*copies),
            await client.result("tasks/send", say_0_1("t-1", "hi"), headers=key),
        ]
        assert [task["status"]["state"] for task in tasks] == ["completed"] * 4
        assert said == ["hi"]
        assert (await client.error("tasks/send", say_0_1("t-1", "other"), headers=key))[
            "code"
        ] == -32602


async def test_a_cancel_is_answered_as_every_other_request_is():
    """Without the history, which its request can't ask for; a second one is an error."""

    async def asks(request: str, ctx: Context):
        return await ctx.ask("Which day?")

    async with talking_to(asks) as client:
        await client.result("tasks/send", say_0_1("t-1", "hi"))
        task = await client.result("tasks/cancel", {"id": "t-1"})
        assert (task["status"]["state"], "history" in task) == ("canceled", False)
        asked = await client.result("tasks/get", {"id": "t-1", "historyLength": 5})
        assert len(asked["history"]) == 2
        assert (await client.error("tasks/cancel", {"id": "t-1"}))["code"] == -32002
