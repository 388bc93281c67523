-- What was open at a full minute, by process: for the charts of the console.
CREATE TABLE samples (
  agent   TEXT    NOT NULL,
  at_ms   INTEGER NOT NULL,
  replica INTEGER NOT NULL,
  streams INTEGER NOT NULL,
  waiting INTEGER NOT NULL,
  PRIMARY KEY (agent, at_ms, replica)
);
