/** The agents of a hub, and who called whom of late: an arrow for each pair, thicker for more calls. */

import * as hub from "../api/hub";
import { number, t } from "../i18n";
import { go, me } from "../state";
import { usePolled } from "../ui/polled";
import { visible } from "../ui/text";
import { entryName } from "./address";

const TRACES = 20;
const MOST = 16;

interface Graph {
  nodes: { name: string; health: string }[];
  edges: { from: string; to: string; count: number }[];
}

/** Who called whom, from the spans of traces: a parent's agent calls its child's. */
export function edgesOf(traces: hub.Span[][]): Graph["edges"] {
  const counts = new Map<string, number>();
  for (const spans of traces) {
    const agents = new Map(spans.map((one) => [one.task, entryName(one.agent)]));
    for (const one of spans) {
      const from = agents.get(one.parent);
      const to = entryName(one.agent);
      if (from === undefined || from === to) continue;
      counts.set(`${from}\n${to}`, (counts.get(`${from}\n${to}`) ?? 0) + 1);
    }
  }
  return [...counts].map(([key, count]) => {
    const [from = "", to = ""] = key.split("\n");
    return { from, to, count };
  });
}

async function read(): Promise<Graph> {
  const [{ agents }, { traces }] = await Promise.all([hub.agents(), hub.traces()]);
  const found = await Promise.all(traces.slice(0, TRACES).map((one) => hub.trace(one.id).catch(() => ({ spans: [] }))));
  const edges = edgesOf(found.map((one) => one.spans));
  const busy = new Set(edges.flatMap((edge) => [edge.from, edge.to]));
  const known = new Map(agents.map((one) => [one.name, one.health.state]));
  // Who calls or is called, and who is in trouble; without any of these, the first few.
  const troubled = agents.filter((one) => one.health.state !== "up" && one.health.state !== "new").map((one) => one.name);
  const wanted = new Set([...busy, ...troubled]);
  const names = (wanted.size ? [...wanted] : [...known.keys()]).slice(0, MOST);
  return { nodes: names.map((name) => ({ name, health: known.get(name) ?? "up" })), edges };
}

export function AgentMap() {
  return me.value!.mode === "hub" ? <Drawn /> : null;
}

const ANCHORS = ["end", "middle", "start"] as const;
/** On which side of the middle a place is: names stand outside of the circle. */
const side = (x: number): -1 | 0 | 1 => (Math.abs(x - 250) < 20 ? 0 : x < 250 ? -1 : 1);

function Drawn() {
  const { value: graph } = usePolled(read, 15_000);
  if (!graph?.nodes.length) return null;
  const radius = 150;
  const place = new Map(
    graph.nodes.map(({ name }, i) => {
      const angle = (i / graph.nodes.length) * 2 * Math.PI - Math.PI / 2;
      return [name, { x: 250 + radius * 0.9 * Math.cos(angle), y: 180 + radius * 0.95 * Math.sin(angle) }] as const;
    }),
  );
  return (
    <section data-section="map">
      <h2>{t("now.map")}</h2>
      <div class="card">
        <svg class="map" viewBox="0 0 500 360" role="group" aria-label={t("now.map.label", { agents: number(graph.nodes.length), edges: number(graph.edges.length) })}>
          {graph.edges.map((edge) => {
            const from = place.get(edge.from);
            const to = place.get(edge.to);
            if (!from || !to) return null;
            const bend = { x: (from.x + to.x) / 2 + (250 - (from.x + to.x) / 2) * 0.35, y: (from.y + to.y) / 2 + (180 - (from.y + to.y) / 2) * 0.35 };
            return (
              <path
                key={`${edge.from} ${edge.to}`}
                class="edge"
                d={`M${from.x} ${from.y}Q${bend.x} ${bend.y} ${to.x} ${to.y}`}
                stroke-width={Math.min(6, 1 + Math.log2(edge.count + 1))}
              >
                <title>{t("now.map.edge", { from: visible(edge.from), to: visible(edge.to), count: number(edge.count) })}</title>
              </path>
            );
          })}
          {graph.nodes.map(({ name, health }) => {
            const { x, y } = place.get(name)!;
            return (
              <a
                key={name}
                class={`node health ${health}`}
                href={`/console/agents/${encodeURIComponent(name)}`}
                onClick={(event) => {
                  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
                  event.preventDefault();
                  go(`agents/${encodeURIComponent(name)}`);
                }}
              >
                <circle cx={x} cy={y} r="7" />
                <text x={x + 12 * side(x)} y={y + (side(x) ? 4 : y > 180 ? 22 : -14)} text-anchor={ANCHORS[side(x) + 1]}>
                  {visible(name).slice(0, 20)}
                </text>
              </a>
            );
          })}
        </svg>
      </div>
    </section>
  );
}
