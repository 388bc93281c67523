"""CrewAI reads these when it is imported: it sends nothing from here, and writes to no home."""

import atexit
import importlib.util
import os
import shutil
import tempfile

if importlib.util.find_spec("crewai") is not None:
    os.environ["CREWAI_DISABLE_TELEMETRY"] = "true"
    os.environ["CREWAI_STORAGE_DIR"] = tempfile.mkdtemp(prefix="accord-crewai-")
    atexit.register(shutil.rmtree, os.environ["CREWAI_STORAGE_DIR"], ignore_errors=True)
