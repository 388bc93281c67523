-- Webhooks of tasks: each a pair of cursors on the log of its task. `upto` is moved by the commit of an event, `sent` by the
-- deliverer. What is due has a time. Who delivers it now is known to the one process that
-- uses the file, and is not written.
CREATE TABLE pushes (
  task       INTEGER NOT NULL,
  id         TEXT    NOT NULL,
  n          INTEGER NOT NULL,            -- the n-th of its task
  namespace  INTEGER NOT NULL,
  is_open    INTEGER NOT NULL,            -- its task has not ended
  artifacts  INTEGER NOT NULL,            -- artifact events are sent too
  upto       INTEGER NOT NULL,
  sent       INTEGER NOT NULL,
  due_ms     INTEGER,
  tries      INTEGER NOT NULL DEFAULT 0,
  claim      INTEGER NOT NULL DEFAULT 0,
  failing_ms INTEGER NOT NULL DEFAULT 0,
  at_ms      INTEGER NOT NULL,
  endpoint   TEXT    NOT NULL,
  version    TEXT    NOT NULL,
  error      TEXT    NOT NULL DEFAULT '',
  disabled   TEXT    NOT NULL DEFAULT '',
  data       BLOB    NOT NULL,            -- its URL and what is secret, sealed
  PRIMARY KEY (task, id)
) WITHOUT ROWID;
CREATE INDEX pushes_by_due     ON pushes (due_ms, endpoint, namespace) WHERE due_ms IS NOT NULL;
CREATE INDEX pushes_by_caller  ON pushes (namespace)        WHERE is_open = 1;
CREATE INDEX pushes_by_trouble ON pushes (at_ms)            WHERE disabled <> '' OR failing_ms > 0;

-- Events that were given up. Their text is in the log, which is kept while one of these names it.
CREATE TABLE dead_letters (
  n     INTEGER PRIMARY KEY AUTOINCREMENT,
  task  INTEGER NOT NULL,
  push  TEXT    NOT NULL,
  first INTEGER NOT NULL,
  last  INTEGER NOT NULL,
  at_ms INTEGER NOT NULL,
  error TEXT    NOT NULL
);
CREATE INDEX dead_letters_by_task ON dead_letters (task);
CREATE INDEX dead_letters_by_age  ON dead_letters (at_ms);
