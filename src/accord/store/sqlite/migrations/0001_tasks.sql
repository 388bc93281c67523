-- Whose tasks. Small numbers stand for (tenant, owner) everywhere else.
CREATE TABLE scopes (
  scope  INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  owner  TEXT NOT NULL,
  UNIQUE (tenant, owner)
);

-- A task: where it stands, and its snapshot in two pieces.
CREATE TABLE tasks (
  key       INTEGER PRIMARY KEY,
  scope     INTEGER NOT NULL,
  id        TEXT    NOT NULL,
  context   TEXT    NOT NULL,
  state     INTEGER NOT NULL,
  at_ms     INTEGER NOT NULL,
  seq       INTEGER NOT NULL,
  pos       INTEGER NOT NULL,
  snap_pos  INTEGER NOT NULL,
  about     BLOB    NOT NULL,
  head      BLOB    NOT NULL,
  artifacts BLOB    NOT NULL
);
CREATE UNIQUE INDEX tasks_by_id      ON tasks (scope, id);
CREATE INDEX        tasks_by_time    ON tasks (scope, at_ms);
CREATE INDEX        tasks_by_state   ON tasks (scope, state, at_ms);
CREATE INDEX        tasks_by_context ON tasks (scope, context, at_ms);
CREATE INDEX        tasks_running    ON tasks (key) WHERE state IN (1, 2);

-- The log: one row per task and commit. id = task key * 2^24 + row number, so a task's rows lie together.
CREATE TABLE events (
  id   INTEGER PRIMARY KEY,
  data BLOB NOT NULL
);

-- Totals of lists, kept in the same commit as the tasks they count.
CREATE TABLE counts (
  scope INTEGER NOT NULL,
  state INTEGER NOT NULL,
  n     INTEGER NOT NULL,
  PRIMARY KEY (scope, state)
) WITHOUT ROWID;

-- Idempotency keys and what they stand for.
CREATE TABLE keys (
  scope  INTEGER NOT NULL,
  key    TEXT    NOT NULL,
  digest BLOB    NOT NULL,
  at_ms  INTEGER NOT NULL,
  task   TEXT    NOT NULL,
  reply  BLOB    NOT NULL,
  PRIMARY KEY (scope, key)
) WITHOUT ROWID;
