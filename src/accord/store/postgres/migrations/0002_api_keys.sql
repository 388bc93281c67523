-- API keys: of a key itself only its hash is stored.
CREATE TABLE {schema}.api_keys (
  id text PRIMARY KEY,
  name text NOT NULL,
  digest bytea NOT NULL,
  created_ms bigint NOT NULL,
  tenant text NOT NULL,
  scopes text[] NOT NULL,
  expires_ms bigint NOT NULL,
  used_ms bigint NOT NULL,
  revoked_ms bigint NOT NULL
);
