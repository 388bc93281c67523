"""A hub as `accord hub` serves it: `hub_server.py PORT FOLDER`. It sends no probes of its own."""

import sys

from accord import Limits
from accord.hub import Hub, HubSettings
from accord.server.process import serve

if __name__ == "__main__":
    port, folder = int(sys.argv[1]), sys.argv[2]
    settings = HubSettings(
        port=port,
        store=f"sqlite:///{folder}/hub.db",
        folder=folder,
        calls_per_minute=0,
        tick_s=0.0,
    )
    hub = Hub(settings, Limits(calls_per_s=1e9, calls_burst=10**9))
    serve(hub.app, host=settings.host, port=port, limits=hub.app.limits)
