"""The log of a task: its entries, its owner, the writer that commits it, and views of it."""

from typing import TYPE_CHECKING

from ...lazy import lazy

if TYPE_CHECKING:
    from .entries import FORMAT as FORMAT
    from .entries import NOBODY as NOBODY
    from .entries import STATE_NUMBER as STATE_NUMBER
    from .entries import About as About
    from .entries import Answered as Answered
    from .entries import ArtifactChanged as ArtifactChanged
    from .entries import Asked as Asked
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
    from .entries import Released as Released
    from .entries import RunStarted as RunStarted
    from .entries import Sender as Sender
    from .entries import StateLoaded as StateLoaded
    from .entries import StatusChanged as StatusChanged
    from .entries import StepEnded as StepEnded
    from .entries import StepLeft as StepLeft
    from .entries import Worked as Worked
    from .entries import about_of as about_of
    from .entries import entries_of as entries_of
    from .entries import events_of as events_of
    from .entries import state_of as state_of
    from .log import NO_ORIGIN as NO_ORIGIN
    from .log import Log as Log
    from .log import Origin as Origin
    from .log import Turn as Turn
    from .log import asked_since as asked_since
    from .receipt import Accepted as Accepted
    from .receipt import Receipt as Receipt
    from .tasks import Tasks as Tasks
    from .views import View as View
    from .writer import Lost as Lost

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "About": "entries",
            "Accepted": "receipt",
            "Answered": "entries",
            "ArtifactChanged": "entries",
            "AskLeft": "entries",
            "Asked": "entries",
            "Attempt": "entries",
            "Created": "entries",
            "Delegated": "entries",
            "Entry": "entries",
            "Event": "entries",
            "FORMAT": "entries",
            "NOBODY": "entries",
            "Log": "log",
            "Lost": "writer",
            "MessageAdded": "entries",
            "Mismatched": "entries",
            "Noted": "entries",
            "NO_ORIGIN": "log",
            "Ids": "entries",
            "about_of": "entries",
            "entries_of": "entries",
            "events_of": "entries",
            "Numbered": "entries",
            "Origin": "log",
            "Patched": "entries",
            "PostRefused": "entries",
            "Receipt": "receipt",
            "Released": "entries",
            "RunStarted": "entries",
            "Sender": "entries",
            "StateLoaded": "entries",
            "STATE_NUMBER": "entries",
            "StatusChanged": "entries",
            "StepEnded": "entries",
            "StepLeft": "entries",
            "Tasks": "tasks",
            "Turn": "log",
            "asked_since": "log",
            "View": "views",
            "Worked": "entries",
            "state_of": "entries",
        },
    )
