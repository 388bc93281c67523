"""Pictures of the console for the docs: `make shots`."""

import asyncio
from pathlib import Path

from accord import connect
from tests.console.browser import chromium, page_of, serving

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"


async def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    async with chromium() as browser, serving() as server, page_of(browser, server) as page:
        async with connect(server.url) as client:
            reply = await client.send("A weekend in Rome", skill="plan")
            await asyncio.sleep(1)
            done = await reply.answer("3")
            for text, skill in (("go", "steps"), ("2", "slow"), ("9 euros", "approve")):
                await client.send(text, skill=skill)
            asked = await client.send("A trip", skill="book")
        places = {
            "chat": f"?task={asked.task_id}",
            "tasks": "tasks",
            "task": f"tasks/{done.task_id}",
            "agent": "agent",
        }
        for name, place in places.items():
            await page.goto(f"{server.url}/console/{place}")
            await page.wait_for_selector("main h1")
            await page.wait_for_timeout(500)
            await page.screenshot(path=FOLDER / f"console-{name}.png")


if __name__ == "__main__":
    asyncio.run(main())
