"""MCP servers that want to know who calls: a bearer token, other headers, or a login by OAuth."""

import asyncio
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import Context as ToolContext
from mcp.server.mcpserver import MCPServer
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from accord import connect
from accord.integrations.mcp import ToolFailed
from accord.tools import from_mcp
from tests.drive import serving_asgi
from tests.processes import start

PATIENCE_S = 120
TOKEN = "a-token-that-was-given-out"


class Known:
    """Knows one token."""

    async def verify_token(self, token: str) -> AccessToken | None:
        return AccessToken(token=token, client_id="desk", scopes=[]) if token == TOKEN else None


@asynccontextmanager
async def vault():
    """An MCP server that takes this token only, and beside it who gives it out."""
    made = []

    async def app(scope, receive, send):
        await made[0](scope, receive, send)

    async def close() -> None: ...

    async with asyncio.timeout(PATIENCE_S), serving_asgi(app, close) as url:
        server = MCPServer(
            "vault",
            token_verifier=Known(),
            auth=AuthSettings.model_validate(
                {
                    "issuer_url": url,
                    "resource_server_url": f"{url}/mcp",
                    "validate_token_resource": False,
                }
            ),
        )

        @server.tool()
        async def open_(ctx: ToolContext) -> str:
            """Open the vault."""
            return f"open for {ctx.headers.get('x-desk', 'anyone')}"

        async def metadata(_: Request) -> JSONResponse:
            return JSONResponse(
                {
                    "issuer": url,
                    "authorization_endpoint": f"{url}/authorize",
                    "token_endpoint": f"{url}/token",
                    "response_types_supported": ["code"],
                    "grant_types_supported": ["client_credentials"],
                }
            )

        async def token(request: Request) -> JSONResponse:
            form = await request.form()
            assert form["grant_type"] == "client_credentials"
            assert form["resource"] == f"{url}/mcp"
            return JSONResponse({"access_token": TOKEN, "token_type": "Bearer", "expires_in": 60})

        starlette = server.streamable_http_app()
        starlette.router.routes += [
            Route("/.well-known/oauth-authorization-server", metadata),
            Route("/token", token, methods=["POST"]),
        ]
        async with starlette.router.lifespan_context(starlette):
            made.append(starlette)
            yield url


class Storage:
    """Keeps the tokens of a login."""

    def __init__(self) -> None:
        self.tokens = self.client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens) -> None:
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client_info) -> None:
        self.client = client_info


async def test_a_bearer_token_and_headers_are_sent():
    async with vault() as url:
        async with from_mcp(f"{url}/mcp", auth=TOKEN, headers={"X-Desk": "seven"}) as tools:
            assert await tools["open_"]() == "open for seven"
        header = {"Authorization": f"Bearer {TOKEN}"}
        async with from_mcp(f"{url}/mcp", headers=header) as tools:
            assert await tools["open_"]() == "open for anyone"
        for auth in (None, "another-token"):
            with pytest.raises(ToolFailed, match="gave no answer"):
                async with from_mcp(f"{url}/mcp", auth=auth):
                    pass
    with pytest.raises(TypeError, match="with a URL"):
        async with from_mcp(["some-server"], auth=TOKEN):
            pass


async def test_a_provider_of_the_mcp_sdk_logs_in():
    async with vault() as url:
        provider = ClientCredentialsOAuthProvider(
            f"{url}/mcp", Storage(), client_id="desk", client_secret="a secret", issuer=url
        )
        async with from_mcp(f"{url}/mcp", auth=provider) as tools:
            assert await tools["open_"]() == "open for anyone"


async def test_accord_serve_shows_a_token(tmp_path: Path):
    async with vault() as url:
        words = [sys.executable, "-m", "accord", "serve", "--mcp", f"{url}/mcp", "--port", "0"]
        env = {"ACCORD_MCP_TOKEN": TOKEN}
        with start(*words, "--no-console", cwd=tmp_path, env=env) as process:
            place = (await process.line()).split(" is served at ")[1].split()[0]
            async with connect(place) as client:
                assert await client.call("open_") == "open for anyone"
            assert await process.stop() == 0
