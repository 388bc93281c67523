/** Server-sent events from a byte stream, split wherever the network split it. */

export interface SseEvent {
  id: string;
  event: string;
  data: string;
}

export class SseReader {
  private rest = "";
  private decoder = new TextDecoder();

  /** Take bytes and return the events that they complete. */
  push(bytes: Uint8Array): SseEvent[] {
    this.rest += this.decoder.decode(bytes, { stream: true });
    const found: SseEvent[] = [];
    for (;;) {
      const end = /\r\n\r\n|\n\n|\r\r/.exec(this.rest);
      if (!end) return found;
      const block = this.rest.slice(0, end.index);
      this.rest = this.rest.slice(end.index + end[0].length);
      const event = parseBlock(block);
      if (event) found.push(event);
    }
  }
}

function parseBlock(block: string): SseEvent | null {
  let id = "";
  let event = "";
  const data: string[] = [];
  for (const line of block.split(/\r\n|\n|\r/)) {
    if (line.startsWith(":")) continue;
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") data.push(value);
    else if (name === "id") id = value;
    else if (name === "event") event = value;
  }
  return data.length ? { id, event, data: data.join("\n") } : null;
}
