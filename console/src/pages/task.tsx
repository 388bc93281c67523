/** One task: its life on a time axis, event by event, in any version's wire form. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import * as http from "../api/http";
import type { Entry, Json, Summary, Task } from "../api/types";
import { addMessage, apply, isFinal, word } from "../fold";
import { moment, span, stateWord, t } from "../i18n";
import { ArtifactView, PartView } from "../render/parts";
import { chatPlace, go, me, onChange, query, useTitle } from "../state";
import { Copy, Dialog, Link, State, Trouble } from "../ui/elements";
import { JsonTree } from "../ui/json";
import { useKeys } from "../ui/keys";
import { visible } from "../ui/text";
import { compose, composedFrom } from "./composed";
import { PushesView } from "./pushes";
import { Timeline } from "./timeline";

const ROW = 30;
const VISIBLE = 30;

export default function TaskPage({ id }: { id: string }) {
  const given = (name: string) => query.value.get(name) ?? "";
  const at: http.Address = { id, tenant: given("tenant"), caller: given("caller"), agent: given("agent") };
  const [entries, setEntries] = useState<Entry[]>([]);
  const [summary, setSummary] = useState<(Summary & { task: Task }) | null>(null);
  const [isPurged, setPurged] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const [chosen, setChosen] = useState<number | null>(null);
  const [isPlaying, setPlaying] = useState(false);
  const [isAsking, setAsking] = useState(false);
  const [told, setTold] = useState("");
  const known = useRef<Entry[]>([]);

  const load = async () => {
    try {
      setSummary(await http.task(at));
      setError(null);
      for (;;) {
        const after = known.current[known.current.length - 1]?.pos ?? 0;
        const page = await http.events(at, after);
        if (after === 0) setPurged(page.isPurged);
        // Another reading may have brought some of them meanwhile.
        const last = known.current[known.current.length - 1]?.pos ?? 0;
        known.current = [...known.current, ...page.events.filter((entry) => entry.pos > last)];
        setEntries(known.current);
        if (!page.events.length || (known.current[known.current.length - 1]?.pos ?? 0) >= page.last) break;
      }
    } catch (wrong) {
      setError(wrong);
    }
  };
  useEffect(() => {
    known.current = [];
    setEntries([]);
    void load();
    return onChange((news) => {
      if (news.isBack || news.tasks?.some((task) => task.id === id)) void load();
    });
  }, [id]);

  const now = chosen ?? entries.length - 1;
  const entry = entries[now];
  const task = useMemo(() => foldTo(entries, now), [entries, now]);
  const before = useMemo(() => foldTo(entries, now - 1), [entries, now]);
  const move = (to: number) => setChosen(Math.max(0, Math.min(entries.length - 1, to)));
  const step = (by: number) =>
    setChosen((was) => Math.max(0, Math.min(entries.length - 1, (was ?? entries.length - 1) + by)));

  useEffect(() => {
    if (!isPlaying) return undefined;
    const timer = setInterval(() => {
      setChosen((was) => {
        const next = (was ?? -1) + 1;
        if (next >= entries.length) {
          setPlaying(false);
          return was;
        }
        return next;
      });
    }, 250);
    return () => clearInterval(timer);
  }, [isPlaying, entries.length]);

  const play = () => {
    if (!isPlaying && now >= entries.length - 1) setChosen(0);
    setPlaying(!isPlaying);
  };
  const state = summary?.state ?? "";
  const isOver = isFinal(`TASK_STATE_${state.toUpperCase().replaceAll("-", "_")}`);
  const canCancel = !!summary?.isOwn && !isOver; // the agent would not find another's
  useKeys(
    {
      j: () => step(1),
      k: () => step(-1),
      "]": () => step(1),
      "[": () => step(-1),
      " ": play,
      "Shift-ArrowLeft": () => move(0),
      "Shift-ArrowRight": () => move(entries.length - 1),
      c: () => canCancel && setAsking(true),
    },
    [now, entries.length, isPlaying, canCancel],
  );

  const cancel = async () => {
    setAsking(false);
    try {
      const done = await http.cancel(summary?.rpc ?? me.value!.rpc, id);
      setTold(stateWord(word(done.status.state)));
      await load();
    } catch (wrong) {
      setTold(wrong instanceof Error ? wrong.message : String(wrong));
    }
  };
  const again = () => {
    if (!summary) return;
    const first = composedFrom(summary.task.history?.find((message) => message.role === "ROLE_USER"));
    compose(chatPartner(summary.agent) || me.value!.card.name, { ...first, skill: first.skill || summary.skill });
    go(chatPlace(), { agent: chatPartner(summary.agent), new: "1" });
  };

  useTitle(summary ? summary.title || id : "");
  if (!summary) {
    const isMissing = error instanceof http.Failure && error.status === 404;
    if (error === null) return <p>{t("common.loading")}</p>;
    return <Trouble error={isMissing ? t("task.notfound") : error} onRetry={() => void load()} />;
  }
  const times = workedAndWaited(entries);
  return (
    <>
      <div class="row">
        <h1 class="grow">
          <State word={state} /> {visible(summary.title || id)}
        </h1>
        {canCancel && (
          <button type="button" onClick={() => setAsking(true)}>
            {t("task.cancel")}
          </button>
        )}
        {summary.isOwn && (
          <Link to={chatPlace()} query={{ task: id, agent: chatPartner(summary.agent) }} class="button">
            {t("task.chat")}
          </Link>
        )}
        <button type="button" onClick={again}>
          {t("task.again")}
        </button>
      </div>
      <p class="soft row">
        <span class="mono">{id}</span>
        <span>{summary.skill}</span>
        {entries[0] && <span>{t("task.started", { time: moment(entries[0].at) })}</span>}
        <span>{t("task.worked", { time: span(times.worked) })}</span>
        {times.waited > 0 && <span>{t("task.waited", { time: span(times.waited) })}</span>}
      </p>
      {told && <p role="status">{told}</p>}
      {error !== null && <Trouble error={error} onRetry={() => void load()} />}
      {isPurged ? (
        <>
          <p>{t("task.purged")}</p>
          <TaskView task={summary.task} at={at} />
        </>
      ) : (
        <>
          <div class="scroll" tabIndex={0}>
            <Timeline entries={entries} at={now} />
          </div>
          <div class="row">
            <button type="button" aria-label={t("task.previous")} onClick={() => step(-1)}>
              ◀
            </button>
            <button type="button" onClick={play}>
              {isPlaying ? t("task.pause") : t("task.play")}
            </button>
            <button type="button" aria-label={t("task.next")} onClick={() => step(1)}>
              ▶
            </button>
            <input
              class="grow"
              type="range"
              min={0}
              max={Math.max(0, entries.length - 1)}
              value={now}
              aria-label={t("task.scrub")}
              onInput={(event) => move(Number(event.currentTarget.value))}
            />
            <span id="event-number">{t("task.event", { n: now + 1, count: entries.length })}</span>
          </div>
          <div class="split">
            <EventList entries={entries} now={now} onMove={move} />
            {entry && <EventView entry={entry} task={task} before={before} at={at} />}
          </div>
        </>
      )}
      <h2>{t("pushes.title")}</h2>
      <PushesView read={() => http.pushesOf(at)} hasTasks={false} />
      <Dialog title={t("task.cancel")} isOpen={isAsking} onClose={() => setAsking(false)}>
        <p>{t("task.cancel.ask")}</p>
        <div class="row">
          <button type="button" class="primary" onClick={() => void cancel()}>
            {t("task.cancel.yes")}
          </button>
          <button type="button" onClick={() => setAsking(false)}>
            {t("task.cancel.no")}
          </button>
        </div>
      </Dialog>
    </>
  );
}

/** The task as it stood after the n-th entry of its log. */
export function foldTo(entries: Entry[], n: number): Task | null {
  let task: Task | null = null;
  for (const entry of entries.slice(0, n + 1)) {
    if (entry.event) task = apply(task, entry.event);
    else if (entry.message && task) task = addMessage(task, entry.message);
  }
  return task;
}

