/** A task as one HTML file that replays it offline, for an issue report.
 *
 * What could be secret is left out: callers, ids of tenants, metadata, what is private in the log, the bytes of files
 * and what looks like a credential. The file loads nothing and shows every text as text.
 */

import type { Entry, Message, Part, Summary } from "../../api/types";
import { textOf, word } from "../../fold";
import player from "./player.js?raw";

interface Frame {
  n: number; // of the event
  at: number;
  kind: "state" | "message" | "artifact" | "step";
  who?: string;
  name?: string;
  artifact?: number; // several may have one name
  text: string;
  append?: boolean;
}

const SECRETS: [RegExp, string][] = [
  [/-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----[^]*?(?:-----END [A-Z ]{0,20}PRIVATE KEY-----|$)/g, "[private key removed]"],
  [/\b(Bearer|Basic)\s+[\w.~+/=-]{8,}/gi, "$1 [removed]"],
  [/\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*/g, "[token removed]"],
  [/\b(sk|pk|gh[opsu]|github_pat|glpat|xox[abprs]|AKIA|ASIA|AIza|acc)[-_]?[A-Za-z0-9_-]{16,}\b/g, "[key removed]"],
  // `client_secret=…`, `"accessToken": "…"`, also where JSON stands in a text of JSON
  [
    /((?:password|passwd|secret|token|(?:api|access|secret|private)[-_ ]?key|cookie)\\?["']?\s{0,9}[:=]\s{0,9})(?:\\"[^"\\]*\\"|"(?:\\.|[^"\\])*"|'[^']*'|[^\s"',;&]{3,})/gi,
    "$1[removed]",
  ],
  [/\b(\w{1,20}:\/\/)[^\s/:@]{1,200}:[^\s/@]{1,200}@/g, "$1[removed]@"],
  [/([?&](?:key|code|sig|signature)=)[^\s&"'\\]{8,}/gi, "$1[removed]"],
];

/** Return a text without what looks like a credential. */
export function redacted(text: string): string {
  return redactedPieces([text])[0]!;
}

/** Return the pieces of a text without what looks like a credential in the whole of it: a stream may cut one in two. */
export function redactedPieces(pieces: string[]): string[] {
  return SECRETS.reduce((now, [pattern, by]) => {
    const whole = now.join("");
    const hits = [...whole.matchAll(pattern)];
    let at = 0;
    let next = 0;
    return now.map((piece) => {
      const end = at + piece.length;
      let left = "";
      while (at < end) {
        const hit = hits[next];
        if (!hit || hit.index >= end) {
          left += whole.slice(at, end);
          at = end;
          break;
        }
        // What stands for it is where it begins.
        if (at <= hit.index) left += whole.slice(at, hit.index) + hit[0].replace(pattern, by);
        const over = hit.index + hit[0].length;
        at = Math.min(end, over);
        if (at === over) next++;
      }
      return left;
    });
  }, pieces);
}

const shownOf = (part: Part): string => redacted(rawOf(part));

function rawOf(part: Part): string {
  if (part.text !== undefined) return part.text;
  if (part.data !== undefined) return JSON.stringify(part.data, null, 2);
  const name = part.filename || part.mediaType || "file";
  return part.url !== undefined ? `[link: ${name}]` : `[file: ${name}]`;
}

const said = (message: Message): string => message.parts.map(shownOf).join("\n");

export function framesOf(entries: Entry[]): Frame[] {
  const frames: Frame[] = [];
  const ids: string[] = []; // of artifacts
  const runs: Frame[][] = []; // frames whose texts are pieces of one
  const open = new Map<string, Frame[]>(); // the last run of an artifact
  for (const { seq: n, at, event, message, kind, data } of entries) {
    const status = event?.statusUpdate?.status ?? event?.task?.status;
    const update = event?.artifactUpdate;
    for (const first of event?.task?.history ?? []) frames.push({ n, at, kind: "message", who: "user", text: said(first) });
    if (status) frames.push({ n, at, kind: "state", name: word(status.state), text: status.message ? said(status.message) : "" });
    if (message) frames.push({ n, at, kind: "message", who: "user", text: said(message) });
    if (update) {
      const name = redacted(update.artifact.name || update.artifact.artifactId);
      const id = update.artifact.artifactId;
      if (!ids.includes(id)) ids.push(id);
      const text = update.artifact.parts.map(rawOf).join("");
      const frame: Frame = { n, at, kind: "artifact", name, artifact: ids.indexOf(id), text, append: !!update.append };
      frames.push(frame);
      const run = frame.append && open.get(id);
      if (run) run.push(frame);
      else {
        const begun = [frame];
        open.set(id, begun);
        runs.push(begun);
      }
    }
    if (kind === "StepEnded") frames.push({ n, at, kind: "step", name: redacted(String(data?.["name"] ?? "")), text: "" });
  }
  for (const run of runs) {
    redactedPieces(run.map((frame) => frame.text)).forEach((text, i) => {
      run[i]!.text = text;
    });
  }
  return frames;
}

/** Return the file. Its data stands in a script element that is never run, without `<`, so no text can end it. */
export function replayOf(summary: Summary, entries: Entry[]): string {
  const first = entries[0]?.event?.task?.history?.[0];
  const data = {
    title: redacted(first ? textOf(first.parts).slice(0, 120) : summary.id),
    skill: summary.skill,
    state: summary.state,
    frames: framesOf(entries),
  };
  const json = JSON.stringify(data).replaceAll("<", "\\u003c");
  const policy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'";
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<title>Accord: a task replayed</title></head><body>
<script type="application/json" id="data">${json}</script>
<script>${player}</script>
</body></html>
`;
}

export function saveReplay(summary: Summary, entries: Entry[]): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([replayOf(summary, entries)], { type: "text/html" }));
  link.download = `task-${summary.id.slice(0, 8)}.html`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
