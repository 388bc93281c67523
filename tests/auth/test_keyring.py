"""The keyring: what is sealed stays so, what is signed can be verified, also after a new key."""

import os
import stat

import pytest

from accord.auth import InvalidSignature, Keyring, KeyringError, new_key, public_keys, verify


def test_sealed_and_unsealed(tmp_path):
    ring = Keyring.open(tmp_path / "hr.db.keys")
    sealed = ring.seal(b"hunter2", context="push:7")
    assert b"hunter2" not in sealed
    assert ring.seal(b"hunter2", context="push:7") != sealed
    again = Keyring.open(tmp_path / "hr.db.keys")
    assert again.unseal(sealed, context="push:7") == b"hunter2"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda data: data[:-1] + bytes([data[-1] ^ 1]), "was changed"),
        (lambda data: data[:9] + bytes([data[9] ^ 1]) + data[10:], "was changed"),
        (lambda data: data[:1] + bytes(8) + data[9:], "encrypted with the key 0000000000000000"),
        (lambda data: b"\x02" + data[1:], "not encrypted by a keyring"),
        (lambda data: data[:20], "not encrypted by a keyring"),
        (lambda data: b"", "not encrypted by a keyring"),
    ],
)
def test_what_was_altered_is_not_unsealed(change, reason):
    ring = Keyring.in_memory()
    with pytest.raises(KeyringError, match=reason):
        ring.unseal(change(ring.seal(b"hunter2", context="a")), context="a")


def test_what_was_sealed_for_one_thing_is_no_other():
    """A row copied over another is not accepted there."""
    ring = Keyring.in_memory()
    with pytest.raises(KeyringError, match="encrypted for something else"):
        ring.unseal(ring.seal(b"hunter2", context="push:7"), context="push:8")


def test_signed_and_verified():
    ring = Keyring.in_memory()
    token = ring.sign({"sub": "mia"}, header={"typ": "JWT"})
    header, payload, key = verify(token, public_keys(ring.jwks()))
    assert header == {"alg": "ES256", "kid": key.id, "typ": "JWT"}
    assert payload == b'{"sub":"mia"}'
    assert all("d" not in key for key in ring.jwks()["keys"])
    with pytest.raises(InvalidSignature):
        verify(token, public_keys(Keyring.in_memory().jwks()))


def test_rotation(tmp_path):
    """What was sealed and signed before still counts, in processes that were running too."""
    ring, other = (Keyring.open(tmp_path / "keys") for _ in range(2))
    sealed, signed = ring.seal(b"hunter2", context=""), ring.sign({"n": 1})
    key_id = ring.rotate()
    assert other.ids[0][0] == key_id
    assert other.signing_key.id == key_id
    assert len(other.jwks()["keys"]) == 2
    assert other.unseal(sealed, context="") == b"hunter2"
    verify(signed, public_keys(other.jwks()))
    assert other.unseal(ring.seal(b"new", context=""), context="") == b"new"
    ring.rotate()
    assert len(other.ids) == 3
    assert len(other.jwks()["keys"]) == 2  # the oldest signs nothing that still counts
    assert other.unseal(sealed, context="") == b"hunter2"


def test_the_file_is_for_its_owner_alone(tmp_path, caplog):
    file = tmp_path / "deep" / "keys"
    ring = Keyring.open(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    ring.rotate()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert os.listdir(file.parent) == ["keys"]
    assert caplog.text == ""
    file.chmod(0o644)
    Keyring.open(file)
    assert f"chmod 600 {file}" in caplog.text


def test_keys_as_a_text():
    """As `ACCORD_KEY` has them: the same text is the same keyring, on every machine."""
    old, new = new_key(), new_key()
    before, after = Keyring.parse(old), Keyring.parse(f"{new},{old}")
    assert Keyring.parse(old).ids == before.ids
    assert after.unseal(before.seal(b"x", context=""), context="") == b"x"
    assert after.signing_key.id != before.signing_key.id
    with pytest.raises(KeyringError, match="ACCORD_KEY=NEW,OLD"):
        after.rotate()


@pytest.mark.parametrize(
    "text",
    ["", "short", "not a key at all", new_key()[:-1], new_key() + "A"],
    ids=["empty", "short", "words", "cut", "longer"],
)
def test_what_is_no_key(text):
    with pytest.raises(KeyringError, match="accord keyring new") as caught:
        Keyring.parse(text)
    assert not text or text not in str(caught.value)


def test_where_the_keys_come_from(tmp_path):
    """A file named, the environment, a file beside the database, memory for memory; else an error
    that says what to type.
    """
    database = tmp_path / "hr.db"
    text = new_key()
    named = Keyring.find(file=tmp_path / "named", environment={"ACCORD_KEY": text})
    assert named.file == tmp_path / "named"
    assert Keyring.find(database=database, environment={"ACCORD_KEY": text}).file is None
    assert Keyring.find(database=database, environment={}).file == tmp_path / "hr.db.keys"
    assert Keyring.find(is_volatile=True, environment={}).file is None
    with pytest.raises(KeyringError, match=r"accord keyring new.*ACCORD_KEY.*--key-file"):
        Keyring.find(environment={})


def test_a_broken_file_changes_nothing_for_who_runs(tmp_path, caplog):
    ring = Keyring.open(tmp_path / "keys")
    before = ring.ids
    (tmp_path / "keys").write_text("nonsense\n")
    assert ring.ids == before
    assert "the old ones stay in use" in caplog.text
    (tmp_path / "keys").unlink()
    assert ring.ids == before
    (tmp_path / "keys").write_text("nonsense\n")
    with pytest.raises(KeyringError, match="not a key"):
        Keyring.open(tmp_path / "keys")


def test_no_key_is_shown():
    text = new_key()
    ring = Keyring.parse(text)
    shown = f"{ring!r} {ring.signing_key!r} {ring.jwks()!r} {ring._keys!r}"
    assert text not in shown
    assert repr(ring._keys[0].secret) not in shown
