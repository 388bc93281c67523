// The JavaScript client of 1.x registers webhooks with the agent at a URL, and prints what it got back.
import { SendMessageRequest, Task } from "a2a-1";
import { ClientFactory, ClientFactoryOptions, DefaultAgentCardResolver, JsonRpcTransportFactory, RestTransportFactory } from "a2a-1/client";

const [url, transport, hook] = process.argv.slice(2);
const options = { legacyCompat: { enabled: false } };
const transports = [transport === "JSONRPC" ? new JsonRpcTransportFactory(options) : new RestTransportFactory(options)];
const cardResolver = new DefaultAgentCardResolver(options);
const factory = new ClientFactory(
  ClientFactoryOptions.createFrom(ClientFactoryOptions.default, { transports, preferredTransports: [transport], cardResolver }));
const client = await factory.createFromUrl(url);

const say = (text, fields = {}, configuration = {}) =>
  SendMessageRequest.fromJSON({ message: { messageId: `js-${text}`, role: "ROLE_USER", parts: [{ text }], ...fields }, configuration });
const taskOf = (result) => Task.toJSON(result.payload?.value ?? result);
const inline = { taskPushNotificationConfig: { id: "inline", url: `${hook}/inline`, token: "t-inline" } };
const task = taskOf(await client.sendMessage(say("ask", {}, inline)));
const config = { tenant: "", id: "set", taskId: task.id, url: `${hook}/set`, token: "", authentication: undefined };
const made = await client.createTaskPushNotificationConfig(config);
const got = await client.getTaskPushNotificationConfig({ taskId: task.id, id: "set", tenant: "" });
const done = taskOf(await client.sendMessage(say("noon", { taskId: task.id, contextId: task.contextId })));
console.log(
  JSON.stringify({
    made: made.url.split("/").pop(),
    got: [got.taskId === task.id, got.id],
    state: done.status.state,
  }),
);
