"""gRPC's server reflection, under both of its names: tools list what is served here and learn the
messages.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from ...protocol.protobuf import POOL, kind
from .call import CODES, GrpcCall, GrpcMethod, framed

__all__ = ["reflection"]

_PACKAGES = ("grpc.reflection.v1", "grpc.reflection.v1alpha")


def reflection(services: Iterable[str]) -> dict[str, GrpcMethod]:
    """Return the methods that describe `services` and themselves."""
    served = sorted([*services, *(package + ".ServerReflection" for package in _PACKAGES)])
    return {
        f"/{package}.ServerReflection/ServerReflectionInfo": GrpcMethod(
            _Reflection(package, served).info, is_streaming=True
        )
        for package in _PACKAGES
    }


class _Reflection:
    def __init__(self, package: str, services: Sequence[str]) -> None:
        self._services = services
        self._request = kind(package + ".ServerReflectionRequest")
        self._response = kind(package + ".ServerReflectionResponse")

    async def info(self, exchange: GrpcCall) -> None:
        while (data := await exchange.next()) is not None:
            request = self._request.decode(data)
            answer = {"validHost": request.get("host", ""), "originalRequest": request}
            exchange.send(framed(self._response.encode(answer | self._answer(request))))
            await exchange.drained()

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        match request:
            case {"listServices": _}:
                return {
                    "listServicesResponse": {"service": [{"name": name} for name in self._services]}
                }
            case {"fileContainingSymbol": str(symbol)}:
                return _file(lambda: POOL.FindFileContainingSymbol(symbol), symbol)
            case {"fileByFilename": str(name)}:
                return _file(lambda: POOL.FindFileByName(name), name)
            case {"allExtensionNumbersOfType": str(name)}:
                # Proto3: there are none.
                return {"allExtensionNumbersResponse": {"baseTypeName": name}}
        return _error("NOT_FOUND", "no such extension here")


def _file(find: Any, name: str) -> dict[str, Any]:
    """A file and all it needs, so that one answer is enough."""
    try:
        found = find()
    except KeyError:
        return _error("NOT_FOUND", f"nothing called {name!r:.80} here")
    files: dict[str, bytes] = {}
    _gather(found, files)
    return {"fileDescriptorResponse": {"fileDescriptorProto": list(files.values())}}


def _gather(file: Any, files: dict[str, bytes]) -> None:
    if file.name not in files:
        files[file.name] = file.serialized_pb
        for needed in file.dependencies:
            _gather(needed, files)


def _error(name: str, what: str) -> dict[str, Any]:
    return {"errorResponse": {"errorCode": CODES[name], "errorMessage": what}}
