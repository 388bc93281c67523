/** A chart, drawn from what `vega.ts` understood of it. */

import { number, t } from "../i18n";
import { visible } from "../ui/text";
import type { Chart } from "./vega";

const WIDTH = 640;
const HEIGHT = 260;
const LEFT = 56;
const BOTTOM = 40;
const SERIES = 6; // colours
const LEGEND = 60; // letters of a name

export default function ChartView({ chart }: { chart: Chart }) {
  const { rows, mark } = chart;
  const series = [...new Set(rows.map((row) => row.series))];
  const names = [...new Set(rows.map((row) => String(row.x)))];
  const [low, high] = bounds(rows.map((row) => row.y));
  const [from, to] = chart.isNumeric ? span(rows.map((row) => Number(row.x))) : [0, 1];
  const step = (WIDTH - LEFT - 10) / names.length;
  const x = (value: string | number) =>
    chart.isNumeric ? LEFT + ((Number(value) - from) / (to - from || 1)) * (WIDTH - LEFT - 10) : LEFT + (names.indexOf(String(value)) + 0.5) * step;
  const y = (value: number) => HEIGHT - BOTTOM - ((value - low) / (high - low || 1)) * (HEIGHT - BOTTOM - 10);
  const color = (name: string) => `series-${series.indexOf(name) % SERIES}`;
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((share) => low + (high - low) * share);
  const every = Math.ceil(names.length / 10);
  const lower = Math.max(low, Math.min(0, high)); // where bars and areas stand
  return (
    <figure class="chart-of-part" data-chart={mark}>
      {chart.title && <figcaption>{visible(chart.title)}</figcaption>}
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={t("part.chart", { x: visible(chart.x), y: visible(chart.y), count: number(rows.length) })}>
        {ticks.map((value) => (
          <g key={value}>
            <line class="axis" x1={LEFT} x2={WIDTH - 10} y1={y(value)} y2={y(value)} />
            <text x={LEFT - 6} y={y(value) + 4} text-anchor="end">
              {tickOf(value)}
            </text>
          </g>
        ))}
        {(chart.isNumeric ? [...new Set([from, (from + to) / 2, to])].map(String) : names.filter((_, i) => i % every === 0)).map((name) => (
          <text key={name} x={x(chart.isNumeric ? Number(name) : name)} y={HEIGHT - BOTTOM + 16} text-anchor="middle">
            {visible(name).slice(0, 14)}
          </text>
        ))}
        <text x={(LEFT + WIDTH) / 2} y={HEIGHT - 4} text-anchor="middle">
          {visible(chart.x)}
        </text>
        {series.map((name, s) => {
          const own = rows.filter((row) => row.series === name);
          const path = own.map((row, i) => `${i ? "L" : "M"}${x(row.x)} ${y(row.y)}`).join("");
          const [first, last] = [own[0]!, own[own.length - 1]!];
          const width = (step * 0.8) / series.length;
          return (
            <g key={name} class={color(name)}>
              {mark === "area" && <path class="area" d={`${path}L${x(last.x)} ${y(lower)}L${x(first.x)} ${y(lower)}Z`} />}
              {(mark === "line" || mark === "area") && <path class="line" d={path} />}
              {own.map((row, i) => {
                const words = `${visible(String(row.x))} ${visible(name)}: ${number(row.y)}`;
                if (mark === "bar") {
                  const left = x(row.x) - step * 0.4 + s * width;
                  return (
                    <rect key={i} x={left} width={width} y={Math.min(y(row.y), y(lower))} height={Math.max(1, Math.abs(y(row.y) - y(lower)))}>
                      <title>{words}</title>
                    </rect>
                  );
                }
                return (
                  <circle key={i} cx={x(row.x)} cy={y(row.y)} r={mark === "point" ? 4 : 2.5}>
                    <title>{words}</title>
                  </circle>
                );
              })}
            </g>
          );
        })}
      </svg>
      {series.length > 1 && (
        <p class="row small">
          {series.map((name) => (
            <span key={name} class={`legend ${color(name)}`}>
              {visible(name).slice(0, LEGEND)}
            </span>
          ))}
        </p>
      )}
    </figure>
  );
}

/** A value at the axis: two places behind the point, or two digits that are not 0. */
export const tickOf = (value: number): string =>
  value !== 0 && Math.abs(value) < 0.1 ? String(Number(value.toPrecision(2))) : number(Math.round(value * 100) / 100);

const span = (values: number[]): [number, number] => [Math.min(...values), Math.max(...values)];

/** The axis of values begins at 0, unless some are below it. */
function bounds(values: number[]): [number, number] {
  const [low, high] = span(values);
  return low === 0 && high === 0 ? [0, 1] : [Math.min(0, low), Math.max(0, high)];
}
