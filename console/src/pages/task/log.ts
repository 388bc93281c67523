/** What the log of a task says: the task at any entry of it, how long it worked, and each entry in words. */

import type { Entry, Task } from "../../api/types";
import { addMessage, apply, word } from "../../fold";
import { stateWord } from "../../i18n";
import { visible } from "../../ui/text";

/** The task as it stood after the n-th entry of its log. */
export function foldTo(entries: Entry[], n: number): Task | null {
  let task: Task | null = null;
  for (const entry of entries.slice(0, n + 1)) {
    if (entry.event) task = apply(task, entry.event);
    else if (entry.message && task) task = addMessage(task, entry.message);
  }
  return task;
}

/** The number of each entry: an event has the number that streams, `--at` and pushes give it; `4.1` is the first entry
 * behind event 4 that is no event of its own. */
export function numbersOf(entries: Entry[]): string[] {
  let behind = 0;
  return entries.map((entry) => {
    behind = entry.event ? 0 : behind + 1;
    return behind ? `${entry.seq}.${behind}` : String(entry.seq);
  });
}

export function workedAndWaited(entries: Entry[]): { worked: number; waited: number } {
  let worked = 0;
  let waited = 0;
  let since = entries[0]?.at ?? 0;
  let state = "";
  for (const entry of entries) {
    const status = entry.event?.statusUpdate?.status ?? entry.event?.task?.status;
    if (!status) continue;
    const time = entry.at - since;
    if (state === "input-required" || state === "auth-required") waited += time;
    else worked += time;
    since = entry.at;
    state = word(status.state);
  }
  return { worked, waited };
}

export function what(entry: Entry): string {
  return visible(whatOf(entry));
}

function whatOf(entry: Entry): string {
  const status = entry.event?.statusUpdate?.status ?? entry.event?.task?.status;
  if (status) {
    const text = status.message?.parts.map((part) => part.text ?? "").join(" ") ?? "";
    return `${stateWord(word(status.state))} ${text}`;
  }
  const update = entry.event?.artifactUpdate;
  if (update) {
    const text = update.artifact.parts.map((part) => part.text ?? part.filename ?? "").join(" ");
    return `${update.append ? "+" : ""} ${update.artifact.name || update.artifact.artifactId}: ${text}`;
  }
  if (entry.message) return entry.message.parts.map((part) => part.text ?? part.filename ?? "{}").join(" ");
  const name = entry.data?.["name"] ?? entry.data?.["text"] ?? "";
  return `${entry.kind} ${String(name)}`;
}

/** Why the function failed: the newest such entry up to the n-th. Only operators are sent it. */
export function raisedIn(entries: Entry[], n: number): { type: string; message: string; traceback: string } | null {
  for (let i = Math.min(n, entries.length - 1); i >= 0; i--) {
    const { kind, data } = entries[i]!;
    if (kind === "Raised") {
      const text = (name: string) => String(data?.[name] ?? "");
      return { type: text("type"), message: text("message"), traceback: text("traceback") };
    }
  }
  return null;
}

/** The members that are not the same. */
export function difference(before: unknown, after: unknown): unknown {
  if (before === null || typeof before !== "object" || after === null || typeof after !== "object") return after ?? null;
  const found: { [name: string]: unknown } = {};
  const a = before as { [name: string]: unknown };
  const b = after as { [name: string]: unknown };
  for (const name of new Set([...Object.keys(a), ...Object.keys(b)])) {
    if (JSON.stringify(a[name]) === JSON.stringify(b[name])) continue;
    found[name] = b[name] === undefined ? null : difference(a[name], b[name]);
  }
  return found;
}

