/** Now: how things go, what failed, what is slow and what waits for somebody. */

import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import * as http from "../api/http";
import { dayOrTime, moment, number, span, t } from "../i18n";
import { go, me, onChange, query } from "../state";
import { Link, Segments, Skeleton, State, Trouble } from "../ui/elements";
import { usePolled } from "../ui/polled";
import { visible } from "../ui/text";
import { addressOf, entryName } from "./address";
import { AgentMap } from "./map";

const WINDOWS = ["hour", "day", "week"] as const;
const POLL_MS = 10_000;

export default function Now() {
  const chosen = query.value.get("window") ?? "";
  const window = WINDOWS.find((name) => name === chosen) ?? "hour";
  const { value: now, error, load } = usePolled(() => http.activity(window), POLL_MS, [window]);
  useEffect(() => onChange((told) => told.isBack && load()), [window]);
  return (
    <>
      <div class="head">
        <h1>{t("nav.now")}</h1>
        <Segments
          of={t("now.window")}
          names={WINDOWS}
          active={window}
          label={(name) => t(`now.window.${name}` as "now.window.hour")}
          onChoose={(name) => go("", { window: name === "hour" ? "" : name }, true)}
        />
      </div>
      {error !== null && <Trouble error={error} onRetry={load} />}
      {now ? <Board now={now} window={window} /> : error === null && <Skeleton />}
    </>
  );
}

function Board({ now, window }: { now: http.Activity; window: string }) {
  const share = now.ended ? now.failed / now.ended : 0;
  const isHub = me.value!.mode === "hub";
  return (
    <>
      {!now.isWhole && <p class="soft">{t("now.part", { time: moment(now.since) })}</p>}
      <div class="board">
        <Tile name="rate" title={t("now.ended")} figure={number(now.ended)} note={rateOf(now)} to="tasks" query={{ since: window }}>
          <Bars buckets={now.buckets} width={now.bucket} />
        </Tile>
        <Tile
          name="errors"
          title={t("now.errors")}
          figure={`${number(Math.round(share * 1000) / 10)} %`}
          note={t("now.errors.of", { failed: number(now.failed), ended: number(now.ended) })}
          to="tasks"
          query={{ state: "failed", since: window }}
        >
          <Bars buckets={now.buckets} width={now.bucket} isFailures />
        </Tile>
        <Tile
          name="duration"
          title={t("now.p50")}
          figure={now.p50 === null ? "–" : span(now.p50)}
          note={t("now.p95", { time: now.p95 === null ? "–" : span(now.p95) })}
          to="tasks"
          query={{ sort: "slow", since: window }}
        >
          <Durations buckets={now.buckets} />
        </Tile>
        <Tile
          name="open"
          title={t("now.streams")}
          figure={number(now.streams)}
          note={t("now.running", { count: number(now.running) })}
          to="tasks"
          query={{ state: "working" }}
        >
          <Open buckets={now.buckets} width={now.bucket} of="streams" />
        </Tile>
        <Tile
          name="waiting"
          title={t("now.waiting")}
          figure={number(now.waiting)}
          note={now.oldest[0] ? t("now.oldest", { time: span(Date.now() - now.oldest[0].at) }) : t("now.needs.none")}
          to="inbox"
        >
          <Open buckets={now.buckets} width={now.bucket} of="waiting" />
        </Tile>
      </div>
      <div class="beside">
        <div>
          <Section name="failures" title={t("now.failures")} empty={t("now.failures.none")} count={now.causes.length}>
            {now.causes.map(({ cause, count, newest, agents }) => (
              <li key={cause + newest.id}>
                <Link to={`tasks/${encodeURIComponent(newest.id)}`} query={addressOf(newest)}>
                  {visible(cause)}
                </Link>
                <span class="numbers">{number(count)} ×</span>
                <span class="soft small">
                  {isHub ? placesOf(agents) : visible(newest.skill || newest.agent)} · {moment(newest.at)}
                </span>
              </li>
            ))}
          </Section>
          <Section name="slowest" title={t("now.slowest")} empty={t("now.slowest.none")} count={now.slowest.length}>
            {now.slowest.map((task) => (
              <li key={task.id}>
                <Link to={`tasks/${encodeURIComponent(task.id)}`} query={addressOf(task)}>
                  {visible(task.title || task.id)}
                </Link>
                <span class="numbers">{span(task.at - task.created)}</span>
                <span class="soft small">
                  {isHub && `${visible(entryName(task.agent))} · `}
                  {visible(task.skill || task.agent)} · {moment(task.at)}
                </span>
              </li>
            ))}
          </Section>
        </div>
        <div>
          <Section name="oldest" title={t("now.needs")} empty={t("now.needs.none")} count={now.oldest.length}>
            {now.oldest.map((task) => (
              <li key={task.id}>
                <Link to="inbox" query={{}}>
                  {visible(task.title || task.id)}
                </Link>
                <State word={task.state} />
                <span class="soft small">
                  {isHub && `${visible(entryName(task.agent))} · `}
                  {t("now.since", { time: span(Date.now() - task.at) })}
                </span>
              </li>
            ))}
          </Section>
          <AgentMap />
        </div>
      </div>
    </>
  );
}

/** How many tasks ended in a minute, an hour or a day: whichever gives a number that says something. */
function rateOf(now: http.Activity): string {
  const ms = now.bucket * now.buckets.length;
  const units = [["minute", 60_000], ["hour", 3_600_000], ["day", 86_400_000]] as const;
  const [name, length] = units.find(([, one]) => (now.ended * one) / ms >= 1) ?? units[units.length - 1]!;
  return t(`now.per.${name}`, { count: number(Math.round(((now.ended * length) / ms) * 10) / 10) });
}

