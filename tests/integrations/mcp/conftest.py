"""What is collected here."""

from pathlib import Path

ROOT = Path(__file__).parents[3]

# `make test-integrations` makes these environments, and runs what needs them.
HAS_CLIENTS = (ROOT / ".venv-mcp1").exists() and (ROOT / ".venv-fastmcp").exists()
collect_ignore = [] if HAS_CLIENTS else ["test_clients.py"]
