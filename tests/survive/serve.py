"""The server process of these tests: `serve.py '{"port": ..., "database": ..., "folder": ...,
...}'`.

Its settings are those of a server, and how often upkeep looks around and does what: a test has no
minute to wait for it.
"""

import json
import sys
from pathlib import Path

from accord.engine.log import writer
from accord.engine.reading import view
from accord.engine.runs import recovery
from accord.engine.runs import retention as upkeep
from accord.engine.runs.retention import Retention
from accord.model import Limits

sys.path.insert(0, str(Path(__file__).parent))

import agents  # type: ignore[import-not-found]  # beside this script


def main(text: str) -> None:
    settings = json.loads(text)
    upkeep.CHECK_S = settings.get("look_s", upkeep.CHECK_S)
    upkeep.BEAT_S = settings.get("beat_s", upkeep.BEAT_S)
    upkeep.PURGE_S = settings.get("purge_s", upkeep.PURGE_S)
    recovery.PAUSE_S = settings.get("pause_s", recovery.PAUSE_S)
    writer.OUTAGE_S = settings.get("patience_s", writer.OUTAGE_S)
    view.STREAM_OUTAGE_S = settings.get("stream_patience_s", view.STREAM_OUTAGE_S)
    agents.make(Path(settings["folder"])).run(
        port=settings["port"],
        grpc_port=settings.get("grpc_port"),
        store=f"sqlite:///{settings['database']}",
        limits=Limits(**settings.get("limits", {})),
        retention=Retention(**settings.get("retention", {})),
        grace_s=settings.get("grace_s", 20.0),
    )


if __name__ == "__main__":
    main(sys.argv[1])
