// An agent on the JavaScript SDK of 1.x, served over both versions and the three bindings it has. Prints its URL when it can be called.
import express from "express";
import { Server, ServerCredentials } from "@grpc/grpc-js";
import { AgentCard, Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent } from "a2a-1";
import { AgentEvent, DefaultRequestHandler, InMemoryPushNotificationStore, InMemoryTaskStore } from "a2a-1/server";
import { agentCardHandler, jsonRpcHandler, restHandler, UserBuilder } from "a2a-1/server/express";
import { A2AService, grpcService } from "a2a-1/server/grpc";
import { LegacyA2AService, legacyGrpcService } from "a2a-1/compat/v0_3/server/grpc";

let n = 0;

// `ask` asks, `wait` waits to be cancelled, a number counts in chunks, everything else is echoed.
class Clerk {
  waiting = new Map();

  async execute({ taskId, contextId, userMessage, task }, bus) {
    const at = { taskId, contextId };
    const status = (state, message) => {
      const status = { state: `TASK_STATE_${state}`, message, timestamp: new Date().toISOString() };
      bus.publish(AgentEvent.statusUpdate(TaskStatusUpdateEvent.fromJSON({ ...at, status })));
    };
    const artifact = (artifactId, text, append) =>
      bus.publish(AgentEvent.artifactUpdate(TaskArtifactUpdateEvent.fromJSON({ ...at, append, artifact: { artifactId, parts: [{ text }] } })));
    const said = userMessage.parts.map((part) => part.content.value).join("");
    const made = Task.fromJSON({ id: taskId, contextId, status: { state: "TASK_STATE_SUBMITTED" } });
    bus.publish(AgentEvent.task(task ?? { ...made, history: [userMessage] })); // a stream must begin with the task, each turn
    status("WORKING");
    if (said === "ask") {
      status("INPUT_REQUIRED", { messageId: `js-${++n}`, role: "ROLE_AGENT", parts: [{ text: "How many days?" }], ...at });
      return bus.finished();
    }
    if (said === "wait") {
      await new Promise((resolve) => this.waiting.set(taskId, resolve));
      status("CANCELED");
      return bus.finished();
    }
    if (/^\d+$/.test(said)) for (let i = 0; i < Number(said); i++) artifact("a", `${i} `, i > 0);
    else artifact("a", `heard ${said}`, false);
    status("COMPLETED");
    bus.finished();
  }

  async cancelTask(taskId) {
    this.waiting.get(taskId)();
  }
}

const app = express();
const listener = app.listen(0, "127.0.0.1", async () => {
  const url = `http://127.0.0.1:${listener.address().port}`;
  const rpc = new Server();
  const port = await new Promise((resolve, reject) =>
    rpc.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, port) => (error ? reject(error) : resolve(port))));
  const places = { JSONRPC: `${url}/rpc`, "HTTP+JSON": `${url}/rest`, GRPC: `127.0.0.1:${port}` };
  const card = AgentCard.fromJSON({
    name: "Clerk",
    description: "Counts.",
    version: "0.1.0",
    supportedInterfaces: ["1.0", "0.3"].flatMap((protocolVersion) =>
      Object.entries(places).map(([protocolBinding, url]) => ({ url, protocolBinding, protocolVersion }))),
    defaultInputModes: ["text/plain"],
    defaultOutputModes: ["text/plain"],
    capabilities: { streaming: true, pushNotifications: true },
    skills: [{ id: "count", name: "Count", description: "Counts.", tags: ["count"] }],
  });
  const store = new InMemoryPushNotificationStore();
  const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), new Clerk(), undefined, store);
  const options = { requestHandler, userBuilder: UserBuilder.noAuthentication, legacyCompat: { enabled: true } };
  app.use("/.well-known/agent-card.json", agentCardHandler({ agentCardProvider: requestHandler, legacyCompat: { enabled: true } }));
  app.use("/rpc", jsonRpcHandler(options));
  app.use("/rest", restHandler(options));
  rpc.addService(A2AService, grpcService(options));
  rpc.addService(LegacyA2AService, legacyGrpcService(options));
  console.log(url);
});
