// An agent on the JavaScript SDK of 0.3, served over the three bindings it has. Prints its URL when it can be called.
import express from "express";
import { Server, ServerCredentials } from "@grpc/grpc-js";
import { DefaultRequestHandler, InMemoryPushNotificationStore, InMemoryTaskStore } from "a2a-0.3/server";
import { agentCardHandler, jsonRpcHandler, restHandler, UserBuilder } from "a2a-0.3/server/express";
import { A2AService, grpcService } from "a2a-0.3/server/grpc";

let n = 0;
const text = (text) => [{ kind: "text", text }];

// `ask` asks, `wait` waits to be cancelled, a number counts in chunks, everything else is echoed. Files are given back.
class Clerk {
  waiting = new Map();

  async execute({ taskId, contextId, userMessage, task }, bus) {
    const at = { taskId, contextId };
    const status = (state, final, message) =>
      bus.publish({ kind: "status-update", ...at, final, status: { state, message, timestamp: new Date().toISOString() } });
    const artifact = (artifactId, words, append) =>
      bus.publish({ kind: "artifact-update", ...at, append, lastChunk: false, artifact: { artifactId, parts: text(words) } });
    const said = userMessage.parts.map((part) => part.text).join("");
    if (!task) bus.publish({ kind: "task", id: taskId, contextId, status: { state: "submitted" }, history: [userMessage] });
    status("working", false);
    if (said === "ask") {
      status("input-required", true, { kind: "message", messageId: `js-${++n}`, role: "agent", parts: text("How many days?"), ...at });
      return bus.finished();
    }
    if (said === "wait") {
      await new Promise((resolve) => this.waiting.set(taskId, resolve));
      status("canceled", true);
      return bus.finished();
    }
    for (const part of userMessage.parts.filter((part) => part.kind === "file")) {
      const parts = [...text(Buffer.from(part.file.bytes, "base64").toString("hex")), part];
      bus.publish({ kind: "artifact-update", ...at, append: false, lastChunk: true, artifact: { artifactId: "file", parts } });
    }
    if (/^\d+$/.test(said)) for (let i = 0; i < Number(said); i++) artifact("a", `${i} `, i > 0);
    else artifact("a", `heard ${said}`, false);
    status("completed", true);
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
  const card = {
    name: "Clerk",
    description: "Counts.",
    version: "0.1.0",
    protocolVersion: "0.3.0",
    url: `${url}/rpc`,
    preferredTransport: "JSONRPC",
    additionalInterfaces: [
      { transport: "JSONRPC", url: `${url}/rpc` },
      { transport: "HTTP+JSON", url: `${url}/rest` },
      { transport: "GRPC", url: `127.0.0.1:${port}` },
    ],
    defaultInputModes: ["text/plain"],
    defaultOutputModes: ["text/plain"],
    capabilities: { streaming: true, pushNotifications: true },
    skills: [{ id: "count", name: "Count", description: "Counts.", tags: ["count"] }],
  };
  const store = new InMemoryPushNotificationStore();
  const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), new Clerk(), undefined, store);
  const options = { requestHandler, userBuilder: UserBuilder.noAuthentication };
  app.use("/.well-known/agent-card.json", agentCardHandler({ agentCardProvider: requestHandler }));
  app.use("/rpc", jsonRpcHandler(options));
  app.use("/rest", restHandler(options));
  rpc.addService(A2AService, grpcService(options));
  console.log(url);
});
