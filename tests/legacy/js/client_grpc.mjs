// @grpc/grpc-js alone, without the SDK: bytes in, bytes out. Prints what it saw.
import grpc from "@grpc/grpc-js";

const [address, send, get, wait] = process.argv.slice(2);
const bytes = (text) => Buffer.from(text, "base64");
const same = (value) => value;
const path = (name) => `/lf.a2a.v1.A2AService/${name}`;
const plain = grpc.credentials.createInsecure();
const client = new grpc.Client(address, plain);
const packing = new grpc.Client(address, plain, { "grpc.default_compression_algorithm": 2 });

const unary = (client, name, request, options = {}) =>
  new Promise((resolve) => {
    client.makeUnaryRequest(path(name), same, same, bytes(request), new grpc.Metadata(), options, (error, answer) => {
      if (!error) return resolve({ answer: answer.toString("base64") });
      const [details] = error.metadata.get("grpc-status-details-bin");
      resolve({ code: error.code, text: error.details, details: details?.toString("base64") });
    });
  });
const stream = (name, request) =>
  new Promise((resolve) => {
    const call = client.makeServerStreamRequest(path(name), same, same, bytes(request), new grpc.Metadata(), {});
    const seen = { events: [] };
    call.on("metadata", (metadata) => (seen.seq = metadata.get("accord-seq")[0]));
    call.on("data", (event) => seen.events.push(event.toString("base64")));
    call.on("status", (status) => resolve({ ...seen, code: status.code }));
    call.on("error", () => {});
  });

console.log(
  JSON.stringify({
    send: await unary(client, "SendMessage", send),
    packed: await unary(packing, "SendMessage", send),
    stream: await stream("SendStreamingMessage", send),
    unknown: await unary(client, "GetTask", get),
    late: await unary(client, "SendMessage", wait, { deadline: Date.now() + 300 }),
  }),
);
client.close();
packing.close();
