"""Requests, and the answers that are not a task."""

from .base import Metadata, Model
from .push import TaskPushNotificationConfig
from .task import Message, Task, TaskState

__all__ = [
    "CancelTaskRequest",
    "DeletePushConfigRequest",
    "GetExtendedCardRequest",
    "GetPushConfigRequest",
    "GetTaskRequest",
    "ListPushConfigsRequest",
    "ListPushConfigsResponse",
    "ListTasksRequest",
    "ListTasksResponse",
    "SendConfiguration",
    "SendMessageRequest",
    "SendMessageResponse",
    "SubscribeRequest",
]


class SendConfiguration(Model):
    accepted_output_modes: list[str] = []
    task_push_notification_config: TaskPushNotificationConfig | None = None
    history_length: int | None = None
    return_immediately: bool = False


class SendMessageRequest(Model):
    message: Message
    tenant: str = ""
    configuration: SendConfiguration | None = None
    metadata: Metadata | None = None


class SendMessageResponse(Model):
    """Exactly one of `task` and `message`."""

    task: Task | None = None
    message: Message | None = None


class GetTaskRequest(Model):
    id: str
    tenant: str = ""
    history_length: int | None = None


class ListTasksRequest(Model):
    tenant: str = ""
    context_id: str = ""
    status: TaskState = TaskState.UNSPECIFIED
    page_size: int | None = None
    page_token: str = ""
    history_length: int | None = None
    status_timestamp_after: str = ""
    include_artifacts: bool | None = None


class ListTasksResponse(Model):
    """A page of tasks, newest status first; an empty token on the last."""

    tasks: list[Task] = []
    next_page_token: str = ""
    page_size: int = 0
    total_size: int = 0


class CancelTaskRequest(Model):
    id: str
    tenant: str = ""
    metadata: Metadata | None = None


class SubscribeRequest(Model):
    id: str
    tenant: str = ""


class GetPushConfigRequest(Model):
    task_id: str
    id: str
    tenant: str = ""


class DeletePushConfigRequest(Model):
    task_id: str
    id: str
    tenant: str = ""


class ListPushConfigsRequest(Model):
    task_id: str
    page_size: int = 0
    page_token: str = ""
    tenant: str = ""


class ListPushConfigsResponse(Model):
    configs: list[TaskPushNotificationConfig] = []
    next_page_token: str = ""


class GetExtendedCardRequest(Model):
    tenant: str = ""
