/** Requests to our own server, with what proves that they come from this page. */

import type { Attempt, Entry, Exchange, Json, Letter, Me, Message, Push, StreamEvent, Summary, Task } from "./types";
import { sessionHeaders } from "./session";
import { SseReader } from "./sse";

export class Failure extends Error {
  constructor(
    readonly status: number,
    readonly reason: string,
    message: string,
    readonly login = "", // where people log in, if that is what is missing
  ) {
    super(message);
  }
}

async function read<T>(path: string, init: RequestInit = {}): Promise<T> {
  const response = await fetch(`/console/api/${path}`, { ...init, headers: sessionHeaders() });
  const body = await response.json();
  if (!response.ok) throw new Failure(response.status, body.reason ?? "", body.error ?? "", body.login ?? "");
  return body as T;
}

let version = ""; // that the page speaks: the server says which

export async function me(agent: string): Promise<Me> {
  const found = await read<Me>(`me?${new URLSearchParams({ agent })}`);
  version = found.speaks;
  return found;
}

/** A request that is sent as soon as id, skill and content stand in their places. */
export interface CallForm {
  path: string;
  headers: Record<string, string>;
  body: { text: string; data: string };
}

/** How a message is sent, by version and binding. */
export type Calls = { [version: string]: { [binding: string]: { send: CallForm; stream: CallForm } } };

export const calls = (agent: string) => read<Calls>(`calls?${new URLSearchParams({ agent })}`);

/** What waits for somebody, and what failed or was rejected in the last 24 hours. */
export const counts = () => read<{ waiting: number; failed: number }>("counts");

export interface Bucket {
  at: number;
  ended: number;
  failed: number;
  p50: number | null; // milliseconds
  p95: number | null;
  streams: number; // the most that were open at a full minute
  waiting: number;
}

export interface Cause {
  cause: string;
  count: number;
  newest: Summary;
  agents: string[]; // where it happened
}

export interface Activity {
  since: number;
  bucket: number; // milliseconds
  buckets: Bucket[];
  ended: number;
  failed: number;
  p50: number | null; // milliseconds from the first message to the end
  p95: number | null;
  running: number;
  waiting: number;
  streams: number; // of all processes
  isWhole: boolean; // else tasks are deleted sooner than the time that is asked for
  causes: Cause[];
  slowest: Summary[];
  oldest: Summary[]; // questions that wait
}

export const activity = (window: string) => read<Activity>(`now?window=${window}`);

interface Used {
  calls: number;
  callers: number;
}

/** What an agent was used for in the last week. */
export interface Usage extends Used {
  isAll: boolean; // else only of the newest tasks
  skills: { [skill: string]: Used };
}

export const usage = (agent: string) => read<Usage>(`usage?${new URLSearchParams({ agent })}`);

export interface TaskPage {
  tasks: Summary[];
  next: string;
  total: number;
  isExact: boolean;
  looked?: { count: number; back: number; isAll: boolean }; // of a search: at how many, back to when
}

export function tasks(query: Record<string, string>): Promise<TaskPage> {
  const given = Object.entries(query).filter(([, value]) => value);
  return read<TaskPage>(`tasks?${new URLSearchParams(given)}`);
}

export type Address = { id: string; tenant: string; caller: string; agent?: string };

function place({ id, tenant, caller, agent = "" }: Address, rest: string, more: Record<string, string> = {}) {
  const given = Object.entries({ tenant, caller, agent, ...more }).filter(([, value]) => value);
  return `tasks/${encodeURIComponent(id)}${rest}?${new URLSearchParams(given)}`;
}

export const task = (at: Address) => read<Summary & { task: Task }>(place(at, ""));

export const events = (at: Address, after: number) =>
  read<{ state: string; last: number; isPurged: boolean; events: Entry[] }>(
    place(at, "/events", { after: String(after) }),
  );

/** A new task that goes on behind an event of this one, by its number. */
export const fork = (at: Address, seq: number, answer: string | null) =>
  read<{ id: string }>(place(at, "/fork"), { method: "POST", body: JSON.stringify({ at: seq, answer }) });

/** One event as clients are sent it over a binding, and which members of it they do not get. */
export const wire = (at: Address, seq: number, binding: string) =>
  read<{ [version: string]: { frames: Json[]; lost: string[] } }>(place(at, `/events/${seq}/wire`, { binding }));

/** Which members of each event a client of some version does not get. */
export interface Lens {
  events: number; // that were looked at
  isAll: boolean;
  lost: { [seq: string]: string[] };
}

export const lens = (at: Address, version: string, binding: string) => read<Lens>(place(at, "/lens", { version, binding }));

/** Where a frame finds a part to show. It can't send our header: the address has a ticket in it, good for a minute. */
export async function previewAddress(at: Address, artifact: string, n: number): Promise<string> {
  const of = place(at, `/artifacts/${encodeURIComponent(artifact)}/${n}`, { preview: "1" });
  const { ticket } = await read<{ ticket: string }>(`ticket?${new URLSearchParams({ of })}`, { method: "POST" });
  return `/console/api/${of}&ticket=${ticket}`;
}

export interface Pushes {
  pushes: Push[];
  letters: Letter[];
}

