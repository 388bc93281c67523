/**
 * Markdown as a tree, in time that grows with the text alone.
 *
 * An agent's text is a stranger's: depth is bounded, and so is the work of looking for the other end of something. What
 * lies beyond is plain text.
 */

export type Inline =
  | { kind: "text" | "code"; text: string }
  | { kind: "break" }
  | { kind: "strong" | "emphasis" | "deleted"; inside: Inline[] }
  | { kind: "link"; to: string; inside: Inline[] };

export type Block =
  | { kind: "paragraph" | "heading"; inside: Inline[] }
  | { kind: "code"; text: string; language?: string }
  | { kind: "rule" }
  | { kind: "quote"; inside: Block[] }
  | { kind: "list"; start: number | null; items: Block[][] }
  | { kind: "table"; rows: Inline[][][] };

const DEEPEST = 6;
const LONGEST = 200_000;
const STEPS_PER_CHARACTER = 8;

/** How much may still be looked at. */
interface Budget {
  left: number;
}

export function parse(text: string): Block[] {
  if (text.length > LONGEST) return [{ kind: "code", text }];
  const budget = { left: text.length * STEPS_PER_CHARACTER + 10_000 };
  return blocksOf(text.split(/\r\n|\n|\r/), 0, budget);
}

const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(?: {1,4}|$)/;
const HEADING = /^ {0,3}#{1,6}(?= |\t|$)/;
const QUOTE = /^ {0,3}> ?/;

function blocksOf(lines: string[], depth: number, budget: Budget): Block[] {
  const found: Block[] = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at]!;
    if (!line.trim()) {
      at++;
      continue;
    }
    const take = depth < DEEPEST ? nested(lines, at, depth, budget) : null;
    const [block, next] = take ?? flat(lines, at, depth, budget);
    found.push(block);
    at = next;
  }
  return found;
}

type Taken = [Block, number]; // a block, and the line after it

/** A list or a quotation, which has blocks of its own. */
function nested(lines: string[], at: number, depth: number, budget: Budget): Taken | null {
  const line = lines[at]!;
  if (QUOTE.test(line)) {
    let end = at;
    while (end < lines.length && QUOTE.test(lines[end]!)) end++;
    const inner = lines.slice(at, end).map((one) => one.replace(QUOTE, ""));
    return [{ kind: "quote", inside: blocksOf(inner, depth + 1, budget) }, end];
  }
  return ITEM.test(line) && !isRule(line) ? list(lines, at, depth, budget) : null;
}

function list(lines: string[], at: number, depth: number, budget: Budget): Taken {
  const sign = ITEM.exec(lines[at]!)![2]!;
  const isOrdered = /\d/.test(sign);
  const last = sign[sign.length - 1];
  const items: string[][] = [];
  let indent = 0;
  let isBlank = false;
  for (; at < lines.length; at++) {
    const line = lines[at]!;
    const item = ITEM.exec(line);
    const isInside = items.length > 0 && line.startsWith(" ".repeat(indent));
    if (!line.trim()) {
      items[items.length - 1]!.push("");
      isBlank = true;
      continue;
    }
    if (isInside) items[items.length - 1]!.push(line.slice(indent));
    else if (item && item[2]![item[2]!.length - 1] === last && !isRule(line)) {
      indent = Math.min(item[0].length, item[1]!.length + item[2]!.length + 1);
      items.push([line.slice(item[0].length)]);
    } else if (!isBlank && !startsBlock(line)) items[items.length - 1]!.push(line.trimStart());
    else break;
    isBlank = false;
  }
  const start = isOrdered ? parseInt(sign, 10) : null;
  return [{ kind: "list", start, items: items.map((one) => blocksOf(one, depth + 1, budget)) }, at];
}

