"""A crew of CrewAI. Try it: accord serve examples/frameworks/crewai_agent.py:crew"""

from crewai import Agent, Crew, Task

guide = Agent(role="Guide", goal="Plan trips", backstory="You know every city.", llm="gpt-5-mini")
plan = Task(description="Plan a day in {city}.", expected_output="A plan.", agent=guide)
crew = Crew(name="Trip planner", agents=[guide], tasks=[plan])
