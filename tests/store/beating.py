"""A process that does nothing but show that it lives: `beating.py STORE`."""

import asyncio
import sys

from accord.store.postgres import PostgresStore


async def main(url: str) -> None:
    store = PostgresStore(url)
    await store.open(lambda tasks: None)
    print(store.replica, flush=True)
    while True:
        await store.beat()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
