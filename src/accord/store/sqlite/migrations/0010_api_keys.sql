-- API keys: of a key itself only its hash is stored.
CREATE TABLE api_keys (
  id         TEXT    PRIMARY KEY,
  name       TEXT    NOT NULL,
  digest     BLOB    NOT NULL,
  created_ms INTEGER NOT NULL,
  tenant     TEXT    NOT NULL,
  scopes     TEXT    NOT NULL,  -- with blanks between them, as OAuth has them
  expires_ms INTEGER NOT NULL,
  used_ms    INTEGER NOT NULL,
  revoked_ms INTEGER NOT NULL
) WITHOUT ROWID;
