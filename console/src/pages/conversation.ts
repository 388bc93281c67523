/** A conversation with an agent: its turns, each with its task. Turns are sent, streamed, resumed after a cut and read
 *  again after a reload, and several may go on at once. */

import { signal } from "@preact/signals";
import * as http from "../api/http";
import type { Message, Part, StreamEvent, Task } from "../api/types";
import { addMessage, apply, isFinal } from "../fold";
import { SHOWN } from "../render/parts";
import { draftOf, keepDraft } from "../ui/drafts";
import { answerMetadata } from "../ui/time";

/** What began with one message: a task with its questions and answers, or a reply without a task. */
export interface Turn {
  key: string; // the id of its first message
  at: number;
  sent: Message | null; // what began it, until its task says so
  isSending: boolean; // a message or the stream of a task is under way
  task: Task | null;
  reply: Message | null;
  error: string;
  lostAt: string; // after which event the connection broke off and was taken up again
  places: { [artifact: string]: number }; // how much had been said when it last changed
}

interface Sending {
  method: "SendStreamingMessage" | "SubscribeToTask";
  params: unknown;
  json?: string;
}

/** A stream that is open. */
interface Open {
  stop: AbortController;
  isAnswered: boolean; // something has come: the message was taken
}

const PAUSE_MS = 700;
// A browser has six connections to a server: some have to be left for everything else.
const STREAMS = 3;
const REPLIES = 50; // that are kept over a reload: no task has them

export const isWaiting = (turn: Turn | undefined): boolean =>
  /INPUT_REQUIRED|AUTH_REQUIRED/.test(turn?.task?.status.state ?? "");
export const isRunning = (turn: Turn | undefined): boolean =>
  !!turn?.task && !isFinal(turn.task.status.state) && !isWaiting(turn);

export class Conversation {
  readonly turns = signal<Turn[]>([]);
  contextId = "";
  private streams = new Map<string, Open>(); // by turn
  private isLeft = false;
  private failing = new Map<string, Sending>(); // what was last sent, by turn

  constructor(readonly rpc: string) {}

  get last(): Turn | undefined {
    return this.turns.value[this.turns.value.length - 1];
  }

  /** Read the conversation of a task, or one by its id, and follow what goes on. */
  async load({ task: id, context }: { task?: string; context?: string }): Promise<void> {
    const named = id ? await http.getTask(this.rpc, id) : null;
    this.contextId = named?.contextId || context || "";
    const others = this.contextId ? await http.tasksOf(this.rpc, this.contextId).catch(() => []) : [];
    const tasks = [...others.filter((one) => one.id !== id), ...(named ? [named] : [])];
    const turns = [...tasks.map(turnOf), ...this.keptReplies()].sort((a, b) => a.at - b.at);
    this.turns.value = turns;
    // The newest; the others are read when they change.
    for (const turn of turns.filter(isRunning).slice(-STREAMS)) void this.follow(turn);
  }

  /** Send a message: the answer of the turn that waits, or the beginning of a new one. */
  async send(parts: Part[], skill: string, json?: string, to?: Turn): Promise<void> {
    const given: Part[] = json === undefined ? parts : [{ data: http.RAW, mediaType: "application/json" }];
    const message = http.userMessage(given, {
      ...(to?.task ? { taskId: to.task.id } : {}),
      ...(this.contextId ? { contextId: this.contextId } : {}),
      ...(skill && !to ? { metadata: { skill } } : answerMetadata(to?.task)),
    });
    const shown: Message =
      json === undefined ? message : { ...message, parts: [{ data: JSON.parse(json), mediaType: "application/json" }] };
    const key = to?.key ?? message.messageId;
    if (to) this.change(key, (turn) => ({ ...turn, task: turn.task && addMessage(turn.task, shown), error: "" }));
    else this.turns.value = [...this.turns.value, { ...EMPTY, key, at: Date.now(), sent: shown }];
    const params = { message, configuration: { acceptedOutputModes: SHOWN } };
    const sending: Sending = { method: "SendStreamingMessage", params, json };
    this.failing.set(key, sending);
    await this.run(key, sending);
  }

  /** Send what failed once more. It has the same id, so that it is not done twice. */
  async retry(turn: Turn): Promise<void> {
    const sending = this.failing.get(turn.key);
    this.change(turn.key, (now) => ({ ...now, error: "" }));
    if (sending) await this.run(turn.key, sending);
  }

  /** A task changed that nobody here listens to: somebody else answered it. */
  async refresh(id: string): Promise<void> {
    const turn = this.turns.value.find((one) => one.task?.id === id);
    if (!turn || this.streams.has(turn.key)) return;
    const task = await http.getTask(this.rpc, id);
    if (this.streams.has(turn.key)) return; // a stream that was begun meanwhile knows more
    this.take(turn.key, { task });
    const now = this.turn(turn.key);
    if (now && isRunning(now) && this.streams.size < STREAMS) await this.follow(now);
  }

  async cancel(turn: Turn): Promise<void> {
    if (!turn.task) return;
    const task = await http.cancel(this.rpc, turn.task.id);
    if (!this.streams.has(turn.key)) this.take(turn.key, { task });
  }

  /** Stop listening; tasks go on, and a message that is under way still arrives. */
  leave(): void {
    this.isLeft = true;
    for (const stream of this.streams.values()) if (stream.isAnswered) stream.stop.abort();
  }

  private follow(turn: Turn): Promise<void> {
    return this.run(turn.key, { method: "SubscribeToTask", params: { id: turn.task!.id } });
  }

