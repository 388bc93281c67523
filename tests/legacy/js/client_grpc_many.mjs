// @grpc/grpc-js under load: every operation of 1.0, keepalive pings, a cancel, a large message, many calls at once.
import grpc from "@grpc/grpc-js";
import { readFileSync } from "node:fs";

const [address, file] = process.argv.slice(2);
const wanted = JSON.parse(readFileSync(file));
const bytes = (text) => Buffer.from(text, "base64");
const same = (value) => value;
const path = (name) => `/lf.a2a.v1.A2AService/${name}`;
const most = { "grpc.max_receive_message_length": -1, "grpc.max_send_message_length": -1 };
const client = new grpc.Client(address, grpc.credentials.createInsecure(), {
  ...most,
  "grpc.keepalive_time_ms": 20,
  "grpc.keepalive_timeout_ms": 5000,
  "grpc.keepalive_permit_without_calls": 1,
});

const unary = (name, request) =>
  new Promise((resolve) =>
    client.makeUnaryRequest(path(name), same, same, request, (error, answer) =>
      resolve(error ? { code: error.code, text: error.details } : { code: 0, size: answer.length }),
    ),
  );
const stream = (name, request, cancelAfter = Infinity) =>
  new Promise((resolve) => {
    const call = client.makeServerStreamRequest(path(name), same, same, request, new grpc.Metadata(), {});
    let events = 0;
    call.on("data", () => ++events >= cancelAfter && call.cancel());
    call.on("status", (status) => resolve({ code: status.code, events }));
    call.on("error", () => {});
  });

const seen = { operations: {}, many: {} };
for (const [name, request, isStream] of wanted.operations) {
  seen.operations[name] = isStream ? await stream(name, bytes(request)) : await unary(name, bytes(request));
}
seen.large = await unary("SendMessage", bytes(wanted.large));
seen.cancelled = await stream("SendStreamingMessage", bytes(wanted.endless), 2);
await new Promise((resolve) => setTimeout(resolve, 300)); // pings, while nothing is called
const all = await Promise.all(Array.from({ length: 1000 }, () => unary("SendMessage", bytes(wanted.small))));
for (const { code } of all) seen.many[code] = (seen.many[code] ?? 0) + 1;
console.log(JSON.stringify(seen));
client.close();
