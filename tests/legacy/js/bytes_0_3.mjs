// The JavaScript client of 0.3 sends files to the agent at a URL, over one transport, and prints what came back of each, in every way.
import { ClientFactory, ClientFactoryOptions, JsonRpcTransportFactory, RestTransportFactory } from "a2a-0.3/client";
import { GrpcTransportFactory } from "a2a-0.3/client/grpc";

const [url, transport, ...contents] = process.argv.slice(2);
const kinds = { JSONRPC: JsonRpcTransportFactory, "HTTP+JSON": RestTransportFactory, GRPC: GrpcTransportFactory };
const options = { transports: [new kinds[transport]()], preferredTransports: [transport] };
const client = await new ClientFactory(ClientFactoryOptions.createFrom(ClientFactoryOptions.default, options)).createFromUrl(url);
const told = (parts) => parts.map((part) => (part.kind === "file" ? Buffer.from(part.file.bytes, "base64").toString("hex") : part.text));

const seen = [];
for (const content of contents) {
  const file = { mimeType: "application/octet-stream", bytes: Buffer.from(content, "hex").toString("base64") };
  const message = { kind: "message", messageId: `js-${seen.length}`, role: "user", parts: [{ kind: "file", file }] };
  const task = await client.sendMessage({ message, configuration: { blocking: true } });
  const got = await client.getTask({ id: task.id });
  const streamed = [];
  for await (const event of client.sendMessageStream({ message })) if (event.kind === "artifact-update") streamed.push(...event.artifact.parts);
  seen.push([content, told(task.artifacts[0].parts), told(got.artifacts[0].parts), told(streamed), told(got.history[0].parts)]);
}
console.log(JSON.stringify(seen));
process.exit(0);
