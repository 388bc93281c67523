// The JavaScript client of 1.x calls a protected agent with its own authentication handler, and prints what it saw.
import { SendMessageRequest, Task } from "a2a-1";
import {
  ClientFactory, ClientFactoryOptions, JsonRpcTransportFactory, RestTransportFactory, createAuthenticatingFetchWithRetry,
} from "a2a-1/client";

const [url, transport, header, credential] = process.argv.slice(2);
const seen = { retries: [] };
let shown = "not yet valid";
const handler = {
  headers: async () => ({ [header]: shown }),
  // Asked after every refusal: a new credential is tried once.
  shouldRetryWithHeaders: async (_request, response) => {
    seen.retries.push([response.status, response.headers.has("www-authenticate")]);
    shown = credential;
    return { [header]: shown };
  },
};
const fetchImpl = createAuthenticatingFetchWithRetry(fetch, handler);
const kinds = { JSONRPC: JsonRpcTransportFactory, "HTTP+JSON": RestTransportFactory };
const transports = [new kinds[transport]({ fetchImpl })];
const options = ClientFactoryOptions.createFrom(ClientFactoryOptions.default, { transports, preferredTransports: [transport] });
const client = await new ClientFactory(options).createFromUrl(url);
const request = SendMessageRequest.fromJSON({ message: { messageId: "js-1", role: "ROLE_USER", parts: [{ text: "hello" }] } });
const result = await client.sendMessage(request);
const task = Task.toJSON(result.payload?.value ?? result);
seen.text = task.artifacts[0].parts[0].text;
console.log(JSON.stringify(seen));
