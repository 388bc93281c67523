"""An agent, or several, as an app: the one room that knows every other.

`App` puts the rooms together. Each other file has one part of it: the endpoints of an agent, who
may call it, what it calls, its keys, its metrics.
"""

from .app import App as App
from .endpoints import AgentRouter as AgentRouter
