"""Other frameworks and protocols: what they need of Accord, and Accord of them."""

from typing import TYPE_CHECKING

from ..lazy_imports import lazy_imports

if TYPE_CHECKING:
    from .functions import make_function as make_function
    from .remote import RemoteTool as RemoteTool
    from .remote import described_result as described_result
    from .remote import follow as follow
    from .remote import remote_tool as remote_tool
    from .remote import remote_tools as remote_tools
    from .wrapping import kind_of as kind_of
    from .wrapping import wrap as wrap

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy_imports(__name__)
