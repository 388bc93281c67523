"""The names that spans and their attributes have: one table.

They are OpenTelemetry's semantic conventions for generative AI, which are still in development, and
for A2A those that are proposed there. What no convention names begins with `accord.`.
"""

import os

__all__ = [
    "A2A_BINDING",
    "A2A_METHOD",
    "A2A_STATE",
    "A2A_TASK",
    "A2A_VERSION",
    "AGENT_NAME",
    "AGENT_VERSION",
    "CONVERSATION",
    "ERROR_TYPE",
    "INVOKE_AGENT",
    "OPERATION",
    "PROVIDER",
    "PUSH_EVENT",
    "RESUMED",
    "SENDS",
    "SERVER_ADDRESS",
    "SERVER_PORT",
    "SKILL",
    "STATUS_CODE",
    "STEP",
    "provider_attribute",
]

OPERATION = "gen_ai.operation.name"
INVOKE_AGENT = "invoke_agent"
PROVIDER = "accord"
AGENT_NAME = "gen_ai.agent.name"
AGENT_VERSION = "gen_ai.agent.version"
CONVERSATION = "gen_ai.conversation.id"  # the contextId

A2A_METHOD = "a2a.method.name"  # the operation, as 1.0 names it
A2A_VERSION = "a2a.protocol.version"
A2A_BINDING = "a2a.protocol.binding"
A2A_TASK = "a2a.task.id"
A2A_STATE = "a2a.task.state"

ERROR_TYPE = "error.type"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"
STATUS_CODE = "http.response.status_code"

SKILL = "accord.skill"
STEP = "accord.step"
RESUMED = "accord.resumed"  # true for a run that goes on with what an earlier one recorded
PUSH_EVENT = "accord.push.event"  # the number of the event in its task

# Operations that have an agent do something.
SENDS = frozenset(["SendMessage", "SendStreamingMessage"])


def provider_attribute() -> str:
    """The attribute that says whose telemetry this is. Its name changed after version 1.36 of the
    conventions; the environment says who reads the newer ones.
    """
    wanted = os.environ.get("OTEL_SEMCONV_STABILITY_OPT_IN", "")
    is_latest = "gen_ai_latest_experimental" in wanted.replace(" ", "").split(",")
    return "gen_ai.provider.name" if is_latest else "gen_ai.system"
