/** The lanes of a task, drawn on one axis. The list of events beside it says the same in words. */

import type { Entry } from "../api/types";
import { word } from "../fold";
import { span, t } from "../i18n";
import { axisOf } from "./axis";

const WIDTH = 1000;
const LEFT = 90;
const LANE = 26;

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

export function Timeline({ entries, at }: { entries: Entry[]; at: number }) {
  const axis = axisOf(entries.map((entry) => entry.at));
  const lanes = Object.entries(lanesOf(entries)).filter(([name, marks]) => marks.length || name === "state");
  const x = (time: number) => LEFT + axis.place(time) * (WIDTH - LEFT - 10);
  const height = lanes.length * LANE + 20;
  const now = entries[at];
  return (
    <svg class="timeline" viewBox={`0 0 ${WIDTH} ${height}`} role="img" aria-label={t("task.timeline")}>
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
        </g>
      ))}
      {now && <line x1={x(now.at)} x2={x(now.at)} y1="0" y2={height - 18} stroke="var(--ink)" stroke-width="1.5" />}
    </svg>
  );
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
