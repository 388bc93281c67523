"""Files in object storage: S3, Google Cloud Storage, Azure. Needs `accord[files]` (obstore).

An object can't grow, so a file is one object for each batch that was written, named by the place
where it begins: `ID/0`, `ID/8388608`. A batch that was cut short is written again under its name.
"""

from collections.abc import AsyncIterator
from typing import Any

import obstore
from obstore.exceptions import BaseError, NotFoundError
from obstore.store import from_url

from .contract import PIECE_BYTES, lost, unusable

__all__ = ["ObjectFiles"]


class ObjectFiles:
    """Files below a prefix of a bucket. Credentials and endpoint come from the environment, as
    each cloud's own tools read them.
    """

    batch = 8 << 20

    def __init__(self, url: str, **options: Any) -> None:
        self._store: Any = from_url(url, **options)

    async def open(self) -> None:
        """It is found out with the first file whether the bucket can be used."""

    async def close(self) -> None:
        """There is nothing to close."""

    async def write(self, id: str, start: int, data: bytes) -> None:
        try:
            await obstore.put_async(self._store, f"{id}/{start:015d}", data)
        except BaseError as error:
            raise unusable(error) from error

    async def read(self, id: str, start: int, stop: int) -> AsyncIterator[bytes]:
        if start >= stop:
            return
        try:
            for begin, size in await self._objects(id):
                while start < stop and begin <= start < begin + size:
                    end = min(start + PIECE_BYTES, stop, begin + size)
                    data = bytes(
                        await obstore.get_range_async(
                            self._store, f"{id}/{begin:015d}", start=start - begin, end=end - begin
                        )
                    )
                    start += len(data)
                    yield data
        except (NotFoundError, FileNotFoundError) as error:
            raise lost(id) from error
        except BaseError as error:
            raise unusable(error) from error
        if start < stop:
            raise lost(id)

    async def delete(self, id: str) -> None:
        try:
            for begin, _ in await self._objects(id):
                await obstore.delete_async(self._store, f"{id}/{begin:015d}")
        except (NotFoundError, FileNotFoundError):
            pass  # somebody else was faster
        except BaseError as error:
            raise unusable(error) from error

    async def _objects(self, id: str) -> list[tuple[int, int]]:
        """Where each object of a file begins, and its size."""
        found = [
            (int(one["path"].rpartition("/")[2]), int(one["size"]))
            async for page in obstore.list(self._store, prefix=f"{id}/")
            for one in page
        ]
        return sorted(found)
