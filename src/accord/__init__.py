"""Accord: Agent2Agent (A2A) for Python.

The names load on first use, so that a server does not pay for the client, nor the client for the
server.
"""

from typing import TYPE_CHECKING

from .lazy_imports import lazy_imports

if TYPE_CHECKING:
    from .agent import Agent as Agent
    from .auth import Caller as Caller
    from .client import connect as connect
    from .client import connect_sync as connect_sync
    from .engine.durable import Backoff as Backoff
    from .engine.durable import Expired as Expired
    from .engine.durable import StepFailed as StepFailed
    from .engine.runs import Retention as Retention
    from .engine.skills import Ask as Ask
    from .engine.skills import Context as Context
    from .engine.skills import Fail as Fail
    from .engine.skills import File as File
    from .engine.skills import Reply as Reply
    from .engine.skills import SkillCall as SkillCall
    from .engine.skills import StatusMessage as StatusMessage
    from .engine.skills import current as current
    from .model import A2AError as A2AError
    from .model import AgentNotFound as AgentNotFound
    from .model import Artifact as Artifact
    from .model import BodyTooLarge as BodyTooLarge
    from .model import ContentTypeNotSupported as ContentTypeNotSupported
    from .model import ExtendedAgentCardNotConfigured as ExtendedAgentCardNotConfigured
    from .model import ExtensionSupportRequired as ExtensionSupportRequired
    from .model import InvalidAgentResponse as InvalidAgentResponse
    from .model import InvalidParams as InvalidParams
    from .model import InvalidRequest as InvalidRequest
    from .model import Limits as Limits
    from .model import Message as Message
    from .model import MethodNotAllowed as MethodNotAllowed
    from .model import MethodNotFound as MethodNotFound
    from .model import ParseError as ParseError
    from .model import Part as Part
    from .model import PermissionDenied as PermissionDenied
    from .model import PushNotificationNotSupported as PushNotificationNotSupported
    from .model import Task as Task
    from .model import TaskGenerationMismatch as TaskGenerationMismatch
    from .model import TaskNotCancelable as TaskNotCancelable
    from .model import TaskNotFound as TaskNotFound
    from .model import TooManyRequests as TooManyRequests
    from .model import Unauthenticated as Unauthenticated
    from .model import Unavailable as Unavailable
    from .model import UnsupportedMediaType as UnsupportedMediaType
    from .model import UnsupportedOperation as UnsupportedOperation
    from .model import VersionNotSupported as VersionNotSupported
    from .server.transport import Tls as Tls

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy_imports(__name__)
    __all__ = list(__dir__())
