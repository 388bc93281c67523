"""The parts a database may have, each with a schema of its own."""

__all__ = ["HUB", "TASKS"]

TASKS = "tasks"  # every store has it
HUB = "hub"
