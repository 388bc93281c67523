"""Who calls, and how that is proved: schemes, callers, keys, tokens, signatures."""

from typing import TYPE_CHECKING

from ..lazy_imports import lazy_imports

if TYPE_CHECKING:
    from .anyone import Anyone as Anyone
    from .api_keys import ApiKeys as ApiKeys
    from .api_keys import digest_of as digest_of
    from .api_keys import new_api_key as new_api_key
    from .authenticator import Authenticator as Authenticator
    from .basic import Basic as Basic
    from .basic import hash_password as hash_password
    from .caller import ANONYMOUS as ANONYMOUS
    from .caller import Caller as Caller
    from .cards import Trust as Trust
    from .cards import canonical_card as canonical_card
    from .cards import sign_card as sign_card
    from .cookies import read_cookie as read_cookie
    from .issuer import FileKeys as FileKeys
    from .issuer import Issuer as Issuer
    from .issuer import IssuerUnavailable as IssuerUnavailable
    from .issuer import KeySource as KeySource
    from .issuer import RemoteKeys as RemoteKeys
    from .issuer import ask_issuer as ask_issuer
    from .jose import InvalidSignature as InvalidSignature
    from .jose import PublicKey as PublicKey
    from .jose import SigningKey as SigningKey
    from .jose import UnknownKey as UnknownKey
    from .jose import header_of as header_of
    from .jose import private_key as private_key
    from .jose import public_jwk as public_jwk
    from .jose import public_keys as public_keys
    from .jose import verify as verify
    from .keyring import Keyring as Keyring
    from .keyring import KeyringError as KeyringError
    from .keyring import key_file_of as key_file_of
    from .keyring import new_key as new_key
    from .mutual_tls import MutualTLS as MutualTLS
    from .oauth import OIDC as OIDC
    from .oauth import Bearer as Bearer
    from .oauth import OAuth2 as OAuth2
    from .schemes import Auth as Auth
    from .schemes import Credentials as Credentials
    from .schemes import InvalidCredentials as InvalidCredentials
    from .schemes import Resources as Resources
    from .schemes import Scheme as Scheme
    from .schemes import as_auth as as_auth
    from .schemes import scheme as scheme
    from .tokens import Introspection as Introspection
    from .tokens import InvalidToken as InvalidToken
    from .tokens import TokenVerifier as TokenVerifier

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy_imports(__name__)
    # For users: docs/stability.md promises these. The other names are for the rest of Accord, and
    # type checkers must find those too.
    __all__ = [
        "ANONYMOUS",
        "OIDC",
        "Anyone",
        "ApiKeys",
        "Auth",
        "Basic",
        "Bearer",
        "Caller",
        "Credentials",
        "Introspection",
        "InvalidCredentials",
        "InvalidToken",
        "KeySource",
        "MutualTLS",
        "OAuth2",
        "Scheme",
        "TokenVerifier",
        "Trust",
        "hash_password",
        "scheme",
        "sign_card",
    ]
