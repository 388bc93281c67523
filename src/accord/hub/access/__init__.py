"""Who may see and call what: people, policy, networks, trusted keys, and the vault."""

from typing import TYPE_CHECKING

from ...lazy import lazy

if TYPE_CHECKING:
    from .networks import LOOPBACK as LOOPBACK
    from .networks import Networks as Networks
    from .people import CONSOLE as CONSOLE
    from .people import GUEST as GUEST
    from .people import KEYS as KEYS
    from .people import SYSTEM as SYSTEM
    from .people import HubRole as HubRole
    from .people import People as People
    from .people import Person as Person
    from .policy import May as May
    from .policy import Policy as Policy
    from .policy import PolicyRule as PolicyRule
    from .policy import applies as applies
    from .policy import honours_skill as honours_skill
    from .policy import read_rule as read_rule
    from .trust import TrustedKeys as TrustedKeys
    from .vault import NewCredential as NewCredential
    from .vault import Vault as Vault

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "CONSOLE": "people",
            "GUEST": "people",
            "HubRole": "people",
            "KEYS": "people",
            "LOOPBACK": "networks",
            "May": "policy",
            "Networks": "networks",
            "NewCredential": "vault",
            "People": "people",
            "Person": "people",
            "Policy": "policy",
            "PolicyRule": "policy",
            "SYSTEM": "people",
            "TrustedKeys": "trust",
            "Vault": "vault",
            "applies": "policy",
            "honours_skill": "policy",
            "read_rule": "policy",
        },
    )
