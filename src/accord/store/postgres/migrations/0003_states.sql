-- What agents remember of conversations. `n` counts the writes; `task` is who wrote last.
CREATE TABLE {schema}.states (
  namespace bigint NOT NULL,
  context text NOT NULL,
  n int NOT NULL,
  task bigint NOT NULL,
  data bytea NOT NULL,
  PRIMARY KEY (namespace, context)
);
