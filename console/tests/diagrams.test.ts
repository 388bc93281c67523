/** Diagrams: what is understood of their text, where things are put, and what it may cost. */

import { describe, expect, it } from "vitest";
import { pictureOf } from "../src/render/layers";
import { diagramOf, type Flow, type Sequence } from "../src/render/mermaid";

const flow = (text: string) => diagramOf(text) as Flow;
const sequence = (text: string) => diagramOf(text) as Sequence;

describe("a flowchart", () => {
  it("has nodes, shapes, words and arrows of each kind", () => {
    const found = flow('flowchart LR\n%% a comment\nA[Start] --> B{"Is it (really)<br/>so?"};\nB -->|yes| C((End))\nB -- no --> A\nB -.->D(x) & E ==> C; F --- G-h');
    expect(found.direction).toBe("LR");
    expect(found.nodes.map(({ id, text, shape }) => [id, text, shape])).toEqual([
      ["A", "Start", "box"],
      ["B", "Is it (really)\nso?", "diamond"],
      ["C", "End", "circle"],
      ["D", "x", "round"],
      ["E", "E", "box"],
      ["F", "F", "box"],
      ["G-h", "G-h", "box"],
    ]);
    const named = found.edges.map(({ from, to, text, line, hasHead }) => [found.nodes[from]!.id + found.nodes[to]!.id, text, line, hasHead]);
    expect(named).toEqual([
      ["AB", "", "plain", true],
      ["BC", "yes", "plain", true],
      ["BA", "no", "plain", true],
      ["BD", "", "dashed", true],
      ["BE", "", "dashed", true],
      ["DC", "", "thick", true],
      ["EC", "", "thick", true],
      ["FG-h", "", "plain", false],
    ]);
    expect(found.isPart).toBe(false);
  });

  it("says that groups, styles and links are left out", () => {
    expect(flow('graph TD\nsubgraph one\nA-->B\nend\nclick A "https://elsewhere.example"').isPart).toBe(true);
  });

  it("is put in layers, no two nodes on the same spot, also with circles and loops", () => {
    for (const direction of ["TB", "BT", "LR", "RL"]) {
      const picture = pictureOf(flow(`flowchart ${direction}\nA-->B-->C-->A\nB-->B\nA-->D\nC-->D\nE`))!;
      const { nodes, width, height } = picture;
      nodes.forEach((one, i) => {
        expect(one.x - one.width / 2 >= 0 && one.x + one.width / 2 <= width && one.y - one.height / 2 >= 0 && one.y + one.height / 2 <= height).toBe(true);
        for (const other of nodes.slice(i + 1)) {
          const isApart = Math.abs(one.x - other.x) >= (one.width + other.width) / 2 || Math.abs(one.y - other.y) >= (one.height + other.height) / 2;
          expect(isApart).toBe(true);
        }
      });
    }
  });
});

describe("a sequence", () => {
  it("has people, messages, notes and frames", () => {
    const found = sequence("sequenceDiagram\nparticipant A as Alice\nA->>+Bob: Hello: you\nloop every day\nBob-->>-A: Hi\nend\nNote over A,Bob: friends\nBob-xBob: oops");
    expect(found.people).toEqual(["Alice", "Bob"]);
    expect(found.rows).toEqual([
      { kind: "message", from: 0, to: 1, text: "Hello: you", isDashed: false, head: "arrow", hasTail: false },
      { kind: "open", text: "loop every day" },
      { kind: "message", from: 1, to: 0, text: "Hi", isDashed: true, head: "arrow", hasTail: false },
      { kind: "close" },
      { kind: "note", from: 0, to: 1, text: "friends", side: "over" },
      { kind: "message", from: 1, to: 1, text: "oops", isDashed: false, head: "cross", hasTail: false },
    ]);
  });
});

describe("what is not understood", () => {
  it.each([
    "",
    "gantt\ntitle A",
    "flowchart TD",
    "flowchart TD\nA[never closed",
    "flowchart TD\nA -->",
    "flowchart TD\nA -- text without end",
    "flowchart TD\nA what B",
    "sequenceDiagram\nend",
    "sequenceDiagram\nloop x\nA->>B: y",
    "sequenceDiagram\nno arrow at all",
  ])("is not drawn: %j", (text) => expect(diagramOf(text)).toBeNull());
});

describe("what costs too much", () => {
  const lines = (count: number, line: (n: number) => string) => Array.from({ length: count }, (_, n) => line(n)).join("\n");
  it.each([
    ["nodes", `flowchart TD\n${lines(300, (n) => `A${n}-->B${n}`)}`],
    ["edges of two crowds", `flowchart TD\n${lines(1, () => `${lines(60, (n) => `a${n}`).replaceAll("\n", " & ")} --> ${lines(60, (n) => `b${n}`).replaceAll("\n", " & ")}`)}`],
    ["messages", `sequenceDiagram\n${lines(500, () => "A->>B: x")}`],
    ["people", `sequenceDiagram\n${lines(50, (n) => `participant p${n}`)}`],
    ["letters", `flowchart TD\nA[${"x".repeat(60_000)}]`],
  ])("is not drawn: %s", (_, text) => expect(diagramOf(text)).toBeNull());

  it("is not drawn: bends of long edges", () => {
    const chain = lines(190, (n) => `n${n}-->n${n + 1}`);
    const long = lines(150, (n) => `n0-->n${190 - (n % 10)}`);
    expect(pictureOf(flow(`flowchart TD\n${chain}\n${long}`))).toBeNull();
  });

  it("ends soon, whatever the text", () => {
    // Work that grows with the square of the length would outlast the test's time.
    for (const one of ["-", "-.", "=", "<", "A-", "A.", "A & ", "[", "(", '"', "|", "x--", "A-- "]) {
      const text = one.repeat(49_000 / one.length);
      diagramOf(`flowchart TD\n${text}`);
      diagramOf(`flowchart TD\nA${text}`);
      diagramOf(`sequenceDiagram\nA${text}`);
      diagramOf(`sequenceDiagram\nA->>B: ${text}`);
    }
    const crowded = flow(`flowchart TD\n${lines(390, (n) => `n${(n * 7) % 190}-->n${(n * 13 + 1) % 190}`)}`);
    pictureOf(crowded);
  });
});
