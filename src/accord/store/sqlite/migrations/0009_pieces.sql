-- Large values are in tables with row numbers again, and found by an index. A table without row numbers is an index itself: to find
-- a place in it, SQLite reads the rows it compares, and these whole, also if the key is the least of them.
ALTER TABLE pieces RENAME TO old_pieces;
CREATE TABLE pieces (
  task INTEGER NOT NULL,
  n    INTEGER NOT NULL,
  data BLOB    NOT NULL
);
INSERT INTO pieces SELECT task, n, data FROM old_pieces ORDER BY task, n;
DROP TABLE old_pieces;
CREATE UNIQUE INDEX pieces_by_number ON pieces (task, n);

ALTER TABLE posts RENAME TO old_posts;
CREATE TABLE posts (
  task INTEGER NOT NULL,
  n    INTEGER NOT NULL,
  id   INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  body BLOB    NOT NULL
);
INSERT INTO posts SELECT task, n, id, kind, body FROM old_posts ORDER BY task, n;
DROP TABLE old_posts;
CREATE UNIQUE INDEX posts_by_number ON posts (task, n);
