"""The agent card and its security objects."""

from typing import Any

from msgspec import field

from .base import Metadata, Model, brief
from .extensions import SCHEMA

__all__ = [
    "MAX_SIGNATURES",
    "APIKeySecurityScheme",
    "AgentCapabilities",
    "AgentCard",
    "AgentCardSignature",
    "AgentExtension",
    "AgentInterface",
    "AgentProvider",
    "AgentSkill",
    "AuthorizationCodeOAuthFlow",
    "ClientCredentialsOAuthFlow",
    "DeviceCodeOAuthFlow",
    "HTTPAuthSecurityScheme",
    "ImplicitOAuthFlow",
    "MutualTlsSecurityScheme",
    "OAuth2SecurityScheme",
    "OAuthFlows",
    "OpenIdConnectSecurityScheme",
    "PasswordOAuthFlow",
    "SecurityRequirement",
    "SecurityScheme",
    "StringList",
]


MAX_SIGNATURES = 8  # of a card: each costs a reader time, and a few are enough to rotate keys


class StringList(Model):
    items: list[str] = field(name="list", default_factory=list)


class SecurityRequirement(Model):
    """One alternative: every scheme named here, with these scopes."""

    schemes: dict[str, StringList] = {}


class AuthorizationCodeOAuthFlow(Model):
    authorization_url: str
    token_url: str
    scopes: dict[str, str]
    refresh_url: str = ""
    pkce_required: bool = False


class ClientCredentialsOAuthFlow(Model):
    token_url: str
    scopes: dict[str, str]
    refresh_url: str = ""


class DeviceCodeOAuthFlow(Model):
    device_authorization_url: str
    token_url: str
    scopes: dict[str, str]
    refresh_url: str = ""


class ImplicitOAuthFlow(Model):
    authorization_url: str = ""
    refresh_url: str = ""
    scopes: dict[str, str] = {}


class PasswordOAuthFlow(Model):
    token_url: str = ""
    refresh_url: str = ""
    scopes: dict[str, str] = {}


class OAuthFlows(Model):
    """Exactly one flow; a scheme that offers two is declared twice."""

    authorization_code: AuthorizationCodeOAuthFlow | None = None
    client_credentials: ClientCredentialsOAuthFlow | None = None
    implicit: ImplicitOAuthFlow | None = None
    password: PasswordOAuthFlow | None = None
    device_code: DeviceCodeOAuthFlow | None = None


class APIKeySecurityScheme(Model):
    location: str
    name: str
    description: str = ""


class HTTPAuthSecurityScheme(Model):
    scheme: str
    description: str = ""
    bearer_format: str = ""


class OAuth2SecurityScheme(Model):
    flows: OAuthFlows
    description: str = ""
    oauth2_metadata_url: str = ""


class OpenIdConnectSecurityScheme(Model):
    open_id_connect_url: str
    description: str = ""


class MutualTlsSecurityScheme(Model):
    description: str = ""


class SecurityScheme(Model):
    """Exactly one member is set; its name says what kind of scheme it is."""

    api_key_security_scheme: APIKeySecurityScheme | None = None
    http_auth_security_scheme: HTTPAuthSecurityScheme | None = None
    oauth2_security_scheme: OAuth2SecurityScheme | None = None
    open_id_connect_security_scheme: OpenIdConnectSecurityScheme | None = None
    mtls_security_scheme: MutualTlsSecurityScheme | None = None


class AgentProvider(Model):
    organization: str
    url: str


class AgentInterface(Model):
    url: str
    protocol_binding: str
    protocol_version: str
    tenant: str = ""


class AgentExtension(Model):
    uri: str
    description: str = ""
    required: bool = False
    params: Metadata | None = None


class AgentCapabilities(Model):
    streaming: bool | None = None
    push_notifications: bool | None = None
    extensions: list[AgentExtension] = []
    extended_agent_card: bool | None = None


class AgentSkill(Model):
    id: str
    name: str
    description: str
    tags: list[str]
    examples: list[str] = []
    input_modes: list[str] = []
    output_modes: list[str] = []
    security_requirements: list[SecurityRequirement] = []


class AgentCardSignature(Model):
    protected: str
    signature: str
    header: Metadata | None = None


class AgentCard(Model):
    """The agent card: what an agent offers, where it is and how to authenticate."""

    name: str
    description: str
    supported_interfaces: list[AgentInterface]
    version: str
    capabilities: AgentCapabilities
    default_input_modes: list[str]
    default_output_modes: list[str]
    skills: list[AgentSkill]
    provider: AgentProvider | None = None
    documentation_url: str | None = None
    security_schemes: dict[str, SecurityScheme] = {}
    security_requirements: list[SecurityRequirement] = []
    signatures: list[AgentCardSignature] = []
    icon_url: str | None = None

    def input_schema(self, skill: str) -> dict[str, Any] | None:
        """Return the JSON Schema of what a skill takes; None if the card does not have it."""
        for extension in self.capabilities.extensions:
            skills = (extension.params or {}).get("skills") if extension.uri == SCHEMA else None
            schemas = skills.get(skill) if isinstance(skills, dict) else None
            found = schemas.get("input") if isinstance(schemas, dict) else None
            if isinstance(found, dict):
                return found
        return None

    def __repr__(self) -> str:
        skills = ", ".join(skill.id for skill in self.skills)
        places = self.supported_interfaces
        where = f", at {places[0].url}" if places else ""
        return f"AgentCard({self.name!r} {self.version}, skills {brief(skills)}{where})"
