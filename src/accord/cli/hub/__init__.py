"""accord hub: serve a hub, and the verbs of its registry, which go over its REST interface."""

from . import admin, agents, find
from .serve import hub

__all__ = ["hub"]

for one in (*agents.COMMANDS, *find.COMMANDS, *admin.COMMANDS):
    hub.add_command(one)
