"""OpenAPI 3.1, made from the table of routes and the types in it."""

import re
from typing import Any

import msgspec

from .router import PREFIX, ApiCall, ApiRoute, Routes

__all__ = ["OpenApiRoutes", "document"]

_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "reason", "message", "fix"],
            "properties": {
                "code": {"type": "integer", "description": "The HTTP status."},
                "reason": {"type": "string", "description": "For programs: NOT_FOUND, CONFLICT."},
                "message": {"type": "string", "description": "What is wrong."},
                "fix": {"type": "string", "description": "What helps."},
            },
        }
    },
}


def document(routes: list[ApiRoute], server: str) -> dict[str, Any]:
    """Return the description of all routes."""
    types = [kind for route in routes for kind in (route.takes, route.gives) if kind is not None]
    schemas, found = msgspec.json.schema_components(
        types, ref_template="#/components/schemas/{name}"
    )
    of = {id(kind): schema for kind, schema in zip(types, schemas, strict=True)}
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.verb.lower()] = _operation(route, of)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Accord hub", "version": "1"},
        "servers": [{"url": server + PREFIX}],
        "security": [{"apiKey": []}, {}],
        "paths": paths,
        "components": {
            "schemas": {**found, "Error": _ERROR},
            "securitySchemes": {"apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key"}},
        },
    }


def _operation(route: ApiRoute, of: dict[int, Any]) -> dict[str, Any]:
    where = re.findall(r"\{(\w+)\}", route.path)
    given: dict[str, Any] = {"description": "Done."}
    if route.status != 204:
        schema = of[id(route.gives)] if route.gives is not None else {"type": "object"}
        given["content"] = {"application/json": {"schema": schema}}
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    found: dict[str, Any] = {
        "summary": route.summary,
        "operationId": _name(route),
        "x-may": route.may,
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in where
        ]
        + [{"name": name, "in": "query", "schema": {"type": "string"}} for name in route.query],
        "responses": {
            str(route.status): given,
            "default": {"description": "What is wrong, and what helps.", "content": error},
        },
    }
    if route.takes is not None:
        found["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": of[id(route.takes)]}},
        }
    return found


def _name(route: ApiRoute) -> str:
    words = re.findall(r"[a-z]+", re.sub(r"\{(\w+)\}", r"by \1", route.path))
    return route.verb.lower() + "".join(word.capitalize() for word in words)


class OpenApiRoutes:
    """The description of all routes."""

    def __init__(
        self,
        routes: Routes,
    ) -> None:
        self._routes = routes

    def table(self) -> tuple[ApiRoute, ...]:
        return (ApiRoute("GET", "/openapi.json", "guest", self._openapi, "This description"),)

    async def _openapi(self, call: ApiCall) -> Any:
        scheme, _, root = call.request.server_url()
        host = call.request.headers.get(b"host", b"").decode("latin-1")
        return document(self._routes.all, f"{scheme}://{host}{root}")
