-- Who works on tasks: one row per living process, renewed while it lives. The number only grows, and is the fencing
-- number: whoever is no longer here may not write.
CREATE TABLE owners (
  owner   INTEGER PRIMARY KEY AUTOINCREMENT,
  beat_ms INTEGER NOT NULL
);
ALTER TABLE tasks ADD COLUMN owner INTEGER NOT NULL DEFAULT 0;

-- What upkeep looks for, oldest first, whoever it belongs to: tasks whose log has not been folded into the snapshot
-- yet, tasks whose log has, and keys.
ALTER TABLE tasks ADD COLUMN folded INTEGER NOT NULL DEFAULT 0;
CREATE INDEX tasks_unfolded ON tasks (at_ms) WHERE folded = 0;
CREATE INDEX tasks_folded   ON tasks (at_ms) WHERE folded = 1;
CREATE INDEX keys_by_age    ON keys (at_ms);
