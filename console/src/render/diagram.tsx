/** A diagram, drawn from what `mermaid.ts` understood of it, or its source. Words of the text become words of the drawing. */

import { useMemo, useState } from "preact/hooks";
import { number, t } from "../i18n";
import Code from "./code";
import { LINE, type Picture, pictureOf, type Placed, type Point, wrapped } from "./layers";
import { diagramOf, type Direction, type Edge, type Flow, type Sequence, type Shape } from "./mermaid";

export default function Diagram({ text, language }: { text: string; language: string }) {
  const [isSource, setSource] = useState(false);
  const drawn = useMemo(() => drawingOf(text), [text]);
  if (!drawn) {
    return (
      <>
        <p class="soft small">{t("part.diagram.none")}</p>
        <Code text={text} language={language} />
      </>
    );
  }
  return (
    <figure class="diagram" data-diagram={drawn.kind}>
      <button type="button" class="quiet" aria-pressed={isSource} onClick={() => setSource(!isSource)}>
        {t("part.source")}
      </button>
      {isSource ? (
        <Code text={text} language={language} />
      ) : (
        <div class="scroll" tabIndex={0}>
          {drawn.kind === "flow" ? <FlowView flow={drawn.flow} picture={drawn.picture} /> : <SequenceView sequence={drawn.sequence} />}
        </div>
      )}
      {drawn.isPart && !isSource && <figcaption class="soft small">{t("part.diagram.part")}</figcaption>}
    </figure>
  );
}

type Drawing =
  | { kind: "flow"; flow: Flow; picture: Picture; isPart: boolean }
  | { kind: "sequence"; sequence: Sequence; isPart: boolean };

function drawingOf(text: string): Drawing | null {
  const found = diagramOf(text);
  if (!found) return null;
  const { isPart } = found;
  if (found.kind === "sequence") return { kind: "sequence", sequence: found, isPart };
  const picture = pictureOf(found);
  return picture && { kind: "flow", flow: found, picture, isPart };
}

/** Lines of words around a point. */
function Words({ x, y, lines, anchor = "middle" }: { x: number; y: number; lines: string[]; anchor?: "start" | "middle" }) {
  const top = y - ((lines.length - 1) * LINE) / 2 + 4.5;
  return (
    <text text-anchor={anchor}>
      {lines.map((line, i) => (
        <tspan key={i} x={x} y={top + i * LINE}>
          {line}
        </tspan>
      ))}
    </text>
  );
}

function Outline({ at: { x, y, width, height }, shape }: { at: Placed; shape: Shape }) {
  if (shape === "circle") return <circle class="node" cx={x} cy={y} r={width / 2} />;
  if (shape === "diamond") {
    return <polygon class="node" points={`${x},${y - height / 2} ${x + width / 2},${y} ${x},${y + height / 2} ${x - width / 2},${y}`} />;
  }
  const radius = shape === "round" ? height / 2 : 6;
  return <rect class="node" x={x - width / 2} y={y - height / 2} width={width} height={height} rx={Math.min(radius, 24)} />;
}

const SELF = 36; // how far an edge reaches out that comes back to its node

function FlowView({ flow, picture }: { flow: Flow; picture: Picture }) {
  const hasSelf = flow.edges.some(({ from, to }) => from === to);
  const [width, height] = [picture.width + (hasSelf ? 2 * SELF : 0), picture.height];
  const label = t("part.diagram.flow", { nodes: number(flow.nodes.length), edges: number(flow.edges.length) });
  // Edges between the same two nodes run side by side.
  const twins = new Map<string, number[]>();
  flow.edges.forEach(({ from, to }, i) => {
    const pair = `${Math.min(from, to)} ${Math.max(from, to)}`;
    twins.set(pair, [...(twins.get(pair) ?? []), i]);
  });
  const shift: number[] = [];
  for (const all of twins.values()) all.forEach((edge, i) => (shift[edge] = (i - (all.length - 1) / 2) * 24));
  return (
    <svg viewBox={`0 0 ${width} ${height}`} width={width} height={height} role="img" aria-label={label}>
      {flow.edges.map((edge, i) => (
        <EdgeView key={i} edge={edge} points={picture.edges[i]!} label={picture.labels[i]!} picture={picture} direction={flow.direction} shift={shift[i]!} />
      ))}
      {flow.nodes.map((node, i) => (
        <g key={i} data-node={node.id}>
          <Outline at={picture.nodes[i]!} shape={node.shape} />
          <Words x={picture.nodes[i]!.x} y={picture.nodes[i]!.y} lines={picture.nodes[i]!.lines} />
        </g>
      ))}
    </svg>
  );
}

