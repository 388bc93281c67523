// The JavaScript client of 1.x, likewise. With "compat" it is told that the agent may be an old one.
import { SendMessageRequest, StreamResponse, Task } from "a2a-1";
import { ClientFactory, ClientFactoryOptions, DefaultAgentCardResolver, JsonRpcTransportFactory, RestTransportFactory } from "a2a-1/client";

const [url, transport, compat] = process.argv.slice(2);
const options = { legacyCompat: { enabled: compat === "compat" } };
const transports = [transport === "JSONRPC" ? new JsonRpcTransportFactory(options) : new RestTransportFactory(options)];
const cardResolver = new DefaultAgentCardResolver(options);
const factory = new ClientFactory(
  ClientFactoryOptions.createFrom(ClientFactoryOptions.default, { transports, preferredTransports: [transport], cardResolver }));
const client = await factory.createFromUrl(url);

let n = 0;
const say = (text, fields = {}, configuration = {}) =>
  SendMessageRequest.fromJSON({ message: { messageId: `js-${++n}`, role: "ROLE_USER", parts: [{ text }], ...fields }, configuration });
const taskOf = (result) => Task.toJSON(result.payload?.value ?? result);
const refusal = async (call) => {
  try {
    await call();
    return "answered";
  } catch (error) {
    return error.constructor.name.replace(/JSONRPC|JsonRpc|^Rest/, "");
  }
};
const textOf = (task) => (task.artifacts ?? []).flatMap((a) => a.parts).map((p) => p.text).join("");
const kindOf = (event) => Object.keys(StreamResponse.toJSON(event))[0];

const seen = { version: client.protocolVersion };
const sent = taskOf(await client.sendMessage(say("hello")));
seen.send = [sent.status.state, textOf(sent)];

const kinds = [];
for await (const event of client.sendMessageStream(say("hello"))) kinds.push(kindOf(event));
seen.stream = kinds;

const got = Task.toJSON(await client.getTask({ id: sent.id, tenant: "" }));
seen.get = [got.id === sent.id, got.status.state, textOf(got), got.history[0].parts[0].text];

const asked = taskOf(await client.sendMessage(say("ask")));
const answered = taskOf(await client.sendMessage(say("noon", { taskId: asked.id, contextId: asked.contextId })));
seen.ask = [asked.status.state, answered.status.state, textOf(answered)];

const waiting = taskOf(await client.sendMessage(say("wait", {}, { returnImmediately: true })));
const events = client.resubscribeTask({ id: waiting.id, tenant: "" });
const first = (await events.next()).value;
const canceled = Task.toJSON(await client.cancelTask({ id: waiting.id, tenant: "" }));
let last = first;
for await (const event of events) last = event;
seen.resubscribe = [kindOf(first), kindOf(last), StreamResponse.toJSON(last).statusUpdate?.status.state];
seen.cancel = canceled.status.state;
seen.unknown = await refusal(() => client.getTask({ id: "nobody", tenant: "" }));

console.log(JSON.stringify(seen));