export function workedAndWaited(entries: Entry[]): { worked: number; waited: number } {
  let worked = 0;
  let waited = 0;
  let since = entries[0]?.at ?? 0;
  let state = "";
  for (const entry of entries) {
    const status = entry.event?.statusUpdate?.status ?? entry.event?.task?.status;
    if (!status) continue;
    const time = entry.at - since;
    if (state === "input-required" || state === "auth-required") waited += time;
    else worked += time;
    since = entry.at;
    state = word(status.state);
  }
  return { worked, waited };
}

function what(entry: Entry): string {
  return visible(whatOf(entry));
}

function whatOf(entry: Entry): string {
  const status = entry.event?.statusUpdate?.status ?? entry.event?.task?.status;
  if (status) {
    const text = status.message?.parts.map((part) => part.text ?? "").join(" ") ?? "";
    return `${stateWord(word(status.state))} ${text}`;
  }
  const update = entry.event?.artifactUpdate;
  if (update) {
    const text = update.artifact.parts.map((part) => part.text ?? part.filename ?? "").join(" ");
    return `${update.append ? "+" : ""} ${update.artifact.name || update.artifact.artifactId}: ${text}`;
  }
  if (entry.message) return entry.message.parts.map((part) => part.text ?? part.filename ?? "{}").join(" ");
  const name = entry.data?.["name"] ?? entry.data?.["text"] ?? "";
  return `${entry.kind} ${String(name)}`;
}

