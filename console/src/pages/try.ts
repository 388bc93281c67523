/** One call in any version over either HTTP binding; and the same as a line to type. */

import { newId } from "../api/http";
import { sessionHeaders } from "../api/session";
import type { Me } from "../api/types";

export interface Wish {
  skill: string;
  version: string;
  binding: "JSONRPC" | "HTTP+JSON";
  isStream: boolean;
  text?: string;
  json?: string;
}

interface Call {
  path: string;
  headers: Record<string, string>;
  body: string;
}

export function callOf(info: Me, wish: Wish): Call {
  const id = newId();
  const metadata = { skill: wish.skill };
  const raw = (value: unknown) =>
    JSON.stringify(value).replace('"__data__"', () => wish.json ?? "null");
  const data = "__data__";
  const headers: Record<string, string> = { "Content-Type": "application/json" };
  if (wish.isStream) headers["Accept"] = "text/event-stream";
  let message: unknown;
  let method: string;
  let path = info.rpc;
  if (!wish.version.startsWith("0.")) {
    // 1.0, and what is added to it since
    headers["A2A-Version"] = wish.version;
    const part = wish.json === undefined ? { text: wish.text } : { data, mediaType: "application/json" };
    message = { message: { messageId: id, role: "ROLE_USER", parts: [part], metadata } };
    method = wish.isStream ? "SendStreamingMessage" : "SendMessage";
    if (wish.binding === "HTTP+JSON") {
      path = `${info.rest}/message:${wish.isStream ? "stream" : "send"}`;
      return { path, headers, body: raw(message) };
    }
  } else if (wish.version === "0.1") {
    const part = wish.json === undefined ? { type: "text", text: wish.text } : { type: "data", data };
    message = { id, message: { role: "user", parts: [part], metadata } };
    method = wish.isStream ? "tasks/sendSubscribe" : "tasks/send";
  } else if (wish.binding === "HTTP+JSON") {
    headers["A2A-Version"] = wish.version;
    const part = wish.json === undefined ? { text: wish.text } : { data: { data } };
    message = {
      message: { messageId: id, role: "ROLE_USER", content: [part], metadata },
      configuration: { blocking: true }, // else 0.3 answers with a task that has just begun
    };
    path = `${info.rest}/v1/message:${wish.isStream ? "stream" : "send"}`;
    return { path, headers, body: raw(message) };
  } else {
    const part = wish.json === undefined ? { kind: "text", text: wish.text } : { kind: "data", data };
    message = { message: { kind: "message", messageId: id, role: "user", parts: [part], metadata } };
    method = wish.isStream ? "message/stream" : "message/send";
  }
  return { path, headers, body: raw({ jsonrpc: "2.0", id: 1, method, params: message }) };
}

export async function tryIt(
  info: Me,
  wish: Wish,
  onPiece: (text: string) => void,
): Promise<{ request: string }> {
  const call = callOf(info, wish);
  const named = Object.entries(call.headers).map(([name, value]) => `${name}: ${value}`);
  const request = `POST ${call.path}\n${named.join("\n")}\n\n${pretty(call.body)}`;
  const response = await fetch(call.path, {
    method: "POST",
    headers: { ...call.headers, ...sessionHeaders() },
    body: call.body,
  });
  onPiece(`HTTP ${response.status}\n\n`);
  if (!wish.isStream) onPiece(pretty(await response.text()));
  else {
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      onPiece(value);
    }
  }
  return { request };
}

function pretty(text: string): string {
  try {
    // Numbers past 2^53 would change: then the text stays as it is.
    if (/\d{16,}/.test(text)) return text;
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** The same call as a line for a shell, and as a program. */
export function copies(info: Me, wish: Wish): { accord: string; curl: string; Python: string } {
  const call = callOf(info, wish);
  const headers = Object.entries(call.headers).map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`);
  const what = wish.json === undefined ? quoted(wish.text ?? "") : `--data ${quoted(wish.json)}`;
  const content = wish.json === undefined ? JSON.stringify(wish.text) : pythonJson(wish.json);
  return {
    accord: `accord send ${info.base} ${what} --skill ${quoted(wish.skill)}${wish.isStream ? " --stream" : ""}`,
    curl: `curl -sN ${info.base}${call.path} ${headers.join(" ")} -d ${quoted(call.body)}`,
    Python: [
      "from accord import connect_sync",
      "",
      `with connect_sync(${JSON.stringify(info.base)}) as agent:`,
      `    print(agent.send(${content}, skill=${JSON.stringify(wish.skill)}).text)`,
    ].join("\n"),
  };
}

function pythonJson(json: string): string {
  return json.replace(/"(?:[^"\\]|\\.)*"|\btrue\b|\bfalse\b|\bnull\b/g, (found) =>
    found === "true" ? "True" : found === "false" ? "False" : found === "null" ? "None" : found,
  );
}
