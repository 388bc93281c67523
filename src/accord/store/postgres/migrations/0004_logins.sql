-- Browsers that are logged in at the console, and links that log one in: of what they show only the hash is stored.
CREATE TABLE {schema}.logins (
  id text PRIMARY KEY,
  digest bytea NOT NULL,
  created_ms bigint NOT NULL,
  seen_ms bigint NOT NULL,
  is_link boolean NOT NULL,
  browser text NOT NULL
);
