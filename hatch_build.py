"""What `pip install .` does beside copying: it builds the web console, where there is Node."""

import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ConsolePage(BuildHookInterface):
    """Builds the page into the package. Without it everything but the page works."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        script = Path(self.root) / "console" / "build.py"
        if not script.exists():
            return  # an sdist has the page already
        why = runpy.run_path(str(script))["build"]()
        if why:
            self.app.display_warning(why)
