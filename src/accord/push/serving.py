"""A receiver on a port of its own."""

import contextlib
from collections.abc import AsyncIterator

from .receiver import MAX_BODY, Receiver

__all__ = ["listening"]


@contextlib.asynccontextmanager
async def listening(
    receiver: Receiver, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[str]:
    """Serve a receiver over plain HTTP while the block lasts; gives its address.

    Raises:
        OSError: The port can't be listened on.
    """
    from aiohttp import web  # slow to import

    async def answer(request: web.Request) -> web.Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        body = await request.read()
        status, text = await receiver.answer(request.method, request.query_string, headers, body)
        return web.Response(status=status, body=text, content_type="text/plain")

    app = web.Application(client_max_size=MAX_BODY)
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        bound = runner.addresses[0]
        yield f"http://{f'[{host}]' if ':' in host else host}:{bound[1]}"
    finally:
        await runner.cleanup()
