// A real OpenID provider on a free port of this machine. Says its address on the first line.
//
// GET /control/rotate    signs with a new key from now on; the old one is still published
// GET /control/withdraw  only the newest key is published

import { createServer } from 'node:http';
import { generateKeyPair, exportJWK } from 'jose';
import Provider from 'oidc-provider';

let made = 0;

async function newKey() {
  const { privateKey } = await generateKeyPair('RS256', { extractable: true });
  made += 1;
  return { ...(await exportJWK(privateKey)), kid: `key-${made}`, alg: 'RS256', use: 'sig' };
}

const resource = {
  scope: 'hr.read hr.write',
  audience: 'hr',
  accessTokenFormat: 'jwt',
  jwt: { sign: { alg: 'RS256' } },
};

// Who is in which group
const groups = { ada: ['hub-admins', 'hr'], bob: ['devs'] };

const configuration = {
  clients: [
    {
      client_id: 'planner',
      client_secret: 'planner-secret-% +',
      grant_types: ['client_credentials'],
      redirect_uris: [],
      response_types: [],
    },
    {
      client_id: 'cli',
      application_type: 'native',
      token_endpoint_auth_method: 'none',
      grant_types: [
        'authorization_code',
        'refresh_token',
        'urn:ietf:params:oauth:grant-type:device_code',
      ],
      redirect_uris: ['http://127.0.0.1/callback'],
      response_types: ['code'],
    },
    {
      client_id: 'hub',
      client_secret: 'hub-secret-% +',
      application_type: 'native',
      grant_types: ['authorization_code'],
      redirect_uris: ['http://127.0.0.1/console/login/callback'],
      response_types: ['code'],
    },
    {
      client_id: 'hr-api',
      client_secret: 'hr-api-secret',
      grant_types: [],
      redirect_uris: [],
      response_types: [],
    },
  ],
  scopes: ['openid', 'offline_access', 'hr.read', 'hr.write'],
  findAccount: (ctx, id) => ({ accountId: id, claims: () => ({ sub: id, groups: groups[id] ?? [] }) }),
  claims: { openid: ['sub', 'groups'] },
  conformIdTokenClaims: false,
  features: {
    clientCredentials: { enabled: true },
    deviceFlow: { enabled: true },
    introspection: { enabled: true, allowedPolicy: () => true },
    revocation: { enabled: true, allowedPolicy: (ctx, client, token) => token.clientId === client.clientId },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => undefined,
      getResourceServerInfo: () => resource,
      useGrantedResource: () => true,
    },
  },
  ttl: { AccessToken: 600, ClientCredentials: 600, DeviceCode: 600, Grant: 3600, Interaction: 600, Session: 3600, RefreshToken: 3600, IdToken: 600 },
};

let handle;
let keys = [await newKey()];

const server = createServer(async (request, response) => {
  if (request.url === '/control/rotate' || request.url === '/control/withdraw') {
    keys = request.url === '/control/rotate' ? [await newKey(), ...keys] : keys.slice(0, 1);
    provide();
    response.end();
    return;
  }
  handle(request, response);
});

function provide() {
  const { port } = server.address();
  handle = new Provider(`http://127.0.0.1:${port}`, { ...configuration, jwks: { keys } }).callback();
}

server.listen(0, '127.0.0.1', () => {
  provide();
  process.stdout.write(`http://127.0.0.1:${server.address().port}\n`);
});
