"""What is collected here, and what CrewAI reads when it is imported."""

import atexit
import os
import shutil
import tempfile

from tests.integrations.frameworks.installed import FRAMEWORKS, INSTALLED

# Tests of one framework, or of any of them, where it is not.
collect_ignore = [f"test_{name}.py" for name in FRAMEWORKS if name not in INSTALLED]
collect_ignore_glob = [] if INSTALLED else ["test_*.py"]

# It sends nothing from here, and writes to no home.
if "crewai" in INSTALLED:
    os.environ["CREWAI_DISABLE_TELEMETRY"] = "true"
    os.environ["CREWAI_TRACING_ENABLED"] = "false"
    os.environ["CREWAI_STORAGE_DIR"] = tempfile.mkdtemp(prefix="accord-crewai-")
    atexit.register(shutil.rmtree, os.environ["CREWAI_STORAGE_DIR"], ignore_errors=True)
