import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { Entry, Task } from "../src/api/types";
import { addMessage, apply } from "../src/fold";

const cases = JSON.parse(readFileSync(new URL("./golden.json", import.meta.url), "utf8")) as {
  entries: Entry[];
  tasks: Task[];
}[];

describe("the fold", () => {
  it.each(cases.map((one, i) => [i, one] as const))("makes the server's task of log %i", (_, one) => {
    let task: Task | null = null;
    one.entries.forEach((entry, n) => {
      if (entry.event) task = apply(task, entry.event);
      else if (entry.message && task) task = addMessage(task, entry.message);
      expect(JSON.parse(JSON.stringify(task))).toEqual(one.tasks[n]);
    });
  });
});
