-- What agents remember of conversations. `n` counts the writes; `task` is who wrote last. It has row numbers, since the data may be
-- large: see 0009.
CREATE TABLE states (
  namespace INTEGER NOT NULL,
  context   TEXT    NOT NULL,
  n         INTEGER NOT NULL,
  task      INTEGER NOT NULL,
  data      BLOB    NOT NULL
);
CREATE UNIQUE INDEX states_by_context ON states (namespace, context);