function Tile(props: {
  name: string;
  title: string;
  figure: string;
  note: string;
  to: string;
  query?: Record<string, string>;
  children?: ComponentChildren;
}) {
  return (
    <section class="card tile" data-tile={props.name}>
      <Link to={props.to} query={props.query ?? {}}>
        <span class="soft">{props.title}</span>
        <div class="figure">{props.figure}</div>
        <span class="soft small">{props.note}</span>
      </Link>
      {props.children}
    </section>
  );
}

function Section(props: { name: string; title: string; empty: string; count: number; children: ComponentChildren }) {
  return (
    <section data-section={props.name}>
      <h2>{props.title}</h2>
      <div class="card">{props.count ? <ul class="plain ranked">{props.children}</ul> : <p class="soft">{props.empty}</p>}</div>
    </section>
  );
}

/** Where something happened: at how many agents, a few of them by name. */
function placesOf(agents: string[]): string {
  const names = agents.slice(0, 3).map((agent) => visible(entryName(agent)));
  const some = names.join(", ") + (agents.length > 3 ? ` +${number(agents.length - 3)}` : "");
  return agents.length > 1 ? t("now.failures.agents", { count: number(agents.length), agents: some }) : some;
}

const WIDTH = 240;
const HEIGHT = 64;

/** A chart over the time that is shown. The line below it names the first moment and the value of the upper line. */
function Chart({ buckets, label, top, children }: { buckets: http.Bucket[]; label: string; top: string; children: ComponentChildren }) {
  return (
    <>
      <svg class="chart" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={label}>
        {[0.5, HEIGHT / 2, HEIGHT - 0.5].map((y) => (
          <line key={y} class="base" x1="0" x2={WIDTH} y1={y} y2={y} vector-effect="non-scaling-stroke" />
        ))}
        {children}
      </svg>
      <div class="ends soft" aria-hidden="true">
        <span>{dayOrTime(buckets[0]?.at ?? 0)}</span>
        {top && <span>{t("now.top", { value: top })}</span>}
        <span>{t("now.end")}</span>
      </div>
    </>
  );
}

/** How many tasks ended in each piece of time, those that failed below in red. */
function Bars({ buckets, width, isFailures }: { buckets: http.Bucket[]; width: number; isFailures?: boolean }) {
  const most = Math.max(0, ...buckets.map((one) => (isFailures ? one.failed : one.ended)));
  const total = buckets.reduce((sum, one) => sum + one.ended, 0);
  const failed = buckets.reduce((sum, one) => sum + one.failed, 0);
  const step = WIDTH / Math.max(1, buckets.length);
  const tall = (n: number) => (n ? Math.max(2, (n / most) * (HEIGHT - 2)) : 0);
  return (
    <Chart buckets={buckets} label={t("now.chart", { total: number(total), failed: number(failed) })} top={most ? number(most) : ""}>
      {buckets.map((one, i) => {
        const height = isFailures ? 0 : tall(one.ended);
        const bad = tall(one.failed);
        return (
          <g key={one.at}>
            <title>{t("now.bar", { time: moment(one.at), span: span(width), ended: number(one.ended), failed: number(one.failed) })}</title>
            <rect class="ok" x={i * step + step * 0.1} width={step * 0.8} y={HEIGHT - height} height={Math.max(0, height - bad)} />
            <rect class="failed" x={i * step + step * 0.1} width={step * 0.8} y={HEIGHT - bad} height={bad} />
          </g>
        );
      })}
    </Chart>
  );
}

/** How much was open in each piece of time, at most. */
function Open({ buckets, width, of }: { buckets: http.Bucket[]; width: number; of: "streams" | "waiting" }) {
  const most = Math.max(0, ...buckets.map((one) => one[of]));
  const step = WIDTH / Math.max(1, buckets.length);
  return (
    <Chart buckets={buckets} label={t(`now.${of}.chart`, { count: number(most) })} top={most ? number(most) : ""}>
      {buckets.map((one, i) => {
        if (!one[of]) return null;
        const height = Math.max(2, (one[of] / most) * (HEIGHT - 2));
        return (
          <g key={one.at}>
            <title>{t("now.most", { time: moment(one.at), span: span(width), count: number(one[of]) })}</title>
            <rect class="ok" x={i * step} width={step} y={HEIGHT - height} height={height} />
          </g>
        );
      })}
    </Chart>
  );
}

/** How long tasks took: from the median to what 95 % stayed within, on a scale where each line is ten times the one below. */
function Durations({ buckets }: { buckets: http.Bucket[] }) {
  const known = buckets.flatMap((one) => (one.p50 === null || one.p95 === null ? [] : [one.p50, one.p95]));
  const scale = (ms: number) => Math.log10(ms + 1);
  const top = Math.max(1, ...known.map(scale));
  const bottom = Math.min(...known.map(scale), top - 1);
  const y = (ms: number) => HEIGHT - 2 - ((scale(ms) - bottom) / (top - bottom)) * (HEIGHT - 4);
  const step = WIDTH / Math.max(1, buckets.length);
  return (
    <Chart buckets={buckets} label={t("now.durations")} top={known.length ? span(Math.max(...known)) : ""}>
      {buckets.map(({ at, p50, p95 }, i) => {
        if (p50 === null || p95 === null) return null;
        return (
          <g key={at}>
            <title>{t("now.took", { time: moment(at), p50: span(p50), p95: span(p95) })}</title>
            <rect class="ok" x={i * step + step * 0.1} width={step * 0.8} y={y(p95)} height={Math.max(2, y(p50) - y(p95))} />
            <rect class="middle" x={i * step + step * 0.1} width={step * 0.8} y={y(p50) - 1} height="2" />
          </g>
        );
      })}
    </Chart>
  );
}