/** Rows are drawn on demand: a log of ten thousand scrolls as one of ten. */
function EventList({ entries, now, onMove }: { entries: Entry[]; now: number; onMove: (to: number) => void }) {
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const first = Math.max(0, Math.floor(top / ROW) - 5);
  const shown = entries.slice(first, first + VISIBLE);
  const start = entries[0]?.at ?? 0;
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const place = now * ROW;
    if (place < element.scrollTop || place > element.scrollTop + element.clientHeight - ROW) {
      element.scrollTop = place - element.clientHeight / 2;
    }
  }, [now]);
  return (
    <div
      class="events"
      ref={box}
      role="listbox"
      aria-label={t("task.events")}
      aria-activedescendant={`event-${now}`}
      tabIndex={0}
      onScroll={(event) => setTop(event.currentTarget.scrollTop)}
      onKeyDown={(event) => {
        if (event.key === "ArrowDown") onMove(now + 1);
        else if (event.key === "ArrowUp") onMove(now - 1);
        else return;
        event.preventDefault();
      }}
    >
      <div role="presentation" style={{ height: `${first * ROW}px` }} />
      {shown.map((entry, i) => (
        <div
          key={entry.pos}
          id={`event-${first + i}`}
          role="option"
          aria-selected={first + i === now}
          data-pos={entry.pos}
          onClick={() => onMove(first + i)}
        >
          <span>{entry.pos}</span>
          <span class="mono">+{((entry.at - start) / 1000).toFixed(3)} s</span>
          <span>{what(entry)}</span>
        </div>
      ))}
      <div
        role="presentation"
        style={{ height: `${Math.max(0, entries.length - first - shown.length) * ROW}px` }}
      />
    </div>
  );
}

function EventView(props: { entry: Entry; task: Task | null; before: Task | null; at: http.Address }) {
  const { entry, task, before, at } = props;
  const [tab, setTab] = useState("drawn");
  const [wire, setWire] = useState<{ [version: string]: Json[] } | null>(null);
  const isVisible = entry.event !== undefined;
  useEffect(() => {
    setWire(null);
    if (isVisible && /^\d/.test(tab)) {
      let isNow = true;
      void http
        .wire(at, entry.seq)
        .then((found) => isNow && setWire(found as unknown as { [version: string]: Json[] }));
      return () => {
        isNow = false;
      };
    }
    return undefined;
  }, [entry.pos, tab]);
  const tabs = ["drawn", "difference", ...(isVisible ? me.value!.versions : ["private"])];
  const active = tabs.includes(tab) ? tab : "drawn";
  const label = (name: string) =>
    name === "drawn" ? t("task.drawn") : name === "difference" ? t("task.difference") : name === "private" ? t("task.private") : name;
  const frames = wire?.[active];
  return (
    <section>
      <div class="row" role="tablist">
        {tabs.map((name) => (
          <button
            type="button"
            key={name}
            role="tab"
            aria-selected={name === active}
            class={name === active ? "primary" : ""}
            onClick={() => setTab(name)}
          >
            {label(name)}
          </button>
        ))}
      </div>
      <div role="tabpanel" data-tab={active}>
        {active === "drawn" && task && <TaskView task={task} at={at} />}
        {active === "difference" && <JsonTree value={difference(before, task) as Json} />}
        {active === "private" && <JsonTree value={(entry.data ?? (entry.message as unknown as Json) ?? null) as Json} />}
        {/^\d/.test(active) && frames && (
          <>
            <Copy text={() => frames.map((frame) => JSON.stringify(frame)).join("\n")} />
            {frames.length ? (
              frames.map((frame, i) => (
                <pre key={i} tabIndex={0}>
                  {JSON.stringify(frame, null, 2)}
                </pre>
              ))
            ) : (
              <p class="soft">{t("common.none")}</p>
            )}
          </>
        )}
      </div>
    </section>
  );
}

/** The members that are not the same. */
export function difference(before: unknown, after: unknown): unknown {
  if (before === null || typeof before !== "object" || after === null || typeof after !== "object") return after ?? null;
  const found: { [name: string]: unknown } = {};
  const a = before as { [name: string]: unknown };
  const b = after as { [name: string]: unknown };
  for (const name of new Set([...Object.keys(a), ...Object.keys(b)])) {
    if (JSON.stringify(a[name]) === JSON.stringify(b[name])) continue;
    found[name] = b[name] === undefined ? null : difference(a[name], b[name]);
  }
  return found;
}

function TaskView({ task, at }: { task: Task; at: http.Address }) {
  return (
    <div data-fold={JSON.stringify(task).length}>
      <p>
        <State word={word(task.status.state)} />
      </p>
      {(task.history ?? []).map((message) => (
        <div key={message.messageId} class="card">
          <strong>{message.role === "ROLE_USER" ? t("chat.you") : visible(me.value!.card.name)}</strong>
          {message.parts.map((part, i) => (
            <PartView key={i} part={part} isUsers={message.role === "ROLE_USER"} />
          ))}
        </div>
      ))}
      {(task.artifacts ?? []).map((artifact) => (
        <ArtifactView key={artifact.artifactId} artifact={artifact} at={at} />
      ))}
      {task.status.message && (
        <div class="card">
          {task.status.message.parts.map((part, i) => (
            <PartView key={i} part={part} />
          ))}
        </div>
      )}
    </div>
  );
}

/** Whom Chat talks to about a task: at a hub the entry, whose agent has a number after its name. */
function chatPartner(agent: string): string {
  if (me.value!.agents.length) return agent;
  return me.value!.mode === "hub" && agent !== me.value!.card.name ? agent.replace(/\.[^.]*$/, "") : "";
}
