"""Conformance checks of any agent, as a table, and free probes of whether it answers."""

from typing import TYPE_CHECKING

from ..lazy_imports import lazy_imports

if TYPE_CHECKING:
    from .card import validate_card as validate_card
    from .probing import MESSAGE as MESSAGE
    from .probing import Category as Category
    from .probing import InterfaceProbe as InterfaceProbe
    from .probing import ProbeReport as ProbeReport
    from .probing import probe as probe
    from .probing import probe_message as probe_message
    from .report import CheckReport as CheckReport
    from .report import CheckResult as CheckResult
    from .report import junit as junit
    from .run import run_checks as run_checks
    from .run import served_card_faults as served_card_faults
    from .table import CHECKS as CHECKS
    from .table import GROUPS as GROUPS

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy_imports(__name__)
