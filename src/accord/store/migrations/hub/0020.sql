-- The hub's tables. Both databases read this file.
CREATE TABLE changes (n INTEGER NOT NULL);
INSERT INTO changes (n) VALUES (1);

CREATE TABLE agents (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  state TEXT NOT NULL,
  visibility TEXT NOT NULL,
  team TEXT NOT NULL,
  owner TEXT NOT NULL,
  card_url TEXT NOT NULL,
  approved INTEGER NOT NULL,
  latest INTEGER NOT NULL,
  settings TEXT NOT NULL,
  health TEXT NOT NULL,
  score INTEGER,
  beat_ms INTEGER NOT NULL,
  created_ms INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  changed INTEGER NOT NULL
);
CREATE INDEX agents_url ON agents (card_url);
CREATE INDEX agents_changed ON agents (changed);

CREATE TABLE cards (
  agent TEXT NOT NULL,
  n INTEGER NOT NULL,
  raw BLOB NOT NULL,
  sha256 TEXT NOT NULL,
  card TEXT NOT NULL,
  notes TEXT NOT NULL,
  signature TEXT NOT NULL,
  differences TEXT NOT NULL,
  decision TEXT NOT NULL,
  first_ms INTEGER NOT NULL,
  last_ms INTEGER NOT NULL,
  PRIMARY KEY (agent, n)
);

CREATE TABLE members (
  agent TEXT NOT NULL,
  card_url TEXT NOT NULL,
  added_ms INTEGER NOT NULL,
  card TEXT NOT NULL,  -- members are pinned as entries are
  PRIMARY KEY (agent, card_url)
);

-- Agents that do not answer, as one hub found out and the others believe.
CREATE TABLE breakers (
  agent TEXT NOT NULL,
  member TEXT NOT NULL,
  until_ms INTEGER NOT NULL,
  PRIMARY KEY (agent, member)
);

CREATE TABLE users (
  name TEXT PRIMARY KEY,
  role TEXT NOT NULL,
  teams TEXT NOT NULL
);
CREATE TABLE teams (
  name TEXT PRIMARY KEY,
  description TEXT NOT NULL
);
CREATE TABLE policies (
  id TEXT PRIMARY KEY,
  rule TEXT NOT NULL,
  created_ms INTEGER NOT NULL
);
CREATE TABLE credentials (
  agent TEXT NOT NULL,
  scheme TEXT NOT NULL,
  owner TEXT NOT NULL,
  kind TEXT NOT NULL,
  sealed BLOB NOT NULL,
  created_ms INTEGER NOT NULL,
  PRIMARY KEY (agent, scheme, owner)
);
CREATE TABLE trusted_keys (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  jwks TEXT NOT NULL,
  url TEXT NOT NULL,
  expires_ms INTEGER NOT NULL,
  created_ms INTEGER NOT NULL
);
CREATE TABLE networks (
  what TEXT PRIMARY KEY,
  why TEXT NOT NULL,
  created_ms INTEGER NOT NULL
);
CREATE TABLE alerts (
  id TEXT PRIMARY KEY,
  at_ms INTEGER NOT NULL,
  kind TEXT NOT NULL,
  agent TEXT NOT NULL,
  said TEXT NOT NULL,
  detail TEXT NOT NULL,
  done_ms INTEGER NOT NULL
);
CREATE TABLE audit (
  n INTEGER PRIMARY KEY,
  at_ms INTEGER NOT NULL,
  who TEXT NOT NULL,
  did TEXT NOT NULL,
  what TEXT NOT NULL,
  detail TEXT NOT NULL,
  hash TEXT NOT NULL
);
CREATE TABLE audit_head (
  signed TEXT NOT NULL  -- the number and hash of the last row, signed by the hub's keys
);
INSERT INTO audit_head (signed) VALUES ('');

CREATE TABLE rounds (
  agent TEXT NOT NULL,
  round TEXT NOT NULL,
  due_ms INTEGER NOT NULL,
  version INTEGER NOT NULL,
  PRIMARY KEY (agent, round)
);
CREATE INDEX rounds_due ON rounds (due_ms);

CREATE TABLE probes (
  agent TEXT NOT NULL,
  at_ms INTEGER NOT NULL,
  ok INTEGER NOT NULL,
  category TEXT NOT NULL,
  ms INTEGER NOT NULL
);
CREATE INDEX probes_agent ON probes (agent, at_ms);

CREATE TABLE hours (
  agent TEXT NOT NULL,
  hour_ms INTEGER NOT NULL,
  ok INTEGER NOT NULL,
  total INTEGER NOT NULL,
  slowest_ms INTEGER NOT NULL,
  PRIMARY KEY (agent, hour_ms)
);

CREATE TABLE checks (
  agent TEXT PRIMARY KEY,
  at_ms INTEGER NOT NULL,
  report TEXT NOT NULL
);

CREATE TABLE relays (
  task TEXT PRIMARY KEY,
  trace TEXT NOT NULL,
  parent TEXT NOT NULL,
  name TEXT NOT NULL,
  skill TEXT NOT NULL,
  agent TEXT NOT NULL,
  tenant TEXT NOT NULL,
  caller TEXT NOT NULL,
  at_ms INTEGER NOT NULL
);
CREATE INDEX relays_trace ON relays (trace);
CREATE INDEX relays_at ON relays (at_ms);
