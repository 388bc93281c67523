/** The lanes of a task, drawn on one axis. The list of events beside it says the same in words. */

import type { Entry } from "../../api/types";
import { word } from "../../fold";
import { span, stateWord, t } from "../../i18n";
import { visible } from "../../ui/text";
import { axisOf } from "./axis";

const WIDTH = 1000;
const LEFT = 90;
const LANE = 26;
const TICKS = 6;

interface Mark {
  at: number;
  to?: number;
  title: string;
  color: string;
  isPoint?: boolean;
}

const COLORS: { [state: string]: string } = {
  submitted: "var(--idle)",
  working: "var(--accent)",
  "input-required": "var(--wait)",
  "auth-required": "var(--wait)",
  completed: "var(--good)",
  failed: "var(--bad)",
  canceled: "var(--bad)",
  rejected: "var(--bad)",
};

export function lanesOf(entries: Entry[]): { [lane: string]: Mark[] } {
  const lanes: { [lane: string]: Mark[] } = { state: [], messages: [], steps: [], artifacts: [], delegated: [] };
  let before = entries[0]?.at ?? 0;
  for (const entry of entries) {
    const status = entry.event?.statusUpdate?.status ?? entry.event?.task?.status;
    if (status) {
      const open = lanes["state"]![lanes["state"]!.length - 1];
      if (open) open.to = entry.at;
      const state = word(status.state);
      lanes["state"]!.push({ at: entry.at, title: state, color: COLORS[state] ?? "var(--idle)" });
    }
    if (entry.event?.task || entry.message) {
      lanes["messages"]!.push({ at: entry.at, title: entry.kind, color: "var(--ink)", isPoint: true });
    }
    if (status?.message) {
      lanes["messages"]!.push({ at: entry.at, title: word(status.state), color: "var(--accent)", isPoint: true });
    }
    const artifact = entry.event?.artifactUpdate?.artifact;
    if (artifact) {
      const title = artifact.name || artifact.artifactId;
      lanes["artifacts"]!.push({ at: entry.at, title, color: "var(--good)", isPoint: true });
    }
    if (entry.kind === "StepEnded") {
      const isBad = !!entry.data?.["type"];
      const title = String(entry.data?.["name"] ?? "");
      lanes["steps"]!.push({ at: before, to: entry.at, title, color: isBad ? "var(--bad)" : "var(--accent)" });
    }
    if (entry.kind === "Attempt") {
      lanes["steps"]!.push({ at: entry.at, title: entry.kind, color: "var(--wait)", isPoint: true });
    }
    if (entry.kind === "Delegated") {
      lanes["delegated"]!.push({ at: entry.at, title: String(entry.data?.["agent"] ?? ""), color: "var(--accent)", isPoint: true });
    }
    before = entry.at;
  }
  return lanes;
}

export function Timeline({ entries, at, onMove }: { entries: Entry[]; at: number; onMove: (to: number) => void }) {
  const axis = axisOf(entries.map((entry) => entry.at));
  const lanes = Object.entries(lanesOf(entries)).filter(([name, marks]) => marks.length || name === "state");
  const x = (time: number) => LEFT + axis.place(time) * (WIDTH - LEFT - 10);
  const height = lanes.length * LANE + 20;
  const now = entries[at];
  const first = entries[0]?.at ?? 0;
  const length = (entries[entries.length - 1]?.at ?? first) - first;
  // A tick where nothing was folded: else its time would stand in a wrong place.
  const ticks = axis.folds.length ? [] : ticksOf(length);
  /** The entry nearest to where one has clicked. */
  const choose = (event: MouseEvent) => {
    const box = (event.currentTarget as SVGElement).getBoundingClientRect();
    const wanted = ((event.clientX - box.left) / box.width) * WIDTH;
    let nearest = 0;
    entries.forEach((entry, i) => {
      if (Math.abs(x(entry.at) - wanted) < Math.abs(x(entries[nearest]!.at) - wanted)) nearest = i;
    });
    onMove(nearest);
  };
  return (
    <svg class="timeline" viewBox={`0 0 ${WIDTH} ${height}`} role="img" aria-label={t("task.timeline")} onClick={choose}>
      {ticks.map((ms) => (
        <g key={ms}>
          <line x1={x(first + ms)} x2={x(first + ms)} y1="0" y2={height - 18} stroke="var(--line)" />
          <text x={x(first + ms)} y={height - 4} text-anchor={ms > length * 0.97 ? "end" : "middle"}>
            {ms ? span(ms) : "0"}
          </text>
        </g>
      ))}
      {axis.folds.map((fold) => (
        <g key={fold.from}>
          <rect x={x(fold.from)} width={x(fold.to) - x(fold.from)} y="0" height={height - 18} fill="var(--sheet)" />
          <text x={(x(fold.from) + x(fold.to)) / 2} y={height - 4} text-anchor="middle">
            {t("task.folded", { time: span(fold.to - fold.from) })}
          </text>
        </g>
      ))}
      {lanes.map(([name, marks], lane) => (
        <g key={name} data-lane={name}>
          <text x="0" y={lane * LANE + 17}>
            {t(`task.lane.${name}` as "task.lane.state")}
          </text>
          {merged(marks, x).map((mark, i) =>
            mark.isPoint ? (
              <circle key={i} cx={x(mark.at)} cy={lane * LANE + 13} r="5" fill={mark.color}>
                <title>{mark.title}</title>
              </circle>
            ) : (
              <rect
                key={i}
                x={x(mark.at)}
                y={lane * LANE + 7}
                width={Math.max(3, x(mark.to ?? mark.at) - x(mark.at))}
                height="12"
                rx="2"
                fill={mark.color}
              >
                <title>{mark.title}</title>
              </rect>
            ),
          )}
          {marks.map((mark, i) => {
            const room = x(mark.to ?? mark.at) - x(mark.at);
            if (mark.isPoint || room < 8 * mark.title.length) return null;
            return (
              <text key={`name-${i}`} class="on-bar" x={x(mark.at) + 4} y={lane * LANE + 16.5}>
                {visible(name === "state" ? stateWord(mark.title) : mark.title)}
              </text>
            );
          })}
        </g>
      ))}
      {now && <line x1={x(now.at)} x2={x(now.at)} y1="0" y2={height - 18} stroke="var(--ink)" stroke-width="1.5" />}
    </svg>
  );
}

/** Round times, a few of them, from 0 to what fits. */
export function ticksOf(length: number): number[] {
  const about = Math.max(1, length / TICKS);
  const unit = [1, 1000, 60_000, 3_600_000].filter((one) => one <= about).pop()!;
  const steps = unit < 60_000 ? [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] : [1, 2, 5, 10, 15, 30, 60, 120, 240];
  const step = unit * (steps.find((one) => one * unit >= about) ?? Math.ceil(about / unit));
  return Array.from({ length: Math.floor(length / step) + 1 }, (_, i) => i * step);
}

/** Points that fall on one pixel are drawn once. */
function merged(marks: Mark[], x: (at: number) => number): Mark[] {
  const seen = new Set<string>();
  return marks.filter((mark) => {
    if (!mark.isPoint) return true;
    const key = `${Math.round(x(mark.at) / 2)} ${mark.color}`;
    if (seen.has(key)) return false;
    seen.add(key);
    return true;
  });
}
