"""The types of `connect_sync`. Made by tests/client/stubs.py; do not edit."""

import builtins
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from ssl import SSLContext
from types import TracebackType
from typing import IO, Any, Literal, Self, TypeVar, overload

from ..model import (
    MAX_FETCHED,
    AgentCard,
    ListTasksResponse,
    Message,
    Metadata,
    OpeningFile,
    Part,
    Progress,
    Question,
    Task,
    TaskPushNotificationConfig,
    TaskState,
)
from ..net import Guard, Http
from ..protocol import BindingName, PreviewNumber, VersionNumber
from ..push import Notified
from .auth import Auth
from .budget import Budget
from .connect import Verify
from .discovery import Cards
from .finder import AgentLike
from .reply import Content
from .retry import Retry
from .streams import StreamEvent

T = TypeVar("T")

def connect_sync(
    agent: AgentLike,
    *,
    binding: BindingName | Sequence[BindingName] | None = None,
    version: VersionNumber | Sequence[VersionNumber] | None = None,
    previews: Sequence[PreviewNumber] = (),
    auth: Auth = None,
    tenant: str | None = None,
    headers: Mapping[str, str] | None = None,
    extensions: Sequence[str] = (),
    retry: Retry | None = None,
    budget: Budget | None = None,
    cards: Cards | None = None,
    proxy: str | Literal[False] | None = None,
    ca: str | Path | None = None,
    ssl: SSLContext | None = None,
    guard: Guard | None = None,
    verify: Verify = None,
    egress_proxy: str = "",
    public_card: bool = False,
    wrap: Callable[[Http], Http] | None = None,
    on_call: Callable[[Exception | None], None] | None = None,
    on_upload: Callable[[str, int, int], None] | None = None,
) -> SyncClient: ...

class SyncClient:
    @property
    def card(self) -> AgentCard: ...
    @property
    def notes(self) -> builtins.list[str]: ...
    @property
    def url(self) -> str: ...
    @property
    def binding(self) -> str: ...
    @property
    def deduplicates(self) -> bool: ...
    @property
    def version(self) -> str: ...
    def send(
        self,
        message: Content,
        *,
        skill: str = "",
        task_id: str = "",
        context_id: str = "",
        metadata: Metadata | None = None,
        wait: bool = True,
        history_length: int | None = None,
        output_modes: Sequence[str] = (),
        push: str | TaskPushNotificationConfig | None = None,
        references: Sequence[str] = (),
        key: str = "",
        if_generation_match: int | None = None,
        extensions: Sequence[str] = (),
        timeout_s: float | None = None,
    ) -> SyncReply: ...
    @overload
    def call(
        self,
        skill: str,
        value: Content = None,
        /,
        *,
        returns: type[T],
        timeout_s: float | None = None,
        **fields: Any,
    ) -> T: ...
    @overload
    def call(
        self,
        skill: str,
        value: Content = None,
        /,
        *,
        returns: None = None,
        timeout_s: float | None = None,
        **fields: Any,
    ) -> Any: ...
    def stream(
        self,
        message: Content,
        *,
        skill: str = "",
        task_id: str = "",
        context_id: str = "",
        metadata: Metadata | None = None,
        history_length: int | None = None,
        output_modes: Sequence[str] = (),
        push: str | TaskPushNotificationConfig | None = None,
        references: Sequence[str] = (),
        key: str = "",
        if_generation_match: int | None = None,
        extensions: Sequence[str] = (),
        timeout_s: float | None = None,
    ) -> SyncStream: ...
    def fork(
        self,
        task_id: str,
        at: int,
        *,
        answer: Content | None = None,
        message: Content | None = None,
        wait: bool = True,
        key: str = "",
        timeout_s: float | None = None,
    ) -> SyncReply: ...
    def subscribe(
        self, task_id: str, *, after: str | int | None = None, seen: Task | None = None
    ) -> SyncStream: ...
    def conversation(self, context_id: str = "") -> SyncConversation: ...
    def get(
        self,
        task_id: str,
        *,
        history_length: int | None = None,
        current_generation: int | None = None,
    ) -> Task: ...
    def wait(
        self,
        task_id: str,
        *,
        timeout_s: float | None = None,
        on_look: Callable[[Task], None] | None = None,
    ) -> SyncReply: ...
    def list(
        self,
        *,
        context_id: str = "",
        state: TaskState | None = None,
        page_size: int | None = None,
        history_length: int | None = None,
        since: str = "",
        artifacts: bool = False,
        limit: int | None = None,
    ) -> Iterator[Task]: ...
    def page(
        self,
        *,
        context_id: str = "",
        state: TaskState | None = None,
        page_size: int | None = None,
        history_length: int | None = None,
        since: str = "",
        artifacts: bool = False,
        token: str = "",
    ) -> ListTasksResponse: ...
    def cancel(self, task_id: str, *, metadata: Metadata | None = None) -> Task: ...
    def create_push_config(
        self,
        task_id: str,
        url: str,
        *,
        id: str = "",
        token: str = "",
        scheme: str = "",
        credentials: str = "",
    ) -> TaskPushNotificationConfig: ...
    def get_push_config(self, task_id: str, id: str) -> TaskPushNotificationConfig: ...
    def list_push_configs(self, task_id: str) -> Sequence[TaskPushNotificationConfig]: ...
    def delete_push_config(self, task_id: str, id: str) -> None: ...
    def notified(
        self, task_id: str, *, url: str = "", host: str = "127.0.0.1", port: int = 0
    ) -> Iterator[Notified]: ...
    def extended_card(self) -> AgentCard: ...
    def open(self) -> SyncClient: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
    def has_file(self, url: str) -> bool: ...
    def open_file(
        self,
        url: str,
        limit: int | None = None,
        on_fetched: Callable[[int, int], None] | None = None,
    ) -> IO[bytes]: ...

