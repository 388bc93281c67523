"""CrewAI reads these when it is imported: it sends nothing from here, and writes to no home."""

import os
import tempfile

os.environ.setdefault("CREWAI_DISABLE_TELEMETRY", "true")
os.environ.setdefault("CREWAI_STORAGE_DIR", tempfile.mkdtemp(prefix="accord-crewai-"))
