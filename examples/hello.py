from accord import Agent

agent = Agent("Hello", description="Greets whoever writes.")


@agent.skill
def greet(name: str) -> str:
    """Greet somebody by name."""
    return f"Hello, {name}!"
