-- Browsers that are logged in at the console, and links that log one in: of what they show only the hash is stored.
CREATE TABLE logins (
  id         TEXT    PRIMARY KEY,
  digest     BLOB    NOT NULL,
  created_ms INTEGER NOT NULL,
  seen_ms    INTEGER NOT NULL,
  is_link    INTEGER NOT NULL,
  browser    TEXT    NOT NULL
) WITHOUT ROWID;
