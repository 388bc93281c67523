-- Private lines that were committed alone: a quiet run would else write its row of the log anew with every step. `n` only
-- grows: the number of the process, then its own counting. `row` is the number of the log they follow.
CREATE TABLE notes (
  key  INTEGER NOT NULL,
  n    INTEGER NOT NULL,
  row  INTEGER NOT NULL,
  data BLOB    NOT NULL,
  PRIMARY KEY (key, n)
) WITHOUT ROWID;

-- Nothing looks for running tasks by their age, and only a start looks for running tasks at all.
DROP INDEX tasks_running;
DROP INDEX tasks_unfolded;
CREATE INDEX tasks_unfolded ON tasks (at_ms) WHERE folded = 0 AND state NOT IN (1, 2);