class SyncReply:
    task: Task | None
    message: Message | None
    @property
    def parts(self) -> builtins.list[Part]: ...
    @property
    def text(self) -> str: ...
    @property
    def data(self) -> Any: ...
    def as_(self, type_: type[T]) -> T: ...
    @property
    def files(self) -> builtins.list[SyncFile]: ...
    @property
    def state(self) -> TaskState: ...
    @property
    def progress(self) -> Progress | None: ...
    @property
    def is_final(self) -> bool: ...
    @property
    def ok(self) -> bool: ...
    @property
    def error(self) -> str: ...
    def raise_for_failure(self) -> Self: ...
    @property
    def question(self) -> str: ...
    @property
    def questions(self) -> builtins.list[Question]: ...
    @property
    def task_id(self) -> str: ...
    @property
    def context_id(self) -> str: ...
    def answer(self, message: Content, *, timeout_s: float | None = None) -> SyncReply: ...

class SyncStream:
    task: Task | None
    message: Message | None
    def __iter__(self) -> SyncStream: ...
    def __next__(self) -> StreamEvent: ...
    def text(self) -> Iterator[str]: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
    def close(self) -> None: ...
    @property
    def task_id(self) -> str: ...
    @property
    def reply(self) -> SyncReply: ...
    def expect_end(self) -> None: ...

class SyncConversation:
    @property
    def context_id(self) -> str: ...
    @property
    def last(self) -> SyncReply | None: ...
    def send(
        self,
        message: Content,
        *,
        skill: str = "",
        metadata: Metadata | None = None,
        timeout_s: float | None = None,
    ) -> SyncReply: ...
    def stream(
        self,
        message: Content,
        *,
        skill: str = "",
        metadata: Metadata | None = None,
        timeout_s: float | None = None,
    ) -> SyncStream: ...

class SyncFile:
    data: bytes | None
    url: str
    name: str
    media_type: str
    @classmethod
    def path(cls, path: str | Path, *, name: str = "", media_type: str = "") -> SyncFile: ...
    @classmethod
    def from_path(cls, path: str | Path) -> SyncFile: ...
    @property
    def is_stored(self) -> bool: ...
    @property
    def on_disk(self) -> Path | None: ...
    @property
    def size(self) -> int | None: ...
    def read(self, limit: int = MAX_FETCHED) -> bytes: ...
    def open(self, limit: int | None = None) -> OpeningFile: ...
    def __iter__(self) -> Iterator[bytes]: ...
    def save(self, path: str | Path) -> Path: ...
    @property
    def text(self) -> str: ...
    def part(self) -> Part: ...
