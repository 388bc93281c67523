-- Long pieces of text that a line of the log and the snapshot share. id = task key * 2^24 + the number that stands in their place.
CREATE TABLE pieces (
  id   INTEGER PRIMARY KEY,
  data BLOB NOT NULL
);
