"""The four push-config operations. This agent sends no push notifications yet, and its card says
so.
"""

from ..model import (
    DeletePushConfigRequest,
    GetPushConfigRequest,
    ListPushConfigsRequest,
    PushNotificationNotSupported,
    TaskPushNotificationConfig,
)
from .call import Call
from .service import Service

__all__ = ["create_push_config", "delete_push_config", "get_push_config", "list_push_configs"]


async def create_push_config(
    service: Service, call: Call, request: TaskPushNotificationConfig
) -> None:
    raise PushNotificationNotSupported()


async def get_push_config(service: Service, call: Call, request: GetPushConfigRequest) -> None:
    raise PushNotificationNotSupported()


async def list_push_configs(service: Service, call: Call, request: ListPushConfigsRequest) -> None:
    raise PushNotificationNotSupported()


async def delete_push_config(
    service: Service, call: Call, request: DeletePushConfigRequest
) -> None:
    raise PushNotificationNotSupported()
