"""Questions of guests' tasks, which an admin may answer: they have no login, others do."""

import time
from typing import Any

from accord import Agent, Context, connect
from accord.hub.api.tasks import ANSWERED_BY
from tests.hub.hubs import hub_at


def desk_agent() -> Agent:
    agent = Agent("Desk", description="Asks.")

    @agent.skill
    async def ask(text: str, ctx: Context) -> str:
        """Ask how many."""
        return f"{await ctx.ask('How many?', int)} it is"

    return agent


def answer(value: Any) -> Any:
    return {"parts": [{"data": value, "mediaType": "application/json"}]}


async def test_an_admin_answers_for_a_guest_and_is_named(tmp_path):
    """In the audit log, and with the message: the agent knows who it was."""
    async with desk_agent().app().serving() as there, hub_at(tmp_path) as desk:
        await desk.add(there, name="desk")
        async with connect(f"{desk.url}/agents/desk") as guest:
            asked = await guest.send("hello")
            assert asked.state.word == "input-required"
            path = f"/agents/desk/tasks/{asked.task_id}:answer"
            done = await desk.call("POST", path, answer(3))
            assert (done.status, done.body["answered_by"]) == (200, "local-admin")
            await guest.wait(asked.task_id)
            task = await guest.get(asked.task_id)
            assert task.status.state.word == "completed"
            assert [one.metadata for one in task.history if one.role == "ROLE_USER"][-1] == {
                ANSWERED_BY: "local-admin"
            }
            again = await desk.call("POST", path, answer(4))
            assert (again.status, again.reason) == (409, "CONFLICT")
        rows = (await desk.call("GET", "/audit")).body["rows"]
        assert [(row["who"], row["what"]) for row in rows if row["did"] == "task.answer"] == [
            ("local-admin", f"desk/{asked.task_id}")
        ]


async def test_a_trace_that_waits_is_as_long_in_the_list_as_in_its_tree(tmp_path, monkeypatch):
    """It lasts until now, not until its last event."""
    real_ns = time.time_ns
    async with desk_agent().app().serving() as there, hub_at(tmp_path) as desk:
        await desk.add(there, name="desk")
        async with connect(f"{desk.url}/agents/desk") as guest:
            await guest.send("hello")
        hour = real_ns() + 3600 * 10**9
        with monkeypatch.context() as later:
            later.setattr(time, "time_ns", lambda: hour)
            [trace] = await desk.hub.traces.newest(None)
            [span] = await desk.hub.traces.spans(trace["id"], None)
        assert trace["ended_ms"] == span.ended_ms == hour // 10**6
        assert trace["started_ms"] == span.started_ms


async def test_nobody_answers_for_people_who_have_a_login(tmp_path):
    async with desk_agent().app().serving() as there, hub_at(tmp_path) as desk:
        await desk.add(there, name="desk")
        key = await desk.key("mia")
        await desk.key("pub", "publisher")
        async with connect(f"{desk.url}/agents/desk", headers={"X-API-Key": key}) as mia:
            asked = await mia.send("hello")
            path = f"/agents/desk/tasks/{asked.task_id}:answer"
            assert (await desk.call("POST", path, answer(3))).status == 404
            assert (await mia.get(asked.task_id)).status.state.word == "input-required"
        async with connect(f"{desk.url}/agents/desk") as guest:
            asked = await guest.send("hello")
            path = f"/agents/desk/tasks/{asked.task_id}:answer"
            for by, status in (("pub", 403), ("mia", 403), ("guest", 401)):
                assert (await desk.call("POST", path, answer(3), by=by)).status == status, by
            for name in ("nobody", "desk"):
                path = f"/agents/{name}/tasks/no-such:answer"
                assert (await desk.call("POST", path, answer(3))).status == 404
