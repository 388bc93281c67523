-- Tasks that were made and are being worked on, with nothing to tell of them since: their log is all there is of them. They
-- get their row in `tasks`, and its places in lists, with the first snapshot: most have ended by then, and are moved no more.
CREATE TABLE begun (
  scope   INTEGER NOT NULL,
  id      TEXT    NOT NULL,
  key     INTEGER NOT NULL,
  owner   INTEGER NOT NULL,
  context TEXT    NOT NULL,
  state   INTEGER NOT NULL,
  at_ms   INTEGER NOT NULL,
  seq     INTEGER NOT NULL,
  pos     INTEGER NOT NULL,
  about   BLOB    NOT NULL,
  PRIMARY KEY (scope, id)
) WITHOUT ROWID;
