/** The hub's REST interface, called as the admin who opened the link. */

import { Failure, RAW, withRaw } from "./http";
import type { Part } from "./types";
import { sessionHeaders } from "./session";

export interface Health {
  state: string;
  category?: string;
  sentence?: string;
  at_ms?: number;
  since_ms?: number;
  p50_ms?: number | null;
  p95_ms?: number | null;
  uptime_30d?: number | null;
}

export interface Entry {
  name: string;
  state: string;
  visibility: string;
  description: string;
  version: string;
  health: Health;
  team?: string;
  owner?: string;
  card_url?: string;
  score?: number | null;
  signature?: string;
  approved?: number;
  latest?: number;
  waiting?: boolean;
  skills?: { id: string; name: string; description: string; tags: string[]; examples: string[] }[];
  interfaces?: { url: string; protocolBinding: string; protocolVersion: string }[];
  notes?: string[];
  revision?: number;
}

export interface Difference {
  weight: "material" | "notable" | "cosmetic";
  kind: string;
  where: string;
  sentence: string;
  before?: unknown;
  after?: unknown;
}

export interface CardVersion {
  n: number;
  decision: string;
  signature: string;
  notes: string[];
  differences: Difference[];
  first_ms: number;
  last_ms: number;
  card?: unknown;
}

export interface Alert {
  id: string;
  at_ms: number;
  kind: string;
  agent: string;
  said: string;
  detail?: { version?: number } | null;
}

export interface CheckResult {
  id: string;
  title: string;
  group: string;
  status: string;
  interface?: string;
  reason?: string;
  fix?: string;
}

async function call<T>(method: string, path: string, body?: unknown, json?: string): Promise<T> {
  const sent = JSON.stringify(body ?? {});
  const response = await fetch(`/api/v1${path}`, {
    method,
    headers: { ...sessionHeaders(), "Content-Type": "application/json" },
    ...(method === "GET" ? {} : { body: json === undefined ? sent : withRaw(sent, json) }),
  });
  const text = await response.text();
  const answer = text ? JSON.parse(text) : null;
  if (!response.ok) {
    const { message = `HTTP ${response.status}`, reason = "", fix = "" } = answer?.error ?? {};
    throw new Failure(response.status, reason, fix ? `${message} (${fix})` : message);
  }
  return answer as T;
}

const at = (name: string) => `/agents/${encodeURIComponent(name)}`;

export const agents = () => call<{ agents: Entry[]; total: number }>("GET", "/agents?limit=500");
export const agent = (name: string) => call<Entry>("GET", at(name));
export const add = (given: { url: string; name?: string; visibility?: string; team?: string }) =>
  call<Entry>("POST", "/agents", given);
export const change = (name: string, given: { visibility?: string; team?: string }) =>
  call<Entry>("PATCH", at(name), given);
export const retire = (name: string) => call<null>("DELETE", at(name));
export const act = (name: string, verb: "suspend" | "resume" | "refresh" | "probe") =>
  call<Entry>("POST", `${at(name)}:${verb}`);
export interface CheckReport {
  score: number;
  at_ms?: number;
  results: CheckResult[];
}

export const check = (name: string) => call<CheckReport>("POST", `${at(name)}:check`);
export const lastChecks = (name: string) => call<CheckReport>("GET", `${at(name)}/checks`);
export const card = (name: string, n: number) => call<CardVersion>("GET", `${at(name)}/cards/${n}`);
export const cards = (name: string) => call<{ cards: CardVersion[]; approved: number }>("GET", `${at(name)}/cards`);
export const decide = (name: string, n: number, verb: "approve" | "reject") =>
  call<Entry>("POST", `${at(name)}/cards/${n}:${verb}`);
export const setCredential = (name: string, scheme: string, kind: string, secret: string) =>
  call<unknown>("PUT", `${at(name)}/credentials/${encodeURIComponent(scheme)}`, { kind, secret });
export const inbox = () => call<{ alerts: Alert[]; total: number; kinds: { [kind: string]: number } }>("GET", "/inbox");
/** Answer the question of a guest's task. The hub writes down who did. */
export const answerForGuest = (name: string, task: string, parts: Part[], json?: string) => {
  const given: Part[] = json === undefined ? parts : [{ data: RAW, mediaType: "application/json" }];
  return call<unknown>("POST", `${at(name)}/tasks/${encodeURIComponent(task)}:answer`, { parts: given }, json);
};
export const dismissAll = (kind: string) => call<{ closed: number }>("POST", `/inbox:dismiss?${new URLSearchParams({ kind })}`);
export const dismiss = (id: string) => call<null>("POST", `/inbox/${encodeURIComponent(id)}:dismiss`);

export interface Hit {
  agent: string;
  name: string;
  description: string;
  score: number;
  health: string;
  skills: { id: string; name: string; description: string; score: number; why: string[] }[];
}

export const search = (text: string) =>
  call<{ meaning: string; total: number; untrusted: Hit[] }>("GET", `/search?text=${encodeURIComponent(text)}`);

export interface Span {
  task: string;
  agent: string;
  owner: string;
  skill: string;
  caller: string;
  tenant: string;
  state: string;
  parent: string;
  started_ms: number;
  ended_ms: number;
}

export const trace = (id: string) => call<{ id: string; title: string; spans: Span[] }>("GET", `/traces/${encodeURIComponent(id)}`);

export interface TraceSummary {
  id: string;
  title: string; // the first words of the request
  agent: string;
  state: string;
  tasks: number;
  agents: number;
  started_ms: number;
  ended_ms: number;
  at_ms: number;
}

export const traces = () => call<{ traces: TraceSummary[] }>("GET", "/traces");
export const traceOf = async (task: string) =>
  (await call<{ traces: TraceSummary[] }>("GET", `/traces?task=${encodeURIComponent(task)}`)).traces[0]?.id ?? "";

// What an admin keeps

/** A list of things, each as it comes. */
export const listed = async (path: string, member: string) =>
  (await call<{ [member: string]: { [name: string]: unknown }[] }>("GET", path))[member] ?? [];
export const admin = (method: string, path: string, body?: unknown) => call<unknown>(method, path, body);

export interface AuditRow {
  n: number;
  at_ms: number;
  who: string;
  did: string;
  what: string;
  detail: string;
}

export const audit = (before: number, what: string) =>
  call<{ rows: AuditRow[]; next: number }>("GET", `/audit?${new URLSearchParams({ before: String(before), what })}`);
export const verifyAudit = () => call<{ whole: boolean; trouble: string }>("GET", "/audit:verify");
