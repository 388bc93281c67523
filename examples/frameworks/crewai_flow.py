"""A flow of CrewAI. Try it: accord serve examples/frameworks/crewai_flow.py"""

from crewai.flow import Flow, human_feedback, listen, start


class Booker(Flow):
    @start()
    @human_feedback(message="Book this hotel?")  # asked of the A2A client
    def find(self) -> str:
        return f"A hotel in {self.state['input']}"

    @listen(find)
    def book(self, answer) -> str:
        return f"{answer.output}: booked." if answer.feedback == "yes" else "Nothing is booked."


flow = Booker()
