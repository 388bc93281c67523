"""A LlamaIndex workflow. Try it: accord serve examples/frameworks/llama_index_agent.py"""

from workflows import Workflow, step
from workflows.events import HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent


class Booker(Workflow):
    @step
    async def ask(self, start: StartEvent) -> InputRequiredEvent:
        return InputRequiredEvent(prefix=f"How many days in {start.input}?")  # of the A2A client

    @step
    async def book(self, answer: HumanResponseEvent) -> StopEvent:
        return StopEvent(f"Booked for {answer.response} days.")


flow = Booker()
