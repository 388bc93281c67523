/** Files that are too large for a message: uploaded piece by piece, and read with how far that is. */

import { Failure } from "./http";
import { sessionHeaders } from "./session";
import type { Part } from "./types";

export const INLINE = 256 * 1024; // bytes that go with the message itself
const PIECE = 1 << 20;
const TRIES = 5;
const PAUSE_MS = 700;

/** Where an agent takes files: beside the address it answers JSON-RPC at. */
const filesOf = (rpc: string): string => `${rpc.replace(/[^/]*$/, "")}files`;

async function ask(url: string, init: RequestInit, headers: Record<string, string>): Promise<Response> {
  const answer = await fetch(url, { ...init, headers: { ...headers, ...sessionHeaders() } });
  if (answer.ok || answer.status === 409) return answer;
  const body = (await answer.json().catch(() => ({}))) as { error?: { message?: string } };
  throw new Failure(answer.status, "", body.error?.message ?? `HTTP ${answer.status}`);
}

/** Upload a file, and return the part that names it. A piece that does not arrive is sent again from where it broke off. */
export async function upload(rpc: string, file: File, signal: AbortSignal, onProgress: (sent: number) => void): Promise<Part> {
  const begun = await ask(
    filesOf(rpc),
    { method: "POST", signal },
    {
      "Content-Type": file.type || "application/octet-stream",
      "Content-Disposition": `attachment; filename*=UTF-8''${encodeURIComponent(file.name)}`,
      "Upload-Complete": "?0",
      "Upload-Length": String(file.size),
    },
  );
  const place = `${filesOf(rpc)}/${(begun.headers.get("location") ?? "").split("/").pop() ?? ""}`;
  signal.addEventListener("abort", () => void fetch(place, { method: "DELETE", headers: sessionHeaders() }).catch(() => undefined));
  let at = 0;
  let failed = 0;
  for (;;) {
    const piece = file.slice(at, at + PIECE);
    const isLast = at + piece.size >= file.size;
    try {
      const answer = await ask(
        place,
        { method: "PATCH", body: piece, signal },
        { "Content-Type": "application/partial-upload", "Upload-Offset": String(at), "Upload-Complete": isLast ? "?1" : "?0" },
      );
      failed = 0;
      at = Number(answer.headers.get("upload-offset") ?? at + piece.size);
      onProgress(at);
      if (answer.headers.get("upload-complete") === "?1" && answer.status === 201) return (await answer.json()) as Part;
    } catch (error) {
      if (signal.aborted || error instanceof Failure || ++failed >= TRIES) throw error;
      await new Promise((done) => setTimeout(done, PAUSE_MS));
      const state = await ask(place, { method: "HEAD", signal }, {}).catch(() => null);
      at = Number(state?.headers.get("upload-offset") ?? at);
    }
  }
}

/** Whether this page may read what an address names: it is our own server's. */
export function isOurs(url: string): boolean {
  try {
    return new URL(url, location.href).origin === location.origin;
  } catch {
    return false;
  }
}

/** Read a file of our server. */
export async function download(url: string, type: string, signal: AbortSignal, onProgress: (share: number | null) => void): Promise<Blob> {
  const answer = await ask(url, { signal }, {});
  const size = Number(answer.headers.get("content-length") ?? 0);
  const reader = answer.body!.getReader();
  const pieces: BlobPart[] = [];
  let got = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return new Blob(pieces, { type });
    pieces.push(value);
    got += value.length;
    onProgress(size ? got / size : null);
  }
}