export const pushesOf = (at: Address) => read<Pushes>(place(at, "/pushes"));
export const pushes = (isTroubled: boolean) => read<Pushes>(`pushes${isTroubled ? "?troubled=1" : ""}`);
/** The attempts at a webhook that this process remembers. */
export const attemptsOf = (at: Address, push: string) =>
  read<{ isKept: boolean; attempts: Attempt[] }>(place(at, `/pushes/${encodeURIComponent(push)}`));
export const attempt = (n: number) => read<Attempt>(`attempts/${n}`);
/** Send the newest event of a webhook once more. */
export const testPush = (at: Address, push: string) =>
  read<{ verdict: string; error: string }>(place(at, `/pushes/${encodeURIComponent(push)}/test`), { method: "POST" });
export const replay = (n: number) => read<{ replayed: number }>(`letters/${n}/replay`, { method: "POST" });

export const exchanges = () => read<{ exchanges: Exchange[] }>("exchanges?after=0");
export const exchange = (n: number) => read<Exchange>(`exchanges/${n}`);

export interface Login {
  id: string;
  agent: string;
  since: number;
  seen: number;
  own: boolean;
}

export const logins = () => read<{ logins: Login[] }>("logins");
export const closeLogin = (id: string) =>
  read<{ closed: boolean }>(`logins/${encodeURIComponent(id)}/close`, { method: "POST" });
export const newLink = () => read<{ key: string }>("link", { method: "POST" });

/** Read a stream of events until it ends or is aborted. */
export async function stream(
  response: Response,
  onEvent: (data: string, id: string, event: string) => void,
): Promise<void> {
  const reader = response.body!.getReader();
  const parser = new SseReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    for (const event of parser.push(value)) onEvent(event.data, event.id, event.event);
  }
}

// A2A itself: JSON-RPC, as any client's

let count = 0;
const EXTENSIONS = "urn:accord:resume:1, urn:accord:idempotent:1";

/** Stands for a JSON value that is sent digit by digit as it was typed. */
export const RAW = "__accord_raw_json__";

/** Put JSON text in the place that `RAW` keeps for it. */
export const withRaw = (body: string, json: string): string => body.replace(JSON.stringify(RAW), () => json);

function envelope(method: string, params: unknown, json?: string): string {
  const body = JSON.stringify({ jsonrpc: "2.0", id: ++count, method, params });
  return json === undefined ? body : withRaw(body, json);
}

function a2aHeaders(more: Record<string, string> = {}): Record<string, string> {
  return {
    "Content-Type": "application/json",
    "A2A-Version": version,
    "A2A-Extensions": EXTENSIONS,
    ...sessionHeaders(),
    ...more,
  };
}

export async function call<T>(rpc: string, method: string, params: unknown, json?: string): Promise<T> {
  const response = await fetch(rpc, {
    method: "POST",
    headers: a2aHeaders(),
    body: envelope(method, params, json),
  });
  const body = await response.json();
  if (body.error) throw errorOf(response.status, body.error);
  return body.result as T;
}

function errorOf(status: number, error: { message: string; data?: { reason?: string }[] }): Failure {
  const reason = (error.data ?? []).find((detail) => detail.reason)?.reason ?? "";
  return new Failure(status, reason, error.message);
}

/** Open a stream: a message that is sent, or a task that is followed after an event. */
export async function openStream(
  rpc: string,
  method: "SendStreamingMessage" | "SubscribeToTask",
  params: unknown,
  after: string,
  signal: AbortSignal,
  onEvent: (event: StreamEvent, id: string) => void,
  json?: string,
): Promise<void> {
  const headers = a2aHeaders({
    Accept: "text/event-stream",
    ...(after ? { "Last-Event-ID": after } : {}),
  });
  const body = envelope(method, params, json);
  const response = await fetch(rpc, { method: "POST", headers, body, signal });
  if (!(response.headers.get("content-type") ?? "").startsWith("text/event-stream")) {
    const answer = await response.json();
    throw errorOf(response.status, answer.error ?? { message: `HTTP ${response.status}` });
  }
  await stream(response, (data, id) => {
    const answer = JSON.parse(data);
    if (answer.error) throw errorOf(response.status, answer.error);
    onEvent(answer.result as StreamEvent, id);
  });
}

export const cancel = (rpc: string, id: string) => call<Task>(rpc, "CancelTask", { id });
export const getTask = (rpc: string, id: string) => call<Task>(rpc, "GetTask", { id });

/** All tasks of a conversation, as far as one page has them. */
export const tasksOf = async (rpc: string, contextId: string): Promise<Task[]> =>
  (await call<{ tasks?: Task[] }>(rpc, "ListTasks", { contextId, pageSize: 100, includeArtifacts: true })).tasks ?? [];

/** The newest tasks this page has begun at an agent, without what they made. */
export const ownTasks = async (rpc: string): Promise<Task[]> =>
  (await call<{ tasks?: Task[] }>(rpc, "ListTasks", { pageSize: 50, includeArtifacts: false })).tasks ?? [];

/** An id of our own. `crypto.randomUUID` is not there at a host without TLS. */
export const newId = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

export function userMessage(parts: Message["parts"], more: Partial<Message>): Message {
  return { messageId: newId(), role: "ROLE_USER", parts, ...more };
}
