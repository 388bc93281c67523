"""Crews and flows of CrewAI that ask inside of a run."""

from collections.abc import Callable, Iterator
from typing import Any

from crewai import Agent, Crew, Task
from crewai.flow import Flow, start

from .with_crewai import FakeModel


class Scripted(FakeModel):
    """Says what the function makes of the messages, in words."""

    says: Callable[[list[str]], str]

    def words(self, messages: Any) -> Iterator[str]:
        for word in self.says([str(one["content"]) for one in messages]).split(" "):
            yield f"{word} "


def member(says: Callable[[list[str]], str], **more: Any) -> Agent:
    llm = Scripted(model="fake", says=says)
    return Agent(**{"role": "Guide", "goal": "plan", "backstory": "-", "llm": llm} | more)


def task(description: str, by: Agent, **more: Any) -> Task:
    return Task(description=description, expected_output="a plan", agent=by, **more)


def plan(messages: list[str]) -> str:
    """Takes the feedback a person has given into its plan."""
    changes = [text for text in messages if "more museums" in text]
    return "two days in museums" if changes else "two days in Rome"


reviewed = Crew(
    name="Reviewed",
    agents=[guide := member(plan)],
    tasks=[task("Plan {trip}", guide, human_input=True)],
)


class Asks(Flow):
    @start()
    def ask_twice(self) -> str:
        city = self.ask("Which city?")
        return f"{self.ask(f'How many days in {city}?')} days in {city}"


asking = Asks()
