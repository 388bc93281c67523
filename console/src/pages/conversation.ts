/** A conversation with the agent: sends, streams, resumes after a cut, and survives a reload. */

import { signal } from "@preact/signals";
import * as http from "../api/http";
import type { Message, Part, StreamEvent, Task } from "../api/types";
import { apply, isFinal } from "../fold";
import { SHOWN } from "../render/parts";

export interface Turn {
  message: Message;
  task: Task | null;
  reply: Message | null;
  error: string;
  lostAt: string; // after which event the connection broke off and was taken up again
}

export class Conversation {
  readonly turns = signal<Turn[]>([]);
  readonly isBusy = signal(false);
  contextId = "";
  private abort: AbortController | null = null;

  constructor(private rpc: string) {}

  get open(): Task | null {
    const last = this.turns.value[this.turns.value.length - 1]?.task;
    const isOpen = last && /INPUT_REQUIRED|AUTH_REQUIRED/.test(last.status.state);
    return isOpen ? last : null;
  }

  get running(): Task | null {
    const last = this.turns.value[this.turns.value.length - 1]?.task;
    return last && !isFinal(last.status.state) && !this.open ? last : null;
  }

  /** Show a task that exists, and follow it if it goes on. */
  async load(id: string): Promise<void> {
    const task = await http.getTask(this.rpc, id);
    this.contextId = task.contextId;
    const message = task.history?.[0] ?? http.userMessage([], {});
    this.turns.value = [{ message, task, reply: null, error: "", lostAt: "" }];
    if (this.running) await this.follow(id, "");
  }

  async send(parts: Part[], skill: string, json?: string): Promise<void> {
    const open = this.open;
    const given: Part[] = json === undefined ? parts : [{ data: http.RAW, mediaType: "application/json" }];
    const message = http.userMessage(given, {
      ...(open ? { taskId: open.id } : {}),
      ...(this.contextId ? { contextId: this.contextId } : {}),
      ...(skill && !open ? { metadata: { skill } } : {}),
    });
    const shown: Message =
      json === undefined ? message : { ...message, parts: [{ data: JSON.parse(json), mediaType: "application/json" }] };
    const turn: Turn = { message: shown, task: open, reply: null, error: "", lostAt: "" };
    this.turns.value = [...this.turns.value, turn];
    const params = { message, configuration: { acceptedOutputModes: SHOWN } };
    await this.run("SendStreamingMessage", params, "", json);
  }

  private async follow(id: string, after: string): Promise<void> {
    await this.run("SubscribeToTask", { id }, after);
  }

  private async run(
    method: "SendStreamingMessage" | "SubscribeToTask",
    params: unknown,
    after: string,
    json?: string,
  ): Promise<void> {
    this.isBusy.value = true;
    this.abort = new AbortController();
    const signal_ = this.abort.signal;
    let cursor = after;
    let what = method;
    let asked = params;
    try {
      for (;;) {
        try {
          const take = (event: StreamEvent, id: string) => {
            if (id) cursor = id;
            this.take(event);
          };
          await http.openStream(this.rpc, what, asked, cursor, signal_, take, json);
          if (!this.running) return;
        } catch (error) {
          if (signal_.aborted) return;
          if (error instanceof http.Failure) {
            // The task ended while nobody listened: how it ended is what there is to show.
            if (what === "SubscribeToTask" && /UNSUPPORTED_OPERATION/.test(error.reason)) {
              const last = this.turns.value[this.turns.value.length - 1]?.task;
              if (last) return this.take({ task: await http.getTask(this.rpc, last.id) });
            }
            return this.change((turn) => ({ ...turn, error: error.message }));
          }
        }
        const task = this.turns.value[this.turns.value.length - 1]?.task;
        if (task) {
          what = "SubscribeToTask";
          asked = { id: task.id };
          json = undefined;
        }
        this.change((turn) => ({ ...turn, lostAt: cursor || "0" }));
        await new Promise((done) => setTimeout(done, 700));
      }
    } finally {
      this.isBusy.value = false;
    }
  }

  private take(event: StreamEvent): void {
    if (event.message) {
      const reply = event.message;
      this.contextId = reply.contextId ?? this.contextId;
      return this.change((turn) => ({ ...turn, reply, lostAt: "" }));
    }
    this.change((turn) => ({ ...turn, task: apply(turn.task, event), lostAt: "" }));
    const task = this.turns.value[this.turns.value.length - 1]?.task;
    if (task) this.contextId = task.contextId;
  }

  private change(change: (turn: Turn) => Turn): void {
    const turns = this.turns.value;
    const last = turns[turns.length - 1];
    if (last) this.turns.value = [...turns.slice(0, -1), change(last)];
  }

  async stop(): Promise<void> {
    const task = this.running ?? this.open;
    if (task) await http.cancel(this.rpc, task.id);
  }

  leave(): void {
    this.abort?.abort();
  }
}