function EdgeView(props: { edge: Edge; points: Point[]; label: Point | null; picture: Picture; direction: Direction; shift: number }) {
  const { edge, label, picture, direction, shift } = props;
  const isAcross = direction === "LR" || direction === "RL";
  const [from, to] = [picture.nodes[edge.from]!, picture.nodes[edge.to]!];
  if (edge.from === edge.to) {
    const right = from.x + from.width / 2;
    const path = `M${right} ${from.y - 8}C${right + SELF} ${from.y - 20} ${right + SELF} ${from.y + 20} ${right} ${from.y + 8}`;
    return (
      <g class={`edge ${edge.line}`}>
        <path d={path} />
        {edge.hasHead && <Head x={right} y={from.y + 8} dx={-1} dy={0} />}
        <Label text={edge.text} x={right + SELF} y={from.y} />
      </g>
    );
  }
  // From border to border: in the direction of the layers, so heads stand straight.
  const points = props.points.map((point) => (isAcross ? { x: point.x, y: point.y + shift } : { x: point.x + shift, y: point.y }));
  const sign = Math.sign(isAcross ? points[1]!.x - points[0]!.x : points[1]!.y - points[0]!.y);
  const [dx, dy] = isAcross ? [sign, 0] : [0, sign];
  const last = points.length - 1;
  points[0] = { x: points[0]!.x + (dx * from.width) / 2, y: points[0]!.y + (dy * from.height) / 2 };
  points[last] = { x: points[last]!.x - (dx * to.width) / 2, y: points[last]!.y - (dy * to.height) / 2 };
  let path = `M${points[0].x} ${points[0].y}`;
  for (let i = 1; i <= last; i++) {
    const [a, b] = [points[i - 1]!, points[i]!];
    path += isAcross
      ? `C${(a.x + b.x) / 2} ${a.y} ${(a.x + b.x) / 2} ${b.y} ${b.x} ${b.y}`
      : `C${a.x} ${(a.y + b.y) / 2} ${b.x} ${(a.y + b.y) / 2} ${b.x} ${b.y}`;
  }
  return (
    <g class={`edge ${edge.line}`}>
      <path d={path} />
      {edge.hasHead && <Head {...points[last]} dx={dx} dy={dy} />}
      {edge.hasTail && <Head {...points[0]} dx={-dx} dy={-dy} />}
      {label && <Label text={edge.text} x={label.x + (isAcross ? 0 : shift)} y={label.y + (isAcross ? shift : 0)} />}
    </g>
  );
}

/** The head of an arrow: at a point, in a direction. */
function Head({ x, y, dx, dy }: Point & { dx: number; dy: number }) {
  const [backX, backY] = [x - dx * 8, y - dy * 8];
  return <polygon class="head" points={`${x},${y} ${backX - dy * 4},${backY + dx * 4} ${backX + dy * 4},${backY - dx * 4}`} />;
}

function Label({ text, x, y }: { text: string; x: number; y: number }) {
  if (!text) return null;
  const { lines, width, height } = wrapped(text);
  return (
    <>
      <rect class="behind" x={x - width / 2 - 3} y={y - height / 2} width={width + 6} height={height} />
      <Words x={x} y={y} lines={lines} />
    </>
  );
}

const NAMES = 40; // how high the names of a sequence stand
const REACH = 44; // of a message to oneself

