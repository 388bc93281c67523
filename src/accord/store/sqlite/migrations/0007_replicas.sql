-- From here on a log has entries of another kind, a namespace has the name of its agent, and a task has an owner only while a
-- process runs it. Ended tasks are what their snapshot says; what had not ended is failed by `failed.py`, in the same transaction.
ALTER TABLE tasks  RENAME TO old_tasks;
ALTER TABLE events RENAME TO old_events;
ALTER TABLE keys   RENAME TO old_keys;
ALTER TABLE pieces RENAME TO old_pieces;
DROP INDEX tasks_by_id;
DROP INDEX tasks_by_time;
DROP INDEX tasks_by_state;
DROP INDEX tasks_by_context;
DROP INDEX tasks_unfolded;
DROP INDEX tasks_folded;
DROP INDEX keys_by_age;
DROP TABLE notes;
DROP TABLE counts;

-- Whose tasks. Small numbers stand for (agent, tenant, caller) everywhere else.
CREATE TABLE namespaces (
  namespace INTEGER PRIMARY KEY,
  agent     TEXT NOT NULL,
  tenant    TEXT NOT NULL,
  caller    TEXT NOT NULL,
  UNIQUE (agent, tenant, caller)
);
INSERT INTO namespaces SELECT scope, '', tenant, owner FROM scopes;
DROP TABLE scopes;

-- Who runs tasks: a row per process. The number only grows. One that has died may not write; its row stays while a task names it.
CREATE TABLE replicas (
  replica  INTEGER PRIMARY KEY AUTOINCREMENT,
  heard_ms INTEGER NOT NULL,
  is_dead  INTEGER NOT NULL DEFAULT 0
);
INSERT INTO replicas SELECT seq, 0, 1 FROM sqlite_sequence WHERE name = 'owners';
DROP TABLE owners;

-- A task: where it stands, and its snapshot in two pieces, at the end of the row: what comes before is read without them.
CREATE TABLE tasks (
  key          INTEGER PRIMARY KEY,
  namespace    INTEGER NOT NULL,
  state        INTEGER NOT NULL,
  at_ms        INTEGER NOT NULL,
  pos          INTEGER NOT NULL,
  seq          INTEGER NOT NULL,
  snap         INTEGER NOT NULL,
  owner        INTEGER,
  posts        INTEGER NOT NULL,
  heard        INTEGER NOT NULL,
  committed_ms INTEGER NOT NULL,
  format       INTEGER NOT NULL,
  folded       INTEGER NOT NULL DEFAULT 0,  -- its log has been deleted
  id           TEXT    NOT NULL,
  context      TEXT    NOT NULL,
  skill        TEXT    NOT NULL,
  about        BLOB    NOT NULL,
  head         BLOB    NOT NULL,
  artifacts    BLOB    NOT NULL
);
INSERT INTO tasks
SELECT key, scope, state, at_ms, pos, seq, pos, NULL, 0, 0, at_ms, 1, 1, id, context, accord_skill(about), accord_about(about), head,
       artifacts
FROM old_tasks WHERE state IN (3, 4, 5, 7) ORDER BY key;

-- Every index ends with the key, as all of SQLite's do. Each one that a commit touches is a page more to be written, so there are
-- few: a list of all states is merged from one per state, and submitted and working tasks, which are few and soon stand elsewhere,
-- are in none that they need not be in. The last one serves the operator's list, and what looks for age.
CREATE UNIQUE INDEX tasks_by_id      ON tasks (namespace, id);
CREATE INDEX        tasks_by_state   ON tasks (namespace, state, at_ms);
CREATE INDEX        tasks_by_context ON tasks (namespace, context, at_ms) WHERE state NOT IN (1, 2);
CREATE INDEX        tasks_by_age     ON tasks (folded, state, at_ms)      WHERE state NOT IN (1, 2);

-- The log: one row per task and commit, by the position of its first entry. Rows are added at the end of the table and found by an
-- index: in a table ordered by task they would be moved from page to page as it grows.
CREATE TABLE events (
  task  INTEGER NOT NULL,
  pos   INTEGER NOT NULL,
  seq   INTEGER NOT NULL,
  at_ms INTEGER NOT NULL,
  data  BLOB    NOT NULL
);
CREATE UNIQUE INDEX events_by_pos ON events (task, pos);

-- What an owner has not read yet.
CREATE TABLE posts (
  task INTEGER NOT NULL,
  n    INTEGER NOT NULL,
  id   INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  body BLOB    NOT NULL,
  PRIMARY KEY (task, n)
) WITHOUT ROWID;

-- Long pieces of text that a row of the log and the snapshot share, by the number that stands in their place.
CREATE TABLE pieces (
  task INTEGER NOT NULL,
  n    INTEGER NOT NULL,
  data BLOB    NOT NULL,
  PRIMARY KEY (task, n)
) WITHOUT ROWID;
INSERT INTO pieces SELECT id >> 24, id & 16777215, data FROM old_pieces ORDER BY id;
DROP TABLE old_pieces;

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
INSERT INTO keys SELECT scope, key, at_ms, task <> '', 0, digest, task, reply FROM old_keys;
DROP TABLE old_keys;
CREATE INDEX keys_by_age ON keys (at_ms);

-- Totals of lists, kept in the same commit as the tasks they count.
CREATE TABLE counts (
  namespace INTEGER NOT NULL,
  state     INTEGER NOT NULL,
  n         INTEGER NOT NULL,
  PRIMARY KEY (namespace, state)
) WITHOUT ROWID;
