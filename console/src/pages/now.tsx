/** Now: how things go, what failed, what is slow and what waits for somebody. */

import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import * as http from "../api/http";
import { moment, number, span, t } from "../i18n";
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
      <div class="grid">
        <Tile name="rate" title={t("now.ended")} figure={number(now.ended)} to="tasks" query={{ since: window }}>
          <Bars buckets={now.buckets} width={now.bucket} />
        </Tile>
        <Tile
          name="errors"
          title={t("now.errors")}
          figure={`${number(Math.round(share * 1000) / 10)} %`}
          to="tasks"
          query={{ state: "failed", since: window }}
        >
          <p class="soft">{t("now.errors.of", { failed: number(now.failed), ended: number(now.ended) })}</p>
          <Bars buckets={now.buckets} width={now.bucket} isFailures />
        </Tile>
        <Tile name="duration" title={t("now.p50")} figure={now.p50 === null ? "–" : span(now.p50)} to="tasks" query={{ sort: "slow", since: window }}>
          <p class="soft">{t("now.p95", { time: now.p95 === null ? "–" : span(now.p95) })}</p>
        </Tile>
        <Tile name="open" title={t("now.running")} figure={number(now.running)} to="tasks" query={{ state: "working" }}>
          <p class="soft">{t("now.streams", { count: number(now.streams) })}</p>
        </Tile>
        <Tile name="waiting" title={t("now.waiting")} figure={number(now.waiting)} to="inbox">
          {now.oldest[0] && <p class="soft">{t("now.oldest", { time: span(Date.now() - now.oldest[0].at) })}</p>}
        </Tile>
      </div>
      <div class="beside">
        <div>
          <Section name="failures" title={t("now.failures")} empty={t("now.failures.none")} count={now.causes.length}>
          {now.causes.map(({ cause, count, newest, agents }) => (
            <li key={cause}>
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
        <div>
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
      </div>
    </>
  );
}

function Tile(props: {
  name: string;
  title: string;
  figure: string;
  to: string;
  query?: Record<string, string>;
  children?: ComponentChildren;
}) {
  return (
    <section class="card tile" data-tile={props.name}>
      <Link to={props.to} query={props.query ?? {}}>
        <span class="soft">{props.title}</span>
        <div class="figure">{props.figure}</div>
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

/** Where something happened: at which agents, a few of them by name. */
function placesOf(agents: string[]): string {
  const names = agents.slice(0, 3).map((agent) => visible(entryName(agent)));
  return names.join(", ") + (agents.length > 3 ? ` +${number(agents.length - 3)}` : "");
}

/** How many tasks ended in each piece of time, those that failed below in red. */
function Bars({ buckets, width, isFailures }: { buckets: http.Bucket[]; width: number; isFailures?: boolean }) {
  const most = Math.max(1, ...buckets.map((one) => (isFailures ? one.failed : one.ended)));
  const total = buckets.reduce((sum, one) => sum + one.ended, 0);
  const failed = buckets.reduce((sum, one) => sum + one.failed, 0);
  const step = 240 / Math.max(1, buckets.length);
  return (
    <svg class={isFailures ? "chart low-chart" : "chart"} viewBox="0 0 240 56" preserveAspectRatio="none" role="img" aria-label={t("now.chart", { total: number(total), failed: number(failed) })}>
      <line class="base" x1="0" x2="240" y1="55.5" y2="55.5" vector-effect="non-scaling-stroke" />
      {buckets.map((one, i) => {
        const height = one.ended && !isFailures ? Math.max(2, (one.ended / most) * 54) : 0;
        const bad = one.failed ? Math.max(2, (one.failed / most) * 54) : 0;
        return (
          <g key={one.at}>
            <title>{t("now.bar", { time: moment(one.at), span: span(width), ended: number(one.ended), failed: number(one.failed) })}</title>
            <rect class="ok" x={i * step + step * 0.1} width={step * 0.8} y={55 - height} height={Math.max(0, height - bad)} />
            <rect class="failed" x={i * step + step * 0.1} width={step * 0.8} y={55 - bad} height={bad} />
          </g>
        );
      })}
    </svg>
  );
}
