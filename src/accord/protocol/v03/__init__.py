"""A2A 0.2 and 0.3 in every binding: the codecs of the server and of the client."""

from typing import TYPE_CHECKING

from ...lazy_imports import lazy_imports

if TYPE_CHECKING:
    from .client import read as read
    from .codec import read_event as read_event
    from .codec import write_send as write_send
    from .codec import write_task as write_task
    from .file_bytes import Form as Form
    from .file_bytes import form_of_server as form_of_server
    from .rest_client import RestClientV03 as RestClientV03

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy_imports(__name__)
