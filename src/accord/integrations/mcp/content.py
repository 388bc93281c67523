"""What an agent made, as content of MCP; and content of MCP, as values."""

import asyncio
import base64
import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, unquote

import mcp_types as mcp
from msgspec import UNSET
from msgspec.structs import replace

from ...client import Client, ClientReply
from ...model import Artifact, File, Part, Task
from ...net import FileTooLarge

__all__ = ["content_of", "read_artifact", "structured_of", "value_of"]

_MAX_EMBEDDED = 1 << 20  # bytes of a file that are sent along; a larger one is a link
_MAX_LOADED = 16 << 20  # bytes of a file that a resource can hold
_SCHEME = "a2a://"


def content_of(reply: ClientReply, tool: str) -> list[mcp.ContentBlock]:
    """Return an answer as content: one text for the texts of an artifact, the rest as it is."""
    artifacts = reply.task.artifacts if reply.task is not None else []
    if not artifacts:
        return _blocks(reply.parts, "")
    return [
        block
        for artifact in artifacts
        for block in _blocks(artifact.parts, _uri(tool, reply.task_id, artifact.artifact_id))
    ]


async def load_files(client: Client, task: Task | None) -> None:
    """Put the bytes of the agent's own files in place of their addresses: who speaks MCP may not
    reach the agent. Larger ones stay addresses.
    """
    for artifact in task.artifacts if task is not None else []:
        artifact.parts = [await _loaded(client, part) for part in artifact.parts]


async def _loaded(client: Client, part: Part) -> Part:
    if not isinstance(part.url, str) or not client.has_file(part.url):
        return part
    try:
        with await client.open_file(part.url, _MAX_LOADED) as file:
            return replace(part, url=UNSET, raw=await asyncio.to_thread(file.read))
    except FileTooLarge:
        return part


def structured_of(reply: ClientReply) -> dict[str, Any] | None:
    """Return the answer's data, if it is one JSON object: that is what MCP has a place for."""
    found = [part.data for part in reply.parts if part.data is not UNSET]
    return found[0] if len(found) == 1 and isinstance(found[0], dict) else None


def _blocks(parts: Sequence[Part], uri: str) -> list[mcp.ContentBlock]:
    """Texts that follow each other are chunks of one."""
    found: list[mcp.ContentBlock] = []
    text = ""
    for part in parts:
        if isinstance(part.text, str):
            text += part.text
            continue
        if text:
            found.append(mcp.TextContent(text=text))
            text = ""
        found.append(_block(part, uri))
    return [*found, mcp.TextContent(text=text)] if text else found


def _block(part: Part, uri: str) -> mcp.ContentBlock:
    if part.data is not UNSET:
        return mcp.TextContent(text=json.dumps(part.data, ensure_ascii=False))
    name = part.filename or "file"
    kind = part.media_type or "application/octet-stream"
    if isinstance(part.url, str):
        return mcp.ResourceLink(uri=part.url, name=name, mime_type=kind)
    assert isinstance(part.raw, bytes)  # a part is one of the four
    if len(part.raw) > _MAX_EMBEDDED and uri:
        return mcp.ResourceLink(uri=uri, name=name, mime_type=kind, size=len(part.raw))
    encoded = base64.b64encode(part.raw).decode()
    if kind.startswith("image/"):
        return mcp.ImageContent(data=encoded, mime_type=kind)
    if kind.startswith("audio/"):
        return mcp.AudioContent(data=encoded, mime_type=kind)
    return mcp.EmbeddedResource(
        resource=mcp.BlobResourceContents(
            uri=uri or f"{_SCHEME}file/{quote(name)}", mime_type=kind, blob=encoded
        )
    )


# Artifacts as resources: a2a://TOOL/TASK/ARTIFACT


URI_TEMPLATE = f"{_SCHEME}{{tool}}/{{task_id}}/{{artifact_id}}"


def _uri(tool: str, task_id: str, artifact_id: str) -> str:
    return _SCHEME + "/".join(quote(one, safe="") for one in (tool, task_id, artifact_id))


def split_uri(uri: str) -> tuple[str, str, str] | None:
    """Return the tool, the task and the artifact an address names; None if it is none of ours."""
    words = uri.removeprefix(_SCHEME).split("/")
    if not uri.startswith(_SCHEME) or len(words) != 3:
        return None
    tool, task_id, artifact_id = (unquote(word) for word in words)
    return tool, task_id, artifact_id


def read_artifact(
    task: Task, artifact_id: str, uri: str
) -> list[mcp.TextResourceContents | mcp.BlobResourceContents] | None:
    """Return an artifact of a task as a resource; None if the task has no such artifact."""
    artifact = next((one for one in task.artifacts if one.artifact_id == artifact_id), None)
    return None if artifact is None else [_contents(part, uri) for part in _joined(artifact)]


def _joined(artifact: Artifact) -> list[Part]:
    if all(isinstance(part.text, str) for part in artifact.parts):
        return [Part(text=artifact.text, media_type="text/plain")]
    return artifact.parts


def _contents(part: Part, uri: str) -> mcp.TextResourceContents | mcp.BlobResourceContents:
    if isinstance(part.raw, bytes):
        kind = part.media_type or "application/octet-stream"
        return mcp.BlobResourceContents(
            uri=uri, mime_type=kind, blob=base64.b64encode(part.raw).decode()
        )
    if part.data is not UNSET:
        shown = json.dumps(part.data, ensure_ascii=False)
        return mcp.TextResourceContents(uri=uri, mime_type="application/json", text=shown)
    if isinstance(part.url, str):
        return mcp.TextResourceContents(uri=uri, mime_type="text/uri-list", text=part.url)
    kind = part.media_type or "text/plain"
    return mcp.TextResourceContents(uri=uri, mime_type=kind, text=str(part.text))


# The other direction: what a tool of an MCP server gave


def value_of(result: mcp.CallToolResult) -> Any:
    """Return what a tool gave: its structured content, else its text, else texts and files."""
    structured = result.structured_content
    if structured is not None:
        # How MCP servers wrap what is no object.
        is_wrapped = isinstance(structured, dict) and set(structured) == {"result"}
        return structured["result"] if is_wrapped else structured
    found = [_value(block) for block in result.content]
    texts = [one for one in found if isinstance(one, str)]
    if len(texts) == len(found):
        return "\n".join(texts)
    return found[0] if len(found) == 1 else found


def _value(block: mcp.ContentBlock) -> str | File:
    match block:
        case mcp.TextContent():
            return block.text
        case mcp.ImageContent() | mcp.AudioContent():
            return File(base64.b64decode(block.data), media_type=block.mime_type)
        case mcp.ResourceLink():
            return File(url=str(block.uri), name=block.name, media_type=block.mime_type or "")
    resource = block.resource
    if isinstance(resource, mcp.TextResourceContents):
        return resource.text
    name = str(resource.uri).rpartition("/")[2]
    return File(base64.b64decode(resource.blob), name=name, media_type=resource.mime_type or "")
