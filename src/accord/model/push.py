"""Webhooks: where the events of a task are sent."""

from .base import Model

__all__ = ["AuthenticationInfo", "TaskPushNotificationConfig"]


class AuthenticationInfo(Model):
    scheme: str
    credentials: str = ""


class TaskPushNotificationConfig(Model):
    """A webhook of one task. Also the create request, and the inline config of a send."""

    url: str
    tenant: str = ""
    id: str = ""
    task_id: str = ""
    token: str = ""
    authentication: AuthenticationInfo | None = None