  private async run(key: string, first: Sending): Promise<void> {
    const stop = new AbortController();
    const own: Open = { stop, isAnswered: false };
    this.streams.get(key)?.stop.abort();
    this.streams.set(key, own);
    this.makeRoom();
    this.change(key, (turn) => ({ ...turn, isSending: true }));
    let cursor = "";
    let asked = first;
    try {
      for (;;) {
        own.isAnswered = false;
        try {
          const take = (event: StreamEvent, id: string) => {
            if (id) cursor = id;
            own.isAnswered = true;
            this.take(key, event);
            if (this.isLeft) stop.abort();
            this.makeRoom();
          };
          await http.openStream(this.rpc, asked.method, asked.params, cursor, stop.signal, take, asked.json);
          if (own.isAnswered && !isRunning(this.turn(key))) return;
        } catch (error) {
          if (stop.signal.aborted) return;
          if (error instanceof http.Failure) return await this.failed(key, asked, error);
        }
        const task = this.turn(key)?.task;
        // A stream that brought something goes on after it; else the same message is sent again.
        if (task && (own.isAnswered || asked.method === "SubscribeToTask")) {
          asked = { method: "SubscribeToTask", params: { id: task.id } };
        }
        this.change(key, (turn) => ({ ...turn, lostAt: cursor || "0" }));
        await new Promise((done) => setTimeout(done, PAUSE_MS));
        if (stop.signal.aborted) return;
      }
    } finally {
      if (this.streams.get(key) === own) {
        this.streams.delete(key);
        this.change(key, (turn) => ({ ...turn, isSending: false }));
      }
    }
  }

  /** Stop listening to the oldest, if there are too many: their tasks are read when they change. */
  private makeRoom(): void {
    let spare = this.streams.size - STREAMS;
    for (const stream of this.streams.values()) {
      if (spare > 0 && stream.isAnswered) {
        spare--;
        stream.stop.abort();
      }
    }
  }

  private async failed(key: string, asked: Sending, error: http.Failure): Promise<void> {
    const task = this.turn(key)?.task;
    // The task ended while nobody listened: how it ended is what there is to show.
    if (task && asked.method === "SubscribeToTask" && /UNSUPPORTED_OPERATION/.test(error.reason)) {
      return this.take(key, { task: await http.getTask(this.rpc, task.id) });
    }
    this.change(key, (turn) => ({ ...turn, error: error.message, lostAt: "" }));
  }

  private take(key: string, event: StreamEvent): void {
    const reply = event.message;
    this.contextId = reply?.contextId ?? event.task?.contextId ?? this.contextId;
    if (reply) {
      this.change(key, (turn) => ({ ...turn, reply, lostAt: "" }));
      return this.keepReplies();
    }
    this.change(key, (turn) => {
      const task = apply(turn.task, event);
      const artifact = event.artifactUpdate?.artifact.artifactId;
      const places = artifact ? { ...turn.places, [artifact]: task?.history?.length ?? 0 } : turn.places;
      return { ...turn, task, places, lostAt: "" };
    });
  }

  private turn(key: string): Turn | undefined {
    return this.turns.value.find((turn) => turn.key === key);
  }

  private change(key: string, change: (turn: Turn) => Turn): void {
    this.turns.value = this.turns.value.map((turn) => (turn.key === key ? change(turn) : turn));
  }

  private get repliesKey(): string {
    return `replies.${this.rpc}.${this.contextId}`;
  }

  private keptReplies(): Turn[] {
    return this.contextId ? (JSON.parse(draftOf(this.repliesKey) || "[]") as Turn[]) : [];
  }

  private keepReplies(): void {
    const replies = this.turns.value.filter((turn) => turn.reply && !turn.task);
    if (this.contextId) keepDraft(this.repliesKey, JSON.stringify(replies.slice(-REPLIES)));
  }
}

const EMPTY = { sent: null, isSending: false, task: null, reply: null, error: "", lostAt: "", places: {} };

function turnOf(task: Task): Turn {
  const first = task.history?.[0];
  return { ...EMPTY, key: first?.messageId ?? task.id, at: begunAt(task), task };
}

/** When a task began: its id says so (a UUID of version 7), else its status is all we know. */
function begunAt(task: Task): number {
  const found = /^([0-9a-f]{8})-([0-9a-f]{4})-7/.exec(task.id);
  return found ? parseInt(found[1]! + found[2]!, 16) : Date.parse(task.status.timestamp ?? "") || 0;
}

/** One thing after the other, as it was said: messages, and artifacts where they last changed. */
export interface Said {
  message?: Message;
  artifact?: string;
}

/** What a turn shows. Of what the agent said on the way, only what somebody answered is still of interest. */
export function saidIn(turn: Turn): Said[] {
  const history = turn.task?.history ?? [];
  const found: Said[] = [];
  const artifacts = (turn.task?.artifacts ?? []).map((one) => one.artifactId);
  const place = (id: string) => turn.places[id] ?? history.length;
  history.forEach((message, i) => {
    if (message.role === "ROLE_USER" || history[i + 1]?.role === "ROLE_USER") found.push({ message });
    for (const artifact of artifacts) if (place(artifact) === i + 1) found.push({ artifact });
  });
  for (const artifact of artifacts) if (place(artifact) > history.length || !history.length) found.push({ artifact });
  return turn.sent && !history.length ? [{ message: turn.sent }, ...found] : found;
}
