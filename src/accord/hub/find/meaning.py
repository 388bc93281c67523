"""Meaning: texts as vectors, from a folder on this machine or from an embeddings endpoint.

Optional. It finds what shares no word with the request. A source that is away is not asked again
for a while: search goes on by words, and says so.
"""

import asyncio
import json
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from ...extras import install_command
from ...net import AgentFault, Http, Request

__all__ = ["EmbeddingsEndpoint", "Meaning", "MeaningUnavailable", "StaticVectors", "open_meaning"]

_AWAY_S = 60.0
_BATCH = 64
_MOST = 2000  # characters of a text


class MeaningUnavailable(Exception):
    """The source of vectors can't be used now; the text says why."""


class Embedder(Protocol):
    async def embed(self, texts: Sequence[str]) -> Any:
        """Return a vector per text, as rows of a float32 array. Raises MeaningUnavailable."""
        ...


class StaticVectors:
    """A folder with a model2vec model: a vector per word, no network, no GPU."""

    def __init__(self, folder: Path) -> None:
        try:
            from model2vec import StaticModel
        except ImportError:
            raise ValueError(
                f"search by meaning needs numpy and model2vec: {install_command('find')}"
            ) from None
        if not (folder / "model.safetensors").is_file():
            raise ValueError(f"{folder} has no model.safetensors: it is not a model2vec model")
        self._model = StaticModel.from_pretrained(str(folder))

    async def embed(self, texts: Sequence[str]) -> Any:
        return await asyncio.to_thread(self._embed, [text[:_MOST] for text in texts])

    def _embed(self, texts: list[str]) -> Any:
        return self._model.encode(texts)


class EmbeddingsEndpoint:
    """An HTTP endpoint of the usual shape: POST {"input": [...], "model": ...}."""

    def __init__(self, url: str, http: Http, *, model: str = "", key: str = "") -> None:
        self._url = url
        self._http = http
        self._model = model
        self._key = key

    async def embed(self, texts: Sequence[str]) -> Any:
        import numpy

        rows: list[list[float]] = []
        for i in range(0, len(texts), _BATCH):
            rows += await self._ask([text[:_MOST] or " " for text in texts[i : i + _BATCH]])
        return numpy.asarray(rows, dtype=numpy.float32)

    async def _ask(self, texts: list[str]) -> list[list[float]]:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        body = {"input": texts} | ({"model": self._model} if self._model else {})
        request = Request("POST", self._url, 15.0, headers, json.dumps(body).encode())
        try:
            answer = await self._http.fetch(request, limit=64 << 20)
        except AgentFault as error:
            raise MeaningUnavailable(str(error)) from None
        if answer.status != 200:
            raise MeaningUnavailable(f"the embeddings endpoint answers HTTP {answer.status}")
        try:
            data = sorted(json.loads(answer.body)["data"], key=lambda one: one.get("index", 0))
            found = [[float(x) for x in one["embedding"]] for one in data]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise MeaningUnavailable(
                "the answer of the embeddings endpoint has no `data` with an `embedding` each"
            ) from None
        if len(found) != len(texts) or len({len(one) for one in found}) > 1:
            raise MeaningUnavailable(
                "the embeddings endpoint did not return one vector of the same length for each text"
            )
        return found


class Meaning:
    """The vectors of documents, by entry and skill, and how near a request is to them."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._lock = threading.Lock()
        self._keys: list[tuple[str, str]] = []
        self._matrix: Any = None
        self._vectors: dict[str, list[tuple[str, Any]]] = {}  # by entry: skill and vector
        self._waiting: dict[str, list[tuple[str, str]]] = {}  # not embedded yet
        self._away_until = 0.0
        self._embedding = asyncio.Lock()
        self.trouble = ""

    def put(self, entry: str, texts: list[tuple[str, str]]) -> None:
        """Replace the texts of an entry, given with their skills; they are embedded when somebody
        searches.
        """
        with self._lock:
            self._vectors.pop(entry, None)
            self._waiting.pop(entry, None)
            if texts:
                self._waiting[entry] = texts
            self._matrix = None

    async def nearest(self, request: str) -> dict[tuple[str, str], float]:
        """Return how near each skill is to a request, as a cosine. Raises MeaningUnavailable."""
        if time.monotonic() < self._away_until:
            raise MeaningUnavailable(self.trouble)
        try:
            async with self._embedding:
                await self._catch_up()
            [vector] = await self._embedder.embed([request])
        except MeaningUnavailable as error:
            self.trouble, self._away_until = str(error), time.monotonic() + _AWAY_S
            raise
        self.trouble = ""
        return await asyncio.to_thread(self._compare, vector)

    async def _catch_up(self) -> None:
        with self._lock:
            waiting = dict(self._waiting)
        texts = [text for entry in waiting.values() for _, text in entry]
        if not texts:
            return
        vectors = iter(_unit(await self._embedder.embed(texts)))
        with self._lock:
            for entry, skills in waiting.items():
                found = [(skill, next(vectors)) for skill, _ in skills]
                if self._waiting.get(entry) is skills:  # not replaced meanwhile
                    del self._waiting[entry]
                    self._vectors[entry] = found
            self._matrix = None

    def _compare(self, vector: Any) -> dict[tuple[str, str], float]:
        import numpy

        with self._lock:
            if self._matrix is None:
                both = [(e, s, v) for e, found in self._vectors.items() for s, v in found]
                self._keys = [(entry, skill) for entry, skill, _ in both]
                self._matrix = numpy.stack([v for *_, v in both]) if both else None
            keys, matrix = self._keys, self._matrix
        if matrix is None or matrix.shape[1] != len(vector):
            return {}
        near = matrix @ _unit(vector[None])[0]
        return dict(zip(keys, near.tolist(), strict=True))


def _unit(vectors: Any) -> Any:
    import numpy

    lengths = numpy.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / numpy.maximum(lengths, 1e-9)).astype(numpy.float32)


def open_meaning(place: str, http: Http, *, model: str = "", key: str = "") -> Meaning:
    """Return the meaning of `--meaning PLACE`: a folder, or the URL of an endpoint.

    Raises:
        ValueError: There is no such folder, or what it takes is not installed.
    """
    try:
        import numpy  # noqa: F401  what both need
    except ImportError:
        raise ValueError(f"search by meaning needs numpy: {install_command('find')}") from None
    if place.startswith(("http://", "https://")):
        return Meaning(EmbeddingsEndpoint(place, http, model=model, key=key))
    folder = Path(place).expanduser()
    if not folder.is_dir():
        raise ValueError(f"{place} is neither a folder nor a URL")
    return Meaning(StaticVectors(folder))
