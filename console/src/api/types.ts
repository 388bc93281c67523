/** The objects of A2A 1.0 that the page reads, and those of the console's own reads. */

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type Schema = { [key: string]: Json };

export interface Part {
  text?: string;
  raw?: string;
  url?: string;
  data?: Json;
  mediaType?: string;
  filename?: string;
  metadata?: { [key: string]: Json };
}

export interface Message {
  messageId: string;
  role: "ROLE_USER" | "ROLE_AGENT";
  parts: Part[];
  taskId?: string;
  contextId?: string;
  metadata?: { [key: string]: Json };
}

export interface Status {
  state: string;
  message?: Message;
  timestamp?: string;
}

export interface Artifact {
  artifactId: string;
  parts: Part[];
  name?: string;
  description?: string;
  metadata?: { [key: string]: Json };
}

export interface Task {
  id: string;
  contextId: string;
  status: Status;
  history?: Message[];
  artifacts?: Artifact[];
  metadata?: { [key: string]: Json };
}

export interface StatusUpdate {
  taskId: string;
  contextId: string;
  status: Status;
  metadata?: { [key: string]: Json };
}

export interface ArtifactUpdate {
  taskId: string;
  contextId: string;
  artifact: Artifact;
  append?: boolean;
  lastChunk?: boolean;
}

export interface StreamEvent {
  task?: Task;
  message?: Message;
  statusUpdate?: StatusUpdate;
  artifactUpdate?: ArtifactUpdate;
}

export interface Skill {
  id: string;
  name: string;
  description: string;
  tags?: string[];
  examples?: string[];
}

export interface Card {
  name: string;
  description: string;
  version: string;
  skills: Skill[];
  supportedInterfaces: { url: string; protocolBinding: string; protocolVersion: string }[];
  provider?: { organization: string; url?: string };
  documentationUrl?: string;
  capabilities: { [key: string]: Json };
  defaultInputModes?: string[];
  defaultOutputModes?: string[];
  securitySchemes?: { [key: string]: Json };
}

export interface Me {
  mode: "agent" | "hub";
  agents: string[]; // the names of several that are served together
  base: string;
  rpc: string;
  rest: string;
  speaks: string; // the version whose objects the page reads
  versions: string[];
  bindings: { [version: string]: string[] };
  aliases: { [version: string]: string[] }; // versions that are answered alike
  grpcPort: number | null;
  card: Card;
  schemas: { [skill: string]: { input: Schema | null } };
  limits: { body: number };
  hasExchanges: boolean;
  caller: string; // as whom the page calls
  isOperator: boolean; // may see what all callers do
}

export interface Summary {
  id: string;
  contextId: string;
  state: string;
  at: number;
  skill: string;
  agent: string;
  rpc: string;
  isOwn: boolean;
  tenant: string;
  caller: string;
  title: string;
  events: number;
  created: number;
  why: string; // of one that failed: in a few words
  expires: number; // until when its question may be answered; 0: no deadline
  wakes: number; // until when it sleeps; 0: it does not
  progress: Progress | null;
}

/** How far a task is: 3 of 10. */
export interface Progress {
  done: number;
  total: number | null;
}

export interface Entry {
  pos: number;
  seq: number;
  at: number;
  kind: string;
  event?: StreamEvent;
  message?: Message;
  step?: string;
  data?: { [key: string]: Json };
}

export interface Exchange {
  n: number;
  at: number;
  ms: number;
  verb: string;
  path: string;
  operation: string;
  version: string;
  status: number;
  isStream: boolean;
  isOpen: boolean; // a stream that has not ended
  bytesIn: number;
  bytesOut: number; // so far
  requestHeaders?: [string, string][];
  requestBody?: { text: string; isCut: boolean };
  answerHeaders?: [string, string][];
  answerBody?: { text: string; isCut: boolean };
}

export interface Push {
  id: string;
  taskId: string;
  agent: string;
  tenant: string;
  caller: string;
  endpoint: string;
  version: string;
  sent: number;
  upto: number;
  due: number | null;
  tries: number;
  error: string;
  disabled: string;
}

export interface Letter {
  n: number;
  taskId: string;
  push: string;
  first: number;
  last: number;
  at: number;
  error: string;
}

/** One attempt to deliver an event to a webhook. */
export interface Attempt {
  n: number;
  at: number;
  ms: number;
  event: number;
  verdict: "delivered" | "later" | "refused" | "gone";
  status: number; // 0: there was no answer
  error: string;
  requestHeaders?: [string, string][];
  requestBody?: { text: string; isCut: boolean };
  answerHeaders?: [string, string][];
  answerBody?: { text: string; isCut: boolean };
}
