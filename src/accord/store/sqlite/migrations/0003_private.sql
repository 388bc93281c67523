-- From here on `pos` and `snap_pos` count the lines a task is the fold of: events and messages, not private entries. What
-- was counted otherwise is made anew from the whole log, which an open task has; an ended one has its last snapshot.
UPDATE tasks SET snap_pos = pos WHERE pos > snap_pos AND state IN (3, 4, 5, 7);
UPDATE tasks SET snap_pos = -1  WHERE pos > snap_pos;

-- An ended task that was begun anew after its log had gone has a log again.
UPDATE tasks SET folded = 0 WHERE folded = 1 AND state NOT IN (3, 4, 5, 7);
