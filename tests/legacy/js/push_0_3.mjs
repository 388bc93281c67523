// The JavaScript client of 0.3 registers webhooks with the agent at a URL, and prints what it got back.
import { A2AClient, ClientFactory, JsonRpcTransportFactory, RestTransportFactory } from "a2a-0.3/client";

const [url, transport, hook] = process.argv.slice(2);
const transports = [transport === "JSONRPC" ? new JsonRpcTransportFactory() : new RestTransportFactory()];
const client = await new ClientFactory({ transports, preferredTransports: [transport] }).createFromUrl(url);

const say = (text, fields = {}, configuration = {}) =>
  ({ message: { kind: "message", messageId: `js-${text}`, role: "user", parts: [{ kind: "text", text }], ...fields }, configuration });
const inline = { pushNotificationConfig: { id: "inline", url: `${hook}/inline`, token: "t-inline" } };
const task = await client.sendMessage(say("ask", {}, inline));
const made = await client.setTaskPushNotificationConfig({ taskId: task.id, pushNotificationConfig: { id: "set", url: `${hook}/set` } });
const got = await client.getTaskPushNotificationConfig({ id: task.id, pushNotificationConfigId: "set" });
const done = await client.sendMessage(say("noon", { taskId: task.id, contextId: task.contextId }));
console.log(
  JSON.stringify({
    made: made.pushNotificationConfig.url.split("/").pop(),
    got: [got.taskId === task.id, got.pushNotificationConfig.id],
    state: done.status.state,
  }),
);
