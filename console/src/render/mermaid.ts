/** Diagrams in the language of Mermaid, as far as a drawing of our own goes: flowcharts and sequences. Mermaid 12.3 itself is
 *  281 KB gzipped for these two, all other scripts of the page are less than half of that; and it writes HTML, which the page's policy
 *  forbids. A text that is not understood is shown as it is.
 *
 *  The text is a stranger's: its size is bounded, it is read once from left to right, and only words are taken from it. */

const LONGEST = 50_000; // characters
const NODES = 200;
const EDGES = 400;
const ROWS = 400; // of a sequence
const PEOPLE = 30;
const WORDS = 200; // characters of a label

export type Shape = "box" | "round" | "circle" | "diamond";
export type Direction = "TB" | "BT" | "LR" | "RL";

export interface Node {
  id: string;
  text: string;
  shape: Shape;
}

export interface Edge {
  from: number; // index of a node
  to: number;
  text: string;
  line: "plain" | "thick" | "dashed";
  hasHead: boolean;
  hasTail: boolean;
}

export interface Flow {
  kind: "flow";
  direction: Direction;
  nodes: Node[];
  edges: Edge[];
  isPart: boolean; // the text also has styles, groups or links, which are not drawn
}

export type Row =
  | { kind: "message"; from: number; to: number; text: string; isDashed: boolean; head: "arrow" | "cross" | "none"; hasTail: boolean }
  | { kind: "note"; from: number; to: number; text: string; side: "over" | "left" | "right" }
  | { kind: "open"; text: string }
  | { kind: "divide"; text: string }
  | { kind: "close" };

export interface Sequence {
  kind: "sequence";
  title: string;
  people: string[];
  rows: Row[];
  isPart: boolean;
}

/** Return what can be drawn of a text; null if it asks for more. */
export function diagramOf(text: string): Flow | Sequence | null {
  if (text.length > LONGEST) return null;
  const lines = text
    .split(/\r\n|\n|\r/)
    .map((line) => line.trim())
    .filter((line) => line && !line.startsWith("%%"));
  const [head = "", ...rest] = lines;
  if (/^sequenceDiagram;?$/.test(head)) return sequenceOf(rest);
  const flow = /^(?:graph|flowchart)(?:\s+(TB|TD|BT|LR|RL))?\s*(?:;(.*))?$/.exec(head);
  if (!flow) return null;
  const direction = flow[1] === "TD" || !flow[1] ? "TB" : (flow[1] as Direction);
  return flowOf(direction, flow[2] ? [flow[2].trim(), ...rest] : rest);
}

/** Words of a label: without quotes, with line breaks as such. Any other markup in them is words, too. */
function wordsOf(label: string): string {
  const inner = label.trim().replace(/^"(?:`([^`]*)`|([^"]*))"$/, (_, marked?: string, plain?: string) => marked ?? plain ?? "");
  const words = inner.replace(/<br ?\/?>|\\n/gi, "\n").trim();
  return words.length > WORDS ? `${words.slice(0, WORDS)}…` : words;
}

const LEFT_OUT = /^(?:subgraph|end|style|classDef|class|linkStyle|click|direction|accTitle|accDescr)\b/;
const ID = /[\p{L}\p{N}_]+(?:[-.][\p{L}\p{N}_]+)*/uy;
const LINK = /([<xo])?(-{2,}|={2,}|-\.+-?|~{3,})([>xo])?/y;
// How the text of a link ends that began with two signs.
const CLOSING: { [open: string]: RegExp } = { "--": /-{2,}([>xo])?/g, "==": /={2,}([>xo])?/g, "-.": /\.+-([>xo])?/g };
const SHAPES: [open: string, close: string, shape: Shape][] = [
  ["(((", ")))", "circle"],
  ["((", "))", "circle"],
  ["([", "])", "round"],
  ["(", ")", "round"],
  ["[[", "]]", "box"],
  ["[(", ")]", "round"],
  ["[/", "/]", "box"],
  ["[\\", "\\]", "box"],
  ["[", "]", "box"],
  ["{{", "}}", "diamond"],
  ["{", "}", "diamond"],
  [">", "]", "box"],
];

function flowOf(direction: Direction, lines: string[]): Flow | null {
  const found: Flow = { kind: "flow", direction, nodes: [], edges: [], isPart: false };
  const known = new Map<string, number>();
  for (const line of lines) {
    if (LEFT_OUT.test(line)) found.isPart = true;
    else if (!readChain(line, found, known)) return null;
    if (found.nodes.length > NODES || found.edges.length > EDGES) return null;
  }
  return found.nodes.length ? found : null;
}