function flat(lines: string[], at: number, depth: number, budget: Budget): Taken {
  const line = lines[at]!;
  const fence = FENCE.exec(line);
  if (fence) return fenced(lines, at, fence[1]!);
  if (/^ {4}/.test(line)) {
    let end = at;
    while (end < lines.length && (/^ {4}/.test(lines[end]!) || !lines[end]!.trim())) end++;
    return [{ kind: "code", text: lines.slice(at, end).map((one) => one.slice(4)).join("\n").trimEnd() }, end];
  }
  if (isRule(line)) return [{ kind: "rule" }, at + 1];
  if (HEADING.test(line)) {
    const words = line.replace(HEADING, "").trim().replace(/(^| )#+$/, "");
    return [{ kind: "heading", inside: inlineOf(words, 0, budget) }, at + 1];
  }
  const head = cellsOf(line);
  const marks = head && at + 1 < lines.length ? cellsOf(lines[at + 1]!) : null;
  if (head && marks && marks.length === head.length && marks.every((one) => /^:?-+:?$/.test(one))) {
    return table(lines, at, head.length, budget);
  }
  let end = at + 1;
  const isOther = (one: string) => !one.trim() || (startsBlock(one) && depth < DEEPEST) || FENCE.test(one);
  while (end < lines.length && !isOther(lines[end]!)) end++;
  const words = lines.slice(at, end).map((one) => one.trimStart()).join("\n");
  return [{ kind: "paragraph", inside: inlineOf(words, 0, budget) }, end];
}

const LANGUAGE = /^[\w+#.-]{1,20}$/;

function fenced(lines: string[], at: number, fence: string): Taken {
  let end = at + 1;
  const isEnd = (line: string) => {
    const found = FENCE.exec(line)?.[1];
    return found !== undefined && found[0] === fence[0] && found.length >= fence.length && line.trim() === found;
  };
  while (end < lines.length && !isEnd(lines[end]!)) end++;
  const language = lines[at]!.trim().slice(fence.length).trim();
  const text = lines.slice(at + 1, end).join("\n");
  return [{ kind: "code", text, ...(LANGUAGE.test(language) ? { language } : {}) }, end + 1];
}

function table(lines: string[], at: number, width: number, budget: Budget): Taken {
  const rows = [cellsOf(lines[at]!)!];
  let end = at + 2;
  for (; end < lines.length; end++) {
    const cells = lines[end]!.trim() ? cellsOf(lines[end]!) : null;
    if (!cells) break;
    rows.push(cells.slice(0, width));
  }
  return [{ kind: "table", rows: rows.map((row) => row.map((cell) => inlineOf(cell, 0, budget))) }, end];
}

/** The cells of a line with strokes in it; null if it has none. */
function cellsOf(line: string): string[] | null {
  if (!line.includes("|")) return null;
  const cells: string[] = [];
  let cell = "";
  for (let i = 0; i < line.length; i++) {
    if (line[i] === "\\" && line[i + 1] === "|") cell += line[++i];
    else if (line[i] === "|") {
      cells.push(cell);
      cell = "";
    } else cell += line[i];
  }
  cells.push(cell);
  if (!cells[0]!.trim()) cells.shift();
  if (cells.length && !cells[cells.length - 1]!.trim()) cells.pop();
  return cells.length ? cells.map((one) => one.trim()) : null;
}

function isRule(line: string): boolean {
  const text = line.replaceAll(" ", "").replaceAll("\t", "");
  return /^ {0,3}[-*_]/.test(line) && text.length >= 3 && text === text[0]!.repeat(text.length);
}

function startsBlock(line: string): boolean {
  return QUOTE.test(line) || HEADING.test(line) || FENCE.test(line) || isRule(line) || /^ {0,3}([-*+]|1[.)]) /.test(line);
}

// Within a paragraph

const PUNCTUATION = /[!-/:-@[-`{-~]/;
const URL_START = /^https?:\/\//i;

function inlineOf(text: string, depth: number, budget: Budget): Inline[] {
  const found: Inline[] = [];
  let plain = "";
  const flush = () => {
    if (plain) found.push({ kind: "text", text: plain });
    plain = "";
  };
  for (let at = 0; at < text.length; ) {
    budget.left--;
    const char = text[at]!;
    if (char === "\n") {
      flush();
      found.push({ kind: "break" });
      at++;
      continue;
    }
    if (char === "\\" && PUNCTUATION.test(text[at + 1] ?? "")) {
      plain += text[at + 1];
      at += 2;
      continue;
    }
    const taken = budget.left > 0 ? special(text, at, depth, budget) : null;
    if (taken) {
      flush();
      found.push(taken[0]);
      at = taken[1];
    } else {
      // A run of one sign is looked at once.
      const sign = char;
      do plain += text[at++];
      while ("*_~`[".includes(sign) && text[at] === sign);
    }
  }
  flush();
  return found;
}

function special(text: string, at: number, depth: number, budget: Budget): [Inline, number] | null {
  switch (text[at]) {
    case "`":
      return code(text, at, budget);
    case "*":
    case "_":
    case "~":
      return depth < DEEPEST ? marked(text, at, depth, budget) : null;
    case "!":
      return text[at + 1] === "[" ? link(text, at + 1, depth, budget) : null;
    case "[":
      return depth < DEEPEST ? link(text, at, depth, budget) : null;
    case "<": {
      const end = find(text, ">", at + 1, budget);
      const to = end < 0 ? "" : text.slice(at + 1, end);
      return URL_START.test(to) && !/\s/.test(to) ? [{ kind: "link", to, inside: [{ kind: "text", text: to }] }, end + 1] : null;
    }
    case "h":
    case "H": {
      if (!URL_START.test(text.slice(at, at + 8)) || /\w/.test(text[at - 1] ?? "")) return null;
      let end = at;
      while (end < text.length && !/[\s<>]/.test(text[end]!)) end++;
      while (end > at && /[.,:;!?'")\]*_~]/.test(text[end - 1]!)) end--;
      budget.left -= end - at;
      const to = text.slice(at, end);
      return [{ kind: "link", to, inside: [{ kind: "text", text: to }] }, end];
    }
    default:
      return null;
  }
}

/** `indexOf` that counts what it looks at. */
function find(text: string, what: string, from: number, budget: Budget): number {
  if (budget.left <= 0) return -1;
  const end = text.indexOf(what, from);
  budget.left -= (end < 0 ? text.length : end) - from + 1;
  return end;
}

function runAt(text: string, at: number): number {
  let end = at;
  while (text[end] === text[at]) end++;
  return end - at;
}

function code(text: string, at: number, budget: Budget): [Inline, number] | null {
  const size = runAt(text, at);
  const sign = "`".repeat(size);
  let end = find(text, sign, at + size, budget);
  while (end >= 0 && runAt(text, end) !== size) end = find(text, sign, end + runAt(text, end), budget);
  if (end < 0) return null;
  const inner = text.slice(at + size, end);
  const isPadded = inner.startsWith(" ") && inner.endsWith(" ") && inner.trim();
  return [{ kind: "code", text: isPadded ? inner.slice(1, -1) : inner }, end + size];
}

function marked(text: string, at: number, depth: number, budget: Budget): [Inline, number] | null {
  const sign = text[at]!;
  const size = runAt(text, at);
  const isDeleted = sign === "~";
  if (isDeleted ? size !== 2 : size > 3) return null;
  if (/\s/.test(text[at + size] ?? " ")) return null;
  if (sign === "_" && /[\p{L}\p{N}]/u.test(text[at - 1] ?? "")) return null;
  const marks = sign.repeat(size);
  let end = find(text, marks, at + size, budget);
  while (end >= 0) {
    const run = runAt(text, end);
    const isIn = sign === "_" && /[\p{L}\p{N}]/u.test(text[end + run] ?? "");
    if (run === size && !/\s/.test(text[end - 1]!) && !isIn) break;
    end = find(text, marks, end + run, budget);
  }
  if (end < 0) return null;
  const inside = inlineOf(text.slice(at + size, end), depth + 1, budget);
  const next = end + size;
  if (isDeleted) return [{ kind: "deleted", inside }, next];
  if (size === 1) return [{ kind: "emphasis", inside }, next];
  if (size === 2) return [{ kind: "strong", inside }, next];
  return [{ kind: "strong", inside: [{ kind: "emphasis", inside }] }, next];
}

/** `[words](address)`; of an image its words too: nothing is loaded. */
function link(text: string, at: number, depth: number, budget: Budget): [Inline, number] | null {
  let open = 0;
  let end = at;
  for (; end < text.length && budget.left > 0; end++) {
    budget.left--;
    if (text[end] === "\\") end++;
    else if (text[end] === "[") open++;
    else if (text[end] === "]" && --open === 0) break;
  }
  if (open !== 0 || text[end + 1] !== "(") return null;
  const close = find(text, ")", end + 2, budget);
  if (close < 0) return null;
  const to = text.slice(end + 2, close).trim().split(/\s/)[0] ?? "";
  const words = text.slice(at + 1, end);
  const inside = inlineOf(words || to, depth + 1, budget);
  return [{ kind: "link", to: to.replace(/^<|>$/g, ""), inside }, close + 1];
}
