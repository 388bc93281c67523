"""A2A 0.2 and 0.3 in every binding: the codecs of the server and of the client."""

from typing import TYPE_CHECKING

from ...lazy import lazy

if TYPE_CHECKING:
    from .client import read as read
    from .codec import read_event as read_event
    from .codec import write_send as write_send
    from .codec import write_task as write_task
    from .file_bytes import Form as Form
    from .file_bytes import form_of_server as form_of_server
    from .rest_client import RestClientV03 as RestClientV03

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "Form": "file_bytes",
            "RestClientV03": "rest_client",
            "form_of_server": "file_bytes",
            "read": "client",
            "read_event": "codec",
            "write_send": "codec",
            "write_task": "codec",
        },
    )
