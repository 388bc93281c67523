"""Who may see and call what: people, policy, networks, trusted keys, and the vault."""

from typing import TYPE_CHECKING

from ...lazy_imports import lazy_imports

if TYPE_CHECKING:
    from .callers import Callers as Callers
    from .networks import LOOPBACK as LOOPBACK
    from .networks import Networks as Networks
    from .policy import May as May
    from .policy import Policy as Policy
    from .policy import PolicyRule as PolicyRule
    from .policy import applies as applies
    from .policy import honours_skill as honours_skill
    from .principals import CONSOLE as CONSOLE
    from .principals import GUEST as GUEST
    from .principals import KEYS as KEYS
    from .principals import SYSTEM as SYSTEM
    from .principals import HubRole as HubRole
    from .principals import Principal as Principal
    from .principals import Principals as Principals
    from .trust import TrustedKeys as TrustedKeys
    from .vault import NewCredential as NewCredential
    from .vault import Vault as Vault

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy_imports(__name__)
