"""The HR agent: keeps the record of who works here, and writes the welcome mail."""

from accord import Agent, Context

from .person import EXAMPLE, Person

agent = Agent("HR", description="Creates employee records and sends documents.")


@agent.skill(id="createEmployee", tags=["hr"], examples=[EXAMPLE])
async def create_employee(person: Person, ctx: Context):
    """Create the record of a new employee and send the welcome mail. Asks for the start date if it
    is missing.
    """
    start = person.start or await ctx.ask(f"When does {person.name} start?")
    ctx.status("record created")
    ctx.artifact({"name": person.name, "role": person.role, "start": start}, name="employee record")
    ctx.artifact(f"Dear {person.name},\nwelcome! We see you on {start}.\n", name="welcome mail")
