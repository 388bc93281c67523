"""Settings of push notifications."""

import msgspec

__all__ = ["SCHEDULE_S", "PushSettings"]

# The pauses before each attempt at an event (Standard Webhooks): ten attempts in 75 hours.
SCHEDULE_S = (0.0, 5.0, 300.0, 1800.0, 7200.0, 18000.0, 36000.0, 50400.0, 72000.0, 86400.0)


class PushSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Set how an agent sends push notifications.

    agent.app(push=PushSettings(challenge=True))   # a new webhook must answer a challenge
    """

    challenge: bool = False  # a URL has to repeat a random text before it is registered
    artifacts: bool = False  # artifact events are sent to all, not only to who asks for them
    timeout_s: float = 15.0  # for one attempt
    schedule_s: tuple[float, ...] | list[float] = SCHEDULE_S
    breaker_s: float = 30.0  # nothing is sent to an endpoint that keeps failing for so long
    disable_s: float = 5 * 24 * 3600.0  # a webhook that fails for so long is disabled

    def __post_init__(self) -> None:
        if not self.schedule_s or min(self.schedule_s) < 0 or self.timeout_s <= 0:
            raise ValueError("schedule_s needs at least one pause, and timeout_s more than 0 s")
