/** A task from its events: the same fold as the server's, tested against its golden files. */

import type { Artifact, Message, Part, StreamEvent, Task } from "./api/types";

/** Return the task as it stands after an event. The given task is not changed. */
export function apply(task: Task | null, event: StreamEvent): Task | null {
  if (event.task) return structuredClone(event.task);
  if (!task) return null;
  if (event.statusUpdate) {
    const { status, metadata } = event.statusUpdate;
    const more = metadata ? { metadata: { ...task.metadata, ...metadata } } : {};
    return { ...task, ...more, history: withLastMessage(task), status };
  }
  if (event.artifactUpdate) {
    const { artifact, append } = event.artifactUpdate;
    const artifacts = [...(task.artifacts ?? [])];
    const at = artifacts.findIndex((one) => one.artifactId === artifact.artifactId);
    const before = artifacts[at];
    if (before && append) {
      artifacts[at] = extended(before, artifact);
    } else if (before) {
      artifacts[at] = artifact;
    } else {
      artifacts.push(artifact);
    }
    return { ...task, artifacts };
  }
  return task;
}

function extended(before: Artifact, chunk: Artifact): Artifact {
  const metadata =
    before.metadata || chunk.metadata ? { ...before.metadata, ...chunk.metadata } : undefined;
  return {
    ...before,
    ...(chunk.name ? { name: chunk.name } : {}),
    ...(chunk.description ? { description: chunk.description } : {}),
    ...(metadata ? { metadata } : {}),
    parts: joined(before.parts, chunk.parts),
  };
}

/** Add a message of the user: it is in the history from here on. */
export function addMessage(task: Task, message: Message): Task {
  return { ...task, history: [...withLastMessage(task), message] };
}

/** The history with the message of the status, before something newer takes its place. */
function withLastMessage(task: Task): Message[] {
  const history = [...(task.history ?? [])];
  const said = task.status.message;
  if (said && !history.some((message) => message.messageId === said.messageId)) history.push(said);
  return history;
}

/** Parts with more of them: a text that follows a text, and a piece of a file that follows it, are joined to it. */
export function joined(before: Part[], more: Part[]): Part[] {
  const found = [...before];
  const [first, ...rest] = more;
  const last = found[found.length - 1];
  if (first && last && !rest.length && isPiece(first) && (last.url || last.raw)) {
    found[found.length - 1] = grown(last, first);
    return found;
  }
  if (first && last && isPlain(last) && isPlain(first) && last.mediaType === first.mediaType) {
    found[found.length - 1] = { ...last, text: (last.text ?? "") + (first.text ?? "") };
    return [...found, ...rest];
  }
  return [...found, ...more];
}

/** Whether a part goes on with the file before it, as its metadata says. */
function isPiece(part: Part): boolean {
  const mark = part.metadata?.["urn:accord:files:1"] as { offset?: unknown } | undefined;
  return typeof mark?.offset === "number" && mark.offset > 0 && !!(part.url || part.raw);
}

/** A file with one more piece. An address stands for all of it; only small files have bytes. */
function grown(file: Part, piece: Part): Part {
  const url = piece.url ?? file.url;
  if (!url) return { ...file, raw: btoa(atob(file.raw ?? "") + atob(piece.raw ?? "")) };
  const { raw: _, ...rest } = file;
  return { ...rest, url: withoutRange(url) };
}

function withoutRange(url: string): string {
  const [place, query = ""] = url.split("?", 2) as [string, string?];
  const options = query.split("&").filter((option) => option && !option.startsWith("range="));
  return options.length ? `${place}?${options.join("&")}` : place;
}

function isPlain(part: Part): boolean {
  return part.text !== undefined && !part.filename && !part.metadata;
}

export function textOf(parts: Part[]): string {
  return parts.map((part) => part.text ?? "").join("");
}

export function artifactText(artifact: Artifact): string {
  return textOf(artifact.parts);
}

const FINAL = new Set([
  "TASK_STATE_COMPLETED",
  "TASK_STATE_FAILED",
  "TASK_STATE_CANCELED",
  "TASK_STATE_REJECTED",
]);

export function isFinal(state: string): boolean {
  return FINAL.has(state);
}

/** The word of a state: `TASK_STATE_INPUT_REQUIRED` is `input-required`. */
export function word(state: string): string {
  return state.replace("TASK_STATE_", "").toLowerCase().replaceAll("_", "-");
}
