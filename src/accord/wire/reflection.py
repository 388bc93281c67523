"""gRPC's server reflection, under both of its names: tools list what is served here and learn the messages."""

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

import grpc

from ..codec.proto.pool import POOL
from ..codec.protobuf import kind
from ..model import A2AError

__all__ = ["reflection"]

_PACKAGES = ("grpc.reflection.v1", "grpc.reflection.v1alpha")


def reflection(services: Iterable[str]) -> list[Any]:
    """Return the handlers that tell about `services` and about themselves."""
    served = sorted([*services, *(package + ".ServerReflection" for package in _PACKAGES)])
    return [_Reflection(package, served).handler for package in _PACKAGES]


class _Reflection:
    def __init__(self, package: str, services: Sequence[str]) -> None:
        self._services = services
        self._request = kind(package + ".ServerReflectionRequest")
        self._response = kind(package + ".ServerReflectionResponse")
        methods = {"ServerReflectionInfo": grpc.stream_stream_rpc_method_handler(self._info)}
        self.handler = grpc.method_handlers_generic_handler(package + ".ServerReflection", methods)

    async def _info(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        async for data in requests:
            try:
                request = self._request.decode(data)
            except A2AError as error:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            answer = {"validHost": request.get("host", ""), "originalRequest": request}
            yield self._response.encode(answer | self._answer(request))

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        match request:
            case {"listServices": _}:
                return {"listServicesResponse": {"service": [{"name": name} for name in self._services]}}
            case {"fileContainingSymbol": str(symbol)}:
                return _file(lambda: POOL.FindFileContainingSymbol(symbol), symbol)
            case {"fileByFilename": str(name)}:
                return _file(lambda: POOL.FindFileByName(name), name)
            case {"allExtensionNumbersOfType": str(name)}:
                return {"allExtensionNumbersResponse": {"baseTypeName": name}}  # proto3: there are none
        return _error(grpc.StatusCode.NOT_FOUND, "no such extension here")


def _file(find: Any, name: str) -> dict[str, Any]:
    """A file and all it needs, so that one answer is enough."""
    try:
        found = find()
    except KeyError:
        return _error(grpc.StatusCode.NOT_FOUND, f"nothing called {name!r:.80} here")
    files: dict[str, bytes] = {}
    _gather(found, files)
    return {"fileDescriptorResponse": {"fileDescriptorProto": list(files.values())}}


def _gather(file: Any, files: dict[str, bytes]) -> None:
    if file.name not in files:
        files[file.name] = file.serialized_pb
        for needed in file.dependencies:
            _gather(needed, files)


def _error(code: grpc.StatusCode, what: str) -> dict[str, Any]:
    return {"errorResponse": {"errorCode": code.value[0], "errorMessage": what}}
