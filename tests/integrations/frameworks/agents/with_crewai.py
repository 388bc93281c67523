"""CrewAI. It has no tools that ask, its models do not stream, and they are called in threads."""

import os

os.environ["CREWAI_DISABLE_TELEMETRY"] = "true"

from typing import Any

from crewai import Agent, Crew, Task
from crewai.llms.base_llm import BaseLLM
from pydantic import BaseModel

from . import script

STREAMS = False
IS_STOPPED = False
booker = None


class FakeModel(BaseLLM):
    def call(self, messages: Any, *args: Any, **kwargs: Any) -> str:
        said = [m["content"] for m in messages if m["role"] == "user"]
        said[-1] = said[-1].partition("Current Task: ")[2].partition("\n")[0]
        return "".join(script.answer(said))


class Trip(BaseModel):
    city: str
    days: int


class FillModel(BaseLLM):
    def call(self, messages: Any, *args: Any, **kwargs: Any) -> str:
        return '{"city": "Rome", "days": 3}'


def made(role: str, model: BaseLLM) -> Agent:
    return Agent(role=role, goal="talk", backstory="-", llm=model)


talker = made("Talker", FakeModel(model="fake"))
planner = made("Planner", FillModel(model="fake"))
typed = Crew(
    name="Typed",
    agents=[planner],
    tasks=[
        Task(description="Plan {trip}", expected_output="-", agent=planner, output_pydantic=Trip)
    ],
)