/** Read `a[Words] & b -->|label| c; d --- e`. Returns whether all of it was understood. */
function readChain(line: string, into: Flow, known: Map<string, number>): boolean {
  let at = 0;
  const skip = () => {
    while (line[at] === " " || line[at] === "\t") at++;
  };
  const match = (pattern: RegExp): RegExpExecArray | null => {
    pattern.lastIndex = at;
    const found = pattern.exec(line);
    if (found) at = pattern.lastIndex;
    return found;
  };
  const node = (): number | null => {
    const id = match(ID)?.[0];
    if (id === undefined) return null;
    let index = known.get(id);
    if (index === undefined) {
      index = into.nodes.push({ id, text: id, shape: "box" }) - 1;
      known.set(id, index);
    }
    const shape = SHAPES.find(([open]) => line.startsWith(open, at));
    if (shape) {
      const start = at + shape[0].length;
      // A label in quotes may hold brackets.
      const from = line[start] === '"' ? line.indexOf('"', start + 1) : start;
      const end = from < 0 ? -1 : line.indexOf(shape[1], from);
      if (end < 0) return null;
      into.nodes[index] = { id, text: wordsOf(line.slice(start, end)) || id, shape: shape[2] };
      at = end + shape[1].length;
    }
    if (line.startsWith(":::", at)) {
      at += 3;
      into.isPart = true;
      if (!match(ID)) return null;
    }
    return index;
  };
  const group = (): number[] | null => {
    const all: number[] = [];
    for (;;) {
      skip();
      const one = node();
      if (one === null) return null;
      all.push(one);
      skip();
      if (line[at] !== "&") return all;
      at++;
    }
  };
  let left = group();
  if (!left) return false;
  while (at < line.length) {
    if (line[at] === ";") {
      at++;
      skip();
      if (at >= line.length) return true;
      left = group();
      if (!left) return false;
      continue;
    }
    const link = match(LINK);
    if (!link) return false;
    const [, tail, body = "", head] = link;
    let end = head;
    let text = "";
    const closing = head === undefined ? CLOSING[body] : undefined;
    if (closing) {
      const start = at;
      const close = ((closing.lastIndex = at), closing.exec(line));
      if (!close) return false;
      text = line.slice(start, close.index);
      end = close[1];
      at = closing.lastIndex;
    }
    skip();
    if (line[at] === "|") {
      const close = line.indexOf("|", at + 1);
      if (close < 0) return false;
      text = line.slice(at + 1, close);
      at = close + 1;
    }
    const right = group();
    if (!right || into.edges.length + left.length * right.length > EDGES) return false;
    for (const from of left) {
      for (const to of right) {
        if (body.startsWith("~")) continue; // an invisible link
        const drawn = body.startsWith("=") ? "thick" : body.includes(".") ? "dashed" : "plain";
        into.edges.push({ from, to, text: wordsOf(text), line: drawn, hasHead: end !== undefined, hasTail: tail !== undefined });
      }
    }
    left = right;
  }
  return true;
}

const ARROW = /<<-->>|<<->>|-->>|->>|--x|-x|--\)|-\)|-->|->/;
const NOTE = /^note (over|left of|right of) ([^:]*):(.*)$/i;
const OPENING = /^(?:loop|alt|opt|par|critical|break|rect|box)\b/;
const DIVIDING = /^(?:else|and|option)\b/;
const NOT_DRAWN = /^(?:activate|deactivate|autonumber|destroy|links?|properties|details|accTitle|accDescr)\b/;

function sequenceOf(lines: string[]): Sequence | null {
  const found: Sequence = { kind: "sequence", title: "", people: [], rows: [], isPart: false };
  const known = new Map<string, number>();
  const person = (name: string, words = name): number => {
    const at = known.get(name);
    if (at !== undefined) return at;
    known.set(name, found.people.length);
    return found.people.push(wordsOf(words)) - 1;
  };
  const open: boolean[] = []; // whether a block has a frame
  for (const raw of lines) {
    const line = raw.replace(/;$/, "");
    const declared = /^(?:create )?(?:participant|actor) (.*)$/.exec(line);
    const note = NOTE.exec(line);
    if (declared) {
      const [name = "", ...words] = declared[1]!.split(" as ");
      if (!name.trim() || known.has(name.trim())) return null;
      person(name.trim(), words.join(" as ") || name);
    } else if (note) {
      const names = note[2]!.split(",").map((name) => name.trim());
      if (names.length > 2 || !names.every(Boolean)) return null;
      const ends = names.map((name) => person(name));
      const side = note[1]!.toLowerCase().split(" ")[0] as "over" | "left" | "right";
      found.rows.push({ kind: "note", from: Math.min(...ends), to: Math.max(...ends), text: wordsOf(note[3]!), side });
    } else if (OPENING.test(line)) {
      // The colour of a `rect` and a `box` of people are looks alone.
      const isFrame = !/^(?:rect|box)\b/.test(line);
      open.push(isFrame);
      if (isFrame) found.rows.push({ kind: "open", text: wordsOf(line) });
      else found.isPart = true;
    } else if (DIVIDING.test(line)) {
      if (!open[open.length - 1]) return null;
      found.rows.push({ kind: "divide", text: wordsOf(line) });
    } else if (line === "end") {
      const isFrame = open.pop();
      if (isFrame === undefined) return null;
      if (isFrame) found.rows.push({ kind: "close" });
    } else if (/^title\b/.test(line)) {
      found.title = wordsOf(line.replace(/^title:?/, ""));
    } else if (NOT_DRAWN.test(line)) {
      found.isPart = true;
    } else {
      const colon = line.indexOf(":");
      const ends = colon < 0 ? line : line.slice(0, colon);
      const arrow = ARROW.exec(ends);
      if (!arrow) return null;
      const sign = arrow[0];
      const from = ends.slice(0, arrow.index).trim();
      const to = ends.slice(arrow.index + sign.length).trim().replace(/^[+-]\s*/, "");
      if (!from || !to) return null;
      found.rows.push({
        kind: "message",
        from: person(from),
        to: person(to),
        text: colon < 0 ? "" : wordsOf(line.slice(colon + 1)),
        isDashed: sign.includes("--"),
        head: sign.endsWith("x") ? "cross" : /(?:>>|\))$/.test(sign) ? "arrow" : "none",
        hasTail: sign.startsWith("<<"),
      });
    }
    if (found.rows.length > ROWS || found.people.length > PEOPLE) return null;
  }
  return open.length || !found.people.length ? null : found;
}
