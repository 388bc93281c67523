"""CrewAI. Its agents have no tools that ask, so the booker is a flow; its models are called in
threads.
"""

import os

os.environ["CREWAI_DISABLE_TELEMETRY"] = "true"

import threading
from collections.abc import Iterator
from typing import Any

from crewai import Agent, Crew, Task
from crewai.events import LLMStreamChunkEvent, crewai_event_bus
from crewai.flow import Flow, human_feedback, listen, router, start
from crewai.llms.base_llm import BaseLLM, llm_call_context
from pydantic import BaseModel

from . import script

SCHEMA = None  # feedback is any text
TAKES = ()  # no files but those of text


class FakeModel(BaseLLM):
    """Streams words, if it shall."""

    def words(self, messages: Any) -> Iterator[str]:
        said = [m["content"] for m in messages if m["role"] == "user"]
        said[-1] = said[-1].partition("Current Task: ")[2].partition("\n\nProvide your")[0]
        yield from script.answer(said)

    def call(self, messages: Any, *args: Any, **kwargs: Any) -> str:
        script.think_in_thread()
        whole = ""
        about = {name: kwargs.get(name) for name in ("from_task", "from_agent")}
        with llm_call_context() as call_id:
            for word in self.words(messages):
                whole += word
                if self._effective_stream():
                    said = LLMStreamChunkEvent(chunk=word, call_id=call_id, **about)
                    crewai_event_bus.emit(self, said)
        return whole


class SlowModel(FakeModel):
    """Goes on with nothing until it is stopped: it runs in a thread, so each token is a place where
    it can be.
    """

    def words(self, messages: Any) -> Iterator[str]:
        try:
            yield "Well, "
            while True:
                threading.Event().wait(0.01)
                yield ""
        finally:
            script.stopped.append("stopped")


class Trip(BaseModel):
    city: str
    days: int


class FillModel(FakeModel):
    def words(self, messages: Any) -> Iterator[str]:
        yield '{"city": "Rome", '
        yield '"days": 3}'


class Said(BaseModel):
    input: str = ""
    said: list[str] = []


class Booker(Flow[Said]):
    """Its state is the history."""

    @start()
    def hear(self) -> None:
        script.think_in_thread()
        self.state.said.append(self.state.input)

    @router(hear)
    def choose(self) -> str:
        return "a booking" if "book" in self.state.input else "small talk"

    @listen("small talk")
    def talk(self) -> str:
        return "".join(script.answer(self.state.said))

    @listen("a booking")
    @human_feedback(message='Allow book(city="Rome")?')
    def book(self) -> None:
        """Nothing is booked before the answer."""

    @listen(book)
    def finish(self, feedback: Any) -> str:
        is_allowed = feedback.feedback in ("yes", "true")
        return f"Done: {script.book('Rome') if is_allowed else 'not allowed'}"


def made(role: str, model: BaseLLM) -> Agent:
    return Agent(role=role, goal="talk", backstory="-", llm=model)


talker = made("Talker", FakeModel(model="fake"))
booker = Booker()
slow = made("Slow", SlowModel(model="fake"))
planner = made("Planner", FillModel(model="fake"))
typed = Crew(
    name="Typed",
    agents=[planner],
    tasks=[
        Task(description="Plan {trip}", expected_output="-", agent=planner, output_pydantic=Trip)
    ],
)
