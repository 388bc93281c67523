import { describe, expect, it } from "vitest";
import { SseReader } from "../src/api/sse";

const TEXT = ': hello\n\nid: 7\ndata: {"a":\ndata: "é"}\n\nevent: error\r\ndata: no\r\n\r\n';

describe("server-sent events", () => {
  it("are read wherever the network splits them", () => {
    const bytes = new TextEncoder().encode(TEXT);
    for (let split = 0; split <= bytes.length; split++) {
      const reader = new SseReader();
      const found = [...reader.push(bytes.slice(0, split)), ...reader.push(bytes.slice(split))];
      expect(found).toEqual([
        { id: "7", event: "", data: '{"a":\n"é"}' },
        { id: "", event: "error", data: "no" },
      ]);
    }
  });
});
