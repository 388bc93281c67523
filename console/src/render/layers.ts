/** Places for the nodes of a flowchart: in layers, so that arrows point one way, with few crossings. The work is bounded. */

import { visible } from "../ui/text";
import type { Direction, Flow } from "./mermaid";

const LETTER = 7.4; // pixels, of the font in the drawing
const WIDE = 13.5; // of Chinese and the like
export const LINE = 18;
const LINE_LETTERS = 26;
const MOST_LINES = 6;
const GAP = 28; // between two nodes of a layer
const BETWEEN = 36; // between two layers
const MOST = 3_000; // bends of long edges
const SWEEPS = 8;

export interface Placed {
  x: number; // the middle
  y: number;
  width: number;
  height: number;
  lines: string[];
}

export interface Point {
  x: number;
  y: number;
}

export interface Picture {
  width: number;
  height: number;
  nodes: Placed[];
  edges: Point[][]; // the points each edge goes through
  labels: (Point | null)[]; // where the words of each edge stand
}

const widthOf = (text: string): number => [...text].reduce((sum, one) => sum + (one.codePointAt(0)! > 0x2e7f ? WIDE : LETTER), 0);

/** Return words in lines of a length that can be read, and the size they take. */
export function wrapped(text: string): { lines: string[]; width: number; height: number } {
  const lines: string[] = [];
  for (const given of text.split("\n")) {
    let line = "";
    for (const word of visible(given).split(" ")) {
      if (line && widthOf(`${line} ${word}`) > LINE_LETTERS * LETTER) {
        lines.push(line);
        line = word;
      } else line = line ? `${line} ${word}` : word;
      while (widthOf(line) > LINE_LETTERS * LETTER * 1.3) {
        const letters = [...line];
        const cut = Math.max(1, Math.floor((letters.length * LINE_LETTERS * LETTER) / widthOf(line)));
        lines.push(letters.slice(0, cut).join(""));
        line = letters.slice(cut).join("");
      }
    }
    lines.push(line);
  }
  if (lines.length > MOST_LINES) lines.splice(MOST_LINES, Infinity, "…");
  return { lines, width: Math.max(...lines.map(widthOf)), height: lines.length * LINE };
}

/** Return where everything is; null if that takes more work than it may. */
export function pictureOf(flow: Flow): Picture | null {
  const isAcross = flow.direction === "LR" || flow.direction === "RL";
  const sizes = flow.nodes.map(({ text, shape }) => {
    const words = wrapped(text);
    const factor = shape === "diamond" ? 1.5 : shape === "circle" ? 1.25 : 1;
    const size = { width: words.width * factor + 28, height: words.height * factor + 18 };
    if (shape === "circle") size.width = size.height = Math.max(size.width, size.height);
    return { ...size, lines: words.lines };
  });
  const ends = acyclic(flow);
  const rank = ranks(flow.nodes.length, ends, flow.edges.map(({ text }) => (text ? 2 : 1)));

  const bends = ends.reduce((sum, [from, to]) => sum + Math.max(0, rank[to]! - rank[from]! - 1), 0);
  if (bends > MOST) return null;

  // A long edge bends at each layer it passes. Its words stand at the first bend.
  const layers: number[][] = Array.from({ length: Math.max(...rank) + 1 }, () => []);
  const breadth: number[] = sizes.map((size) => (isAcross ? size.height : size.width)); // within its layer
  const depth: number[] = sizes.map((size) => (isAcross ? size.width : size.height));
  rank.forEach((layer, node) => layers[layer]!.push(node));
  const above: number[][] = breadth.map(() => []);
  const below: number[][] = breadth.map(() => []);
  const paths: number[][] = [];
  const labelled: (number | null)[] = [];
  ends.forEach(([from, to], edge) => {
    const { text } = flow.edges[edge]!;
    const words = text ? wrapped(text) : null;
    labelled.push(words && from !== to ? breadth.length : null);
    const path = [from];
    if (from !== to) {
      for (let layer = rank[from]! + 1; layer < rank[to]!; layer++) {
        const isLabel = words && layer === rank[from]! + 1;
        const bend = breadth.push(!isLabel ? 8 : isAcross ? words.height : words.width) - 1;
        depth.push(!isLabel ? 0 : isAcross ? words.width + 8 : words.height);
        above.push([]);
        below.push([]);
        layers[layer]!.push(bend);
        path.push(bend);
      }
      path.push(to);
      for (let i = 1; i < path.length; i++) {
        below[path[i - 1]!]!.push(path[i]!);
        above[path[i]!]!.push(path[i - 1]!);
      }
    }
    paths.push(path);
  });

  // Each node near the middle of its neighbours, now of those above, now of those below.
  const place: number[] = breadth.map(() => 0);
  for (const layer of layers) spread(layer, breadth, place, layer.map((_, i) => i * 60));
  const middle = (node: number, beside: number[][]) => {
    const near = beside[node]!;
    return near.length ? near.reduce((sum, one) => sum + place[one]!, 0) / near.length : place[node]!;
  };
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const isDown = sweep % 2 === 0;
    for (const layer of isDown ? layers : [...layers].reverse()) {
      const wish = new Map(layer.map((node) => [node, middle(node, isDown ? above : below)]));
      if (sweep < SWEEPS / 2) layer.sort((a, b) => wish.get(a)! - wish.get(b)!);
      spread(layer, breadth, place, layer.map((node) => wish.get(node)!));
    }
  }

  const line: number[] = []; // the middle of each layer
  let sum = 12;
  layers.forEach((layer, i) => {
    const deepest = Math.max(...layer.map((node) => depth[node]!));
    line.push(sum + deepest / 2);
    sum += deepest + (i + 1 < layers.length ? BETWEEN : 12);
  });
  const least = Math.min(...place.map((at, node) => at - breadth[node]! / 2)) - 12;
  const most = Math.max(...place.map((at, node) => at + breadth[node]! / 2)) + 12 - least;
  const spots: Point[] = [];
  layers.forEach((layer, i) => {
    for (const node of layer) spots[node] = turned({ x: place[node]! - least, y: line[i]! }, flow.direction, sum);
  });
  const [width, height] = isAcross ? [sum, most] : [most, sum];
  const nodes = sizes.map((size, i) => ({ ...spots[i]!, ...size }));
  const edges = paths.map((path, i) => {
    const points = path.map((node) => spots[node]!);
    return ends[i]![2] ? points.reverse() : points;
  });
  return { width, height, nodes, edges, labels: labelled.map((bend) => (bend === null ? null : spots[bend]!)) };
}