function SequenceView({ sequence: { title, people, rows } }: { sequence: Sequence }) {
  const names = people.map(wrapped);
  const nameHeight = Math.max(NAMES, ...names.map(({ height }) => height + 18));
  const centers = columnsOf(people, rows);
  const last = people.length - 1;
  const width = centers[last]! + roomBeside(rows, last, "right") + names[last]!.width / 2 + 28;
  const top = (title ? 28 : 0) + 8;
  let y = top + nameHeight + 16;
  const open: { y: number; depth: number }[] = [];
  const frames: { y: number; height: number; depth: number }[] = [];
  const drawn = rows.map((row, i) => {
    if (row.kind === "close") {
      const frame = open.pop()!;
      frames.push({ ...frame, height: y + 4 - frame.y });
      y += 16;
      return null;
    }
    const words = wrapped(row.text);
    if (row.kind === "open") open.push({ y, depth: open.length });
    if (row.kind === "open" || row.kind === "divide") {
      const inset = 8 + (open.length - 1) * 6;
      const line = y;
      y += words.height + 14;
      return (
        <g key={i} class="block">
          {row.kind === "divide" && <path d={`M${inset} ${line}H${width - inset}`} />}
          <Words x={inset + 8} y={line + 6 + words.height / 2} lines={words.lines} anchor="start" />
        </g>
      );
    }
    const [from, to] = [centers[row.from]!, centers[row.to]!];
    if (row.kind === "note") {
      const wide = Math.max(words.width + 20, row.side === "over" ? to - from + 40 : 0);
      const x = row.side === "over" ? (from + to) / 2 : row.side === "left" ? from - wide / 2 - 8 : to + wide / 2 + 8;
      const middle = y + words.height / 2 + 6;
      y += words.height + 24;
      return (
        <g key={i} class="note">
          <rect x={x - wide / 2} y={middle - words.height / 2 - 6} width={wide} height={words.height + 12} rx="4" />
          <Words x={x} y={middle} lines={words.lines} />
        </g>
      );
    }
    const isSelf = from === to;
    const side = Math.sign(to - from) || -1;
    const height = row.text ? words.height : 4;
    const line = y + height + 4;
    const end = isSelf ? line + 16 : line;
    y = end + 20;
    const path = isSelf ? `M${from} ${line}h${REACH}v16h${-REACH}` : `M${from} ${line}H${to}`;
    return (
      <g key={i} class={`edge ${row.isDashed ? "dashed" : "plain"}`} data-message={i}>
        <path d={path} />
        {row.head === "arrow" && <Head x={to} y={end} dx={side} dy={0} />}
        {row.head === "cross" && <path d={`M${to - 5} ${end - 5}l10 10m0 -10l-10 10`} />}
        {row.hasTail && <Head x={from} y={line} dx={-side} dy={0} />}
        {row.text && <Words x={isSelf ? from + 8 : (from + to) / 2} y={line - height / 2 - 3} lines={words.lines} anchor={isSelf ? "start" : "middle"} />}
      </g>
    );
  });
  const messages = rows.filter((row) => row.kind === "message").length;
  const label = t("part.diagram.sequence", { people: number(people.length), messages: number(messages) });
  return (
    <svg viewBox={`0 0 ${width} ${y + 8}`} width={width} height={y + 8} role="img" aria-label={label}>
      {title && <Words x={width / 2} y={16} lines={[title]} />}
      {centers.map((x, i) => (
        <path key={i} class="life" d={`M${x} ${top + nameHeight}V${y}`} />
      ))}
      {frames.map((frame, i) => (
        <rect key={i} class="frame" x={8 + frame.depth * 6} width={width - 16 - frame.depth * 12} y={frame.y} height={frame.height} rx="6" />
      ))}
      {centers.map((x, i) => (
        <g key={i} data-person={people[i]}>
          <rect class="node" x={x - names[i]!.width / 2 - 14} y={top} width={names[i]!.width + 28} height={nameHeight} rx="6" />
          <Words x={x} y={top + nameHeight / 2} lines={names[i]!.lines} />
        </g>
      ))}
      {drawn}
    </svg>
  );
}

/** How much room the words beside one of the people take. */
function roomBeside(rows: Sequence["rows"], who: number, side: "left" | "right"): number {
  let room = 0;
  for (const row of rows) {
    if (row.kind === "note" && row.from === who && row.to === who) {
      const { width } = wrapped(row.text);
      if (row.side === side) room = Math.max(room, width + 28);
      if (row.side === "over") room = Math.max(room, width / 2 + 10);
    }
    if (row.kind === "message" && row.from === who && row.to === who && side === "right") {
      room = Math.max(room, REACH, wrapped(row.text).width + 16);
    }
  }
  return room;
}

/** Where the people of a sequence stand: so far apart that names, words and notes have room. */
function columnsOf(people: string[], rows: Sequence["rows"]): number[] {
  const names = people.map((name) => wrapped(name).width);
  const gaps = people.map((_, i) => {
    if (!i) return Math.max(names[0]! / 2 + 24, roomBeside(rows, 0, "left") + 20);
    return Math.max((names[i - 1]! + names[i]!) / 2 + 56, roomBeside(rows, i - 1, "right") + roomBeside(rows, i, "left") + 16);
  });
  for (const row of rows) {
    if (row.kind !== "message" || row.from === row.to) continue;
    const [left, right] = [Math.min(row.from, row.to), Math.max(row.from, row.to)];
    const each = (wrapped(row.text).width + 28) / (right - left);
    for (let i = left + 1; i <= right; i++) gaps[i] = Math.max(gaps[i]!, each);
  }
  let x = 0;
  return gaps.map((gap) => (x += gap));
}
