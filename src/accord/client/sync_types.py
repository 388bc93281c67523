"""`connect_sync`, with the types that the stub beside this file gives it."""

from .sync import connect_sync as connect_sync
