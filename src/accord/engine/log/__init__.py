"""The log of a task: its entries, what they make of it, and the writer that commits it."""

from typing import TYPE_CHECKING

from ...lazy_imports import lazy_imports

if TYPE_CHECKING:
    from .batch import LogBatch as LogBatch
    from .entries import FORMAT as FORMAT
    from .entries import NOBODY as NOBODY
    from .entries import STATE_NUMBER as STATE_NUMBER
    from .entries import About as About
    from .entries import Answered as Answered
    from .entries import ArtifactChanged as ArtifactChanged
    from .entries import Asked as Asked
    from .entries import AskExpired as AskExpired
    from .entries import AskLeft as AskLeft
    from .entries import Attempt as Attempt
    from .entries import Created as Created
    from .entries import Delegated as Delegated
    from .entries import Entry as Entry
    from .entries import Event as Event
    from .entries import Ids as Ids
    from .entries import MessageAdded as MessageAdded
    from .entries import Mismatched as Mismatched
    from .entries import Noted as Noted
    from .entries import Numbered as Numbered
    from .entries import Patched as Patched
    from .entries import PostRefused as PostRefused
    from .entries import Raised as Raised
    from .entries import Released as Released
    from .entries import RunStarted as RunStarted
    from .entries import Sender as Sender
    from .entries import SleepLeft as SleepLeft
    from .entries import Slept as Slept
    from .entries import StateLoaded as StateLoaded
    from .entries import StatusChanged as StatusChanged
    from .entries import StepEnded as StepEnded
    from .entries import StepLeft as StepLeft
    from .entries import Woke as Woke
    from .entries import Worked as Worked
    from .entries import about_of as about_of
    from .entries import artifact_written as artifact_written
    from .entries import entries_of as entries_of
    from .entries import entry_of as entry_of
    from .entries import event_of as event_of
    from .entries import events_of as events_of
    from .entries import lines_of as lines_of
    from .entries import state_of as state_of
    from .log import WORKED_ON as WORKED_ON
    from .log import Log as Log
    from .snapshot import EncodedParts as EncodedParts
    from .snapshot import are_whole as are_whole
    from .snapshot import read_snapshot as read_snapshot
    from .snapshot import read_task as read_task
    from .snapshot import shorten as shorten
    from .turns import NO_ORIGIN as NO_ORIGIN
    from .turns import Origin as Origin
    from .turns import Turn as Turn
    from .turns import asked_since as asked_since
    from .turns import closed as closed
    from .turns import too_late as too_late
    from .writer import Lost as Lost
    from .writer import WentBack as WentBack
    from .writer import Writer as Writer
    from .writer import not_stored as not_stored

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy_imports(__name__)
