"""OnboardingPro as an agent to serve: `HUB=http://127.0.0.1:8080 accord serve pro.py`."""

import os

from .onboarding import onboarding_agent

agent = onboarding_agent(hub=os.environ.get("HUB", "http://127.0.0.1:8080"))
