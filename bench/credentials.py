"""Credentials for the servers whose callers authenticate."""

import asyncio
import json
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from accord.auth import digest_of, new_api_key, private_key
from accord.model import now_ms
from accord.store import StoredApiKey, open_store

__all__ = ["protect"]


def protect(column: str, auth: str, folder: Path) -> tuple[str, str]:
    """Return what a server is told about its callers, and the line of a request that shows who
    calls. On SQLite an API key is stored beside the tasks, as `accord key new` does it.
    """
    if auth == "jwt":
        return _token(folder)
    if column != "sqlite":
        key = secrets.token_hex(24)
        return f"key:{key}", f"X-API-Key: {key}\r\n"
    id_, key = new_api_key()

    async def add() -> None:
        keys = open_store(f"sqlite:///{folder}/tasks.db").keys
        await keys.prepare()
        await keys.add(StoredApiKey(id_, "bench", digest_of(key), now_ms()))

    with ThreadPoolExecutor(1) as thread:  # the load has a loop of its own
        thread.submit(asyncio.run, add()).result()
    return "stored:", f"X-API-Key: {key}\r\n"


def _token(folder: Path) -> tuple[str, str]:
    pem = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    (folder / "key.pem").write_bytes(pem)
    key = private_key(folder / "key.pem", kid="k1")
    (folder / "jwks.json").write_text(json.dumps({"keys": [key.public()]}))
    now = int(time.time())
    claims = {
        "iss": "https://id.example",
        "aud": "bench",
        "sub": "bench",
        "scope": "read write",
        "iat": now,
        "exp": now + 3600,
    }
    token = key.sign(json.dumps(claims).encode())
    return f"jwt:{folder}/jwks.json", f"Authorization: Bearer {token}\r\n"