function turned({ x, y }: Point, direction: Direction, length: number): Point {
  if (direction === "TB") return { x, y };
  if (direction === "BT") return { x, y: length - y };
  return direction === "LR" ? { x: y, y: x } : { x: length - y, y: x };
}

type End = [from: number, to: number, isTurned: boolean];

/** Turn edges round that would close a circle. */
function acyclic({ nodes, edges }: Flow): End[] {
  const out: number[][] = nodes.map(() => []);
  edges.forEach(({ from }, i) => out[from]!.push(i));
  const turned = new Set<number>();
  const state = nodes.map(() => 0); // 1: being looked at, 2: done
  nodes.forEach((_, root) => {
    if (state[root]) return;
    state[root] = 1;
    const stack: [number, number][] = [[root, 0]];
    while (stack.length) {
      const top = stack[stack.length - 1]!;
      const edge = out[top[0]]![top[1]++];
      if (edge === undefined) {
        state[top[0]] = 2;
        stack.pop();
        continue;
      }
      const to = edges[edge]!.to;
      if (state[to] === 1) turned.add(edge);
      else if (!state[to]) {
        state[to] = 1;
        stack.push([to, 0]);
      }
    }
  });
  return edges.map(({ from, to }, i) => (turned.has(i) ? [to, from, true] : [from, to, false]));
}

/** The layer of each node: as far below those that point at it as their edges are long. */
function ranks(count: number, ends: End[], lengths: number[]): number[] {
  const rank = Array.from({ length: count }, () => 0);
  const waits = Array.from({ length: count }, () => 0);
  const out: [to: number, length: number][][] = Array.from({ length: count }, () => []);
  ends.forEach(([from, to], i) => {
    if (from === to) return;
    out[from]!.push([to, lengths[i]!]);
    waits[to]!++;
  });
  const ready = rank.flatMap((_, node) => (waits[node] ? [] : [node]));
  for (let node = ready.pop(); node !== undefined; node = ready.pop()) {
    for (const [to, length] of out[node]!) {
      rank[to] = Math.max(rank[to]!, rank[node]! + length);
      if (--waits[to]! === 0) ready.push(to);
    }
  }
  return rank;
}

/** Put the nodes of a layer as near to where they wish as their order and breadth allow. */
function spread(layer: number[], breadth: number[], place: number[], wish: number[]): void {
  const offset: number[] = [];
  layer.forEach((node, i) => {
    offset.push(i ? offset[i - 1]! + (breadth[layer[i - 1]!]! + breadth[node]!) / 2 + GAP : 0);
  });
  // Neighbours that would overlap move together, to the mean of their wishes.
  const blocks: { sum: number; count: number }[] = [];
  layer.forEach((_, i) => {
    let block = { sum: wish[i]! - offset[i]!, count: 1 };
    for (let last = blocks[blocks.length - 1]; last && last.sum / last.count >= block.sum / block.count; last = blocks[blocks.length - 1]) {
      block = { sum: block.sum + last.sum, count: block.count + last.count };
      blocks.pop();
    }
    blocks.push(block);
  });
  let i = 0;
  for (const { sum, count } of blocks) {
    for (let n = 0; n < count; n++, i++) place[layer[i]!] = sum / count + offset[i]!;
  }
}
