"""A question that waits in the console: asked for as the console's page does, so that whoever opens
the console may answer it.
"""

import aiohttp


async def leave_question(hub: str, link: str) -> str:
    """Ask for a trip, whose planner asks back. Returns another link to the console: the one given
    is used for this.
    """
    key = link.partition("?key=")[2]
    message = {"messageId": "demo", "role": "ROLE_USER", "parts": [{"text": "A week in Oslo"}]}
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    cookies = aiohttp.CookieJar(unsafe=True)  # also of an address without a name
    async with aiohttp.ClientSession(cookie_jar=cookies, raise_for_status=True) as browser:
        none = {"X-Accord-Session": "none"}
        async with browser.post(
            f"{hub}/console/api/login", json={"key": key}, headers=none
        ) as answer:
            session = {"X-Accord-Session": (await answer.json())["secret"]}
        version = {"A2A-Version": "1.0"}
        async with browser.post(
            f"{hub}/agents/trip-planner/", json=call, headers=session | version
        ) as answer:
            await answer.read()
        async with browser.post(f"{hub}/console/api/link", headers=session) as answer:
            return f"{hub}/console/?key={(await answer.json())['key']}"
