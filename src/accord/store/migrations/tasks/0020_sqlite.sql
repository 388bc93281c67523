-- Whose tasks. Small numbers stand for (agent, tenant, caller) everywhere else.
CREATE TABLE namespaces (
  namespace INTEGER PRIMARY KEY,
  agent     TEXT NOT NULL,
  tenant    TEXT NOT NULL,
  caller    TEXT NOT NULL,
  UNIQUE (agent, tenant, caller)
);

-- Who runs tasks: a row per process. The number only grows. One that has died may not write; its
-- row stays while a task names it.
CREATE TABLE replicas (
  replica  INTEGER PRIMARY KEY AUTOINCREMENT,
  heard_ms INTEGER NOT NULL,
  is_dead  INTEGER NOT NULL DEFAULT 0
);

-- A task: where it stands, and its snapshot in two pieces, at the end of the row: what comes before
-- is read without them.
CREATE TABLE tasks (
  key          INTEGER PRIMARY KEY,
  namespace    INTEGER NOT NULL,
  state        INTEGER NOT NULL,
  at_ms        INTEGER NOT NULL,
  created_ms   INTEGER NOT NULL,
  pos          INTEGER NOT NULL,
  seq          INTEGER NOT NULL,
  snap         INTEGER NOT NULL,
  owner        INTEGER,
  posts        INTEGER NOT NULL,
  heard        INTEGER NOT NULL,
  committed_ms INTEGER NOT NULL,
  format       INTEGER NOT NULL,
  folded       INTEGER NOT NULL DEFAULT 0,  -- its log has been deleted
  due_ms       INTEGER,  -- when one that nobody owns is to be taken up: it sleeps, or has a deadline
  id           TEXT    NOT NULL,
  context      TEXT    NOT NULL,
  skill        TEXT    NOT NULL,
  about        BLOB    NOT NULL,
  head         BLOB    NOT NULL,
  artifacts    BLOB    NOT NULL
);

-- Every index ends with the key, as all of SQLite's do. Each one that a commit touches is a page
-- more to be written, so there are few: a list of all states is merged from one per state, and
-- submitted and working tasks, which are few and soon stand elsewhere, are in none that they need
-- not be in. The last one serves the operator's list, and what looks for age.
CREATE UNIQUE INDEX tasks_by_id      ON tasks (namespace, id);
CREATE INDEX        tasks_by_state   ON tasks (namespace, state, at_ms);
CREATE INDEX        tasks_by_context ON tasks (namespace, context, at_ms) WHERE state NOT IN (1, 2);
CREATE INDEX        tasks_by_age     ON tasks (folded, state, at_ms)      WHERE state NOT IN (1, 2);
CREATE INDEX        tasks_by_due     ON tasks (due_ms)                    WHERE due_ms IS NOT NULL;

-- The log: one row per task and commit, by the position of its first entry. Rows are added at the
-- end of the table and found by an index: in a table ordered by task they would be moved from page
-- to page as it grows.
CREATE TABLE events (
  task  INTEGER NOT NULL,
  pos   INTEGER NOT NULL,
  seq   INTEGER NOT NULL,
  at_ms INTEGER NOT NULL,
  data  BLOB    NOT NULL
);
CREATE UNIQUE INDEX events_by_pos ON events (task, pos);

-- What an owner has not read yet. Large values are in tables with row numbers, and found by an
-- index. A table without row numbers is an index itself: to find a place in it, SQLite reads the
-- rows it compares, and these whole.
CREATE TABLE posts (
  task INTEGER NOT NULL,
  n    INTEGER NOT NULL,
  id   INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  body BLOB    NOT NULL
);
CREATE UNIQUE INDEX posts_by_number ON posts (task, n);

-- Long pieces of text that a row of the log and the snapshot share, by the number that stands in
-- their place.
CREATE TABLE pieces (
  task INTEGER NOT NULL,
  n    INTEGER NOT NULL,
  data BLOB    NOT NULL
);
CREATE UNIQUE INDEX pieces_by_number ON pieces (task, n);

-- Idempotency keys and what they stand for.
CREATE TABLE keys (
  namespace INTEGER NOT NULL,
  key       TEXT    NOT NULL,
  at_ms     INTEGER NOT NULL,
  turn      INTEGER NOT NULL,
  post      INTEGER NOT NULL,
  digest    BLOB    NOT NULL,
  task      TEXT    NOT NULL,
  reply     BLOB    NOT NULL,
  PRIMARY KEY (namespace, key)
) WITHOUT ROWID;
CREATE INDEX keys_by_age ON keys (at_ms);

-- Totals of lists, kept in the same commit as the tasks they count.
CREATE TABLE counts (
  namespace INTEGER NOT NULL,
  state     INTEGER NOT NULL,
  n         INTEGER NOT NULL,
  PRIMARY KEY (namespace, state)
) WITHOUT ROWID;

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

-- API keys: of a key itself only its hash is stored.
CREATE TABLE api_keys (
  id         TEXT    PRIMARY KEY,
  name       TEXT    NOT NULL,
  digest     BLOB    NOT NULL,
  created_ms INTEGER NOT NULL,
  tenant     TEXT    NOT NULL,
  scopes     TEXT    NOT NULL,  -- JSON
  role       TEXT    NOT NULL,  -- at a hub
  teams      TEXT    NOT NULL,  -- JSON
  folder     TEXT    NOT NULL,  -- whose local admin it is, if it is one
  expires_ms INTEGER NOT NULL,
  used_ms    INTEGER NOT NULL,
  revoked_ms INTEGER NOT NULL
) WITHOUT ROWID;

-- What agents remember of conversations. `n` counts the writes; `task` is who wrote last.
CREATE TABLE states (
  namespace INTEGER NOT NULL,
  context   TEXT    NOT NULL,
  n         INTEGER NOT NULL,
  task      INTEGER NOT NULL,
  data      BLOB    NOT NULL
);
CREATE UNIQUE INDEX states_by_context ON states (namespace, context);

-- Browsers that are logged in at the console, and links that log one in: of what they show only
-- the hash is stored.
CREATE TABLE logins (
  id         TEXT    PRIMARY KEY,
  digest     BLOB    NOT NULL,
  created_ms INTEGER NOT NULL,
  seen_ms    INTEGER NOT NULL,
  is_link    INTEGER NOT NULL,
  browser    TEXT    NOT NULL,
  caller     TEXT    NOT NULL
) WITHOUT ROWID;

-- Files, whose bytes are elsewhere, and which tasks refer to them. A file that is being deleted was used at -1.
CREATE TABLE files (
  id         TEXT    PRIMARY KEY,
  agent      TEXT    NOT NULL,
  tenant     TEXT    NOT NULL,
  caller     TEXT    NOT NULL,
  name       TEXT    NOT NULL,
  media_type TEXT    NOT NULL,
  used_ms    INTEGER NOT NULL,
  length     INTEGER NOT NULL,
  size       INTEGER NOT NULL,
  sha256     BLOB    NOT NULL
) WITHOUT ROWID;
CREATE INDEX files_by_caller ON files (agent, caller, length, size, sha256);
CREATE INDEX files_by_use ON files (used_ms);

CREATE TABLE file_uses (
  file TEXT    NOT NULL,
  task INTEGER NOT NULL,
  PRIMARY KEY (file, task)
) WITHOUT ROWID;
CREATE INDEX file_uses_by_task ON file_uses (task);
