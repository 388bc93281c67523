// The JavaScript client of 0.3 does what it can with the agent at a URL, over one transport, and prints what it saw.
import { ClientFactory, ClientFactoryOptions, JsonRpcTransportFactory, RestTransportFactory } from "a2a-0.3/client";

const [url, transport] = process.argv.slice(2);
const transports = [transport === "JSONRPC" ? new JsonRpcTransportFactory() : new RestTransportFactory()];
const factory = new ClientFactory(ClientFactoryOptions.createFrom(ClientFactoryOptions.default, { transports, preferredTransports: [transport] }));
const client = await factory.createFromUrl(url);

let n = 0;
const say = (text, fields = {}, beside = {}) => ({
  message: { kind: "message", messageId: `js-${++n}`, role: "user", parts: [{ kind: "text", text }], ...fields },
  configuration: { blocking: true },
  ...beside,
});
const refusal = async (call) => {
  try {
    await call();
    return "answered";
  } catch (error) {
    return error.constructor.name.replace(/JSONRPC|JsonRpc|^Rest/, "");
  }
};
const textOf = (task) => (task.artifacts ?? []).flatMap((a) => a.parts).map((p) => p.text).join("");

const seen = {};
const sent = await client.sendMessage(say("hello"));
seen.send = [sent.kind, sent.status.state, textOf(sent)];

const kinds = [];
for await (const event of client.sendMessageStream(say("hello"))) kinds.push(event.kind + (event.final ? " final" : ""));
seen.stream = kinds;

const got = await client.getTask({ id: sent.id });
seen.get = [got.id === sent.id, got.status.state, textOf(got), got.history[0].parts[0].text];

const asked = await client.sendMessage(say("ask"));
const answered = await client.sendMessage(say("noon", { taskId: asked.id, contextId: asked.contextId }));
seen.ask = [asked.status.state, answered.status.state, textOf(answered)];

const waiting = await client.sendMessage(say("wait", {}, { configuration: { blocking: false } }));
const events = client.resubscribeTask({ id: waiting.id });
const first = (await events.next()).value;
const canceled = await client.cancelTask({ id: waiting.id });
let last = first;
for await (const event of events) last = event;
seen.resubscribe = [first.kind, last.kind, last.status.state];
seen.cancel = canceled.status.state;
seen.cancelTwice = await refusal(() => client.cancelTask({ id: waiting.id }));
seen.unknown = await refusal(() => client.getTask({ id: "nobody" }));
seen.push = await refusal(() =>
  client.setTaskPushNotificationConfig({ taskId: sent.id, pushNotificationConfig: { id: "c", url: "https://example.net/hook" } }));

const file = { kind: "file", file: { name: "a.bin", mimeType: "application/octet-stream", bytes: "aGVsbG8=" } };
const back = await client.sendMessage(say("size", { parts: [{ kind: "text", text: "size" }, file] }));
seen.file = textOf(back);

console.log(JSON.stringify(seen));
