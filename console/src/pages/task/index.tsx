/** One task: its outcome, its life on a time axis, and the same as a story, event by event, or in any version's wire form. */

import { lazy, Suspense } from "preact/compat";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import * as http from "../../api/http";
import type { Entry, Summary, Task } from "../../api/types";
import { isFinal, word } from "../../fold";
import { moment, span, stateWord, t } from "../../i18n";
import { go, href, me, onChange, query, say, useTitle } from "../../state";
import { Copy, Dialog, Link, Skeleton, State, Tabs, Trouble } from "../../ui/elements";
import { useKeys } from "../../ui/keys";
import { visible } from "../../ui/text";
import { Countdown, ProgressBar } from "../../ui/time";
import { addressOf, callerName, entryName, GUEST } from "../address";
import { compose, composedFrom } from "../composed";
import { PushesView } from "../pushes";
import { EventDetails, EventList, Lens } from "./events";
import { saveReplay } from "./export";
import { Fork, ForkedFrom } from "./fork";
import { foldTo, numbersOf, workedAndWaited } from "./log";
import { Outcome, Story } from "./story";
import { Timeline } from "./timeline";

const TraceOf = lazy(() => import("../hub/trace").then((module) => ({ default: module.TraceOf })));

const TABS = ["story", "events", "wire", "pushes"];
const PLAY_MS = 250;

/** The entry that the address names: `#e=12`, or `#e=12.1` behind it. */
const asked = (): string => /^#e=(\d{1,9}(\.\d{1,9})?)$/.exec(location.hash)?.[1] ?? "";

export default function TaskPage({ id }: { id: string }) {
  const given = (name: string) => query.value.get(name) ?? "";
  const at: http.Address = { id, tenant: given("tenant"), caller: given("caller"), agent: given("agent") };
  const [entries, setEntries] = useState<Entry[]>([]);
  const [summary, setSummary] = useState<(Summary & { task: Task }) | null>(null);
  const [isPurged, setPurged] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const [chosen, setChosen] = useState<number | null>(null);
  const [wanted, setWanted] = useState(asked()); // until the log has been read so far
  const [isPlaying, setPlaying] = useState(false);
  const [isAsking, setAsking] = useState(false);
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

  const numbers = useMemo(() => numbersOf(entries), [entries]);
  useEffect(() => {
    const at = wanted ? numbers.indexOf(wanted) : -1;
    if (at < 0) return;
    setChosen(at);
    setWanted("");
  }, [entries.length, wanted]);
  useEffect(() => {
    const on = () => setWanted(asked());
    addEventListener("hashchange", on);
    return () => removeEventListener("hashchange", on);
  }, []);

  const now = chosen ?? entries.length - 1;
  const entry = entries[now];
  const number = numbers[now] ?? "";
  const count = entries[entries.length - 1]?.seq ?? 0;
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
    }, PLAY_MS);
    return () => clearInterval(timer);
  }, [isPlaying, entries.length]);

  const play = () => {
    if (!isPlaying && now >= entries.length - 1) setChosen(0);
    setPlaying(!isPlaying);
  };
  const state = summary?.state ?? "";
  const isOver = isFinal(`TASK_STATE_${state.toUpperCase().replaceAll("-", "_")}`);
  const isAsked = state === "input-required" || state === "auth-required";
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
      say(stateWord(word(done.status.state)));
      await load();
    } catch (wrong) {
      say(wrong instanceof Error ? wrong.message : String(wrong));
    }
  };
  const again = () => {
    if (!summary) return;
    const first = composedFrom(summary.task.history?.find((message) => message.role === "ROLE_USER"));
    compose(chatPartner(summary.agent) || me.value!.card.name, { ...first, skill: first.skill || summary.skill });
    go("chat", { agent: chatPartner(summary.agent), new: "1" });
  };

  useTitle(summary ? summary.title || id : "");
  if (!summary) {
    const isMissing = error instanceof http.Failure && error.status === 404;
    if (error === null) return <Skeleton />;
    return <Trouble error={isMissing ? t("task.notfound") : error} onRetry={() => void load()} />;
  }
  const times = workedAndWaited(entries);
  const chosenTab = query.value.get("tab") ?? "";
  const tabs = me.value!.mode === "hub" ? [...TABS, "trace"] : TABS;
  const tab = tabs.includes(chosenTab) ? chosenTab : "story";
  const place = `tasks/${encodeURIComponent(id)}`;
  const address = addressOf({ ...at, agent: given("agent") });
  const isPast = chosen !== null && chosen < entries.length - 1;
  const momentLink = () => `${location.origin}${href(place, { ...address, tab: chosenTab })}#e=${number}`;
  return (
    <>
      <div class="head">
        <h1>{visible(summary.title || id)}</h1>
        {canCancel && (
          <button type="button" onClick={() => setAsking(true)}>
            {t("task.cancel")}
          </button>
        )}
        {isAsked && summary.caller === GUEST && (
          <Link to="inbox" class="button primary">
            {t("chat.answer")}
          </Link>
        )}
        {summary.isOwn && (
          <Link to="chat" query={{ task: id, agent: chatPartner(summary.agent) }} class={isAsked ? "button primary" : "button"}>
            {isAsked ? t("chat.answer") : t("task.chat")}
          </Link>
        )}
        <button type="button" onClick={again}>
          {t("task.again")}
        </button>
        <Link to="compare" query={{ left: id, "left.tenant": at.tenant, "left.caller": at.caller, "left.agent": given("agent") }} class="button">
          {t("task.compare")}
        </Link>
        <button type="button" onClick={() => saveReplay(summary, entries)}>
          {t("task.export")}
        </button>
      </div>
      <p class="row facts">
        <State word={state} />
        {me.value!.mode === "hub" && summary.agent !== me.value!.card.name && (
          <Link to={`agents/${encodeURIComponent(entryName(summary.agent))}`}>{visible(entryName(summary.agent))}</Link>
        )}
        <span>{visible(summary.skill)}</span>
        <span>{t("task.by", { caller: visible(callerName(summary.caller)) || t("tasks.anonymous") })}</span>
        {entries[0] && <span>{t("task.started", { time: moment(entries[0].at) })}</span>}
        <span>{t("task.worked", { time: span(times.worked) })}</span>
        {times.waited > 0 && <span>{t("task.waited", { time: span(times.waited) })}</span>}
        {!!summary.expires && <Countdown until={summary.expires} kind="answer" />}
        {!!summary.wakes && <Countdown until={summary.wakes} kind="wakes" />}
        <ForkedFrom summary={summary} at={at} />
        {summary.progress && <ProgressBar progress={summary.progress} />}
        <span class="mono">{id}</span>
      </p>
      {error !== null && <Trouble error={error} onRetry={() => void load()} />}
      {isPast && (
        <p class="card row" role="status" data-past>
          <span class="grow">{t("task.past", { n: number, count, time: moment(entry?.at ?? 0) })}</span>
          <Copy text={momentLink} label={t("task.link")} />
          <button type="button" onClick={() => setChosen(null)}>
            {t("task.present")}
          </button>
        </p>
      )}
      {isPurged ? (
        <>
          <p>{t("task.purged")}</p>
          <Outcome task={summary.task} entries={[]} now={0} at={at} />
          <Story task={summary.task} entries={[]} at={at} />
        </>
      ) : (
        <>
          {task && <Outcome task={task} entries={entries} now={now} at={at} />}
          <div class="card scroll" tabIndex={0}>
            <Timeline entries={entries} at={now} onMove={move} />
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
            <span id="event-number">{t("task.event", { n: entry?.seq ?? 0, count })}</span>
            {entry && <Fork entries={entries} entry={entry} summary={summary} at={at} />}
          </div>
          <Tabs
            of={t("task.views")}
            names={tabs}
            active={tab}
            label={(name) => t(`task.tab.${name}` as "task.tab.story")}
            onChoose={(name) => go(place, { ...address, tab: name === "story" ? "" : name }, true)}
          />
          {tab === "story" && task && <Story task={task} entries={entries} at={at} />}
          {tab === "events" && (
            <div class="split">
              <EventList entries={entries} numbers={numbers} now={now} onMove={move} />
              {entry && <EventDetails entry={entry} task={task} before={before} />}
            </div>
          )}
          {tab === "wire" && <Lens entries={entries} numbers={numbers} now={now} onMove={move} at={at} />}
          {tab === "pushes" && <PushesView read={() => http.pushesOf(at)} />}
          {tab === "trace" && (
            <Suspense fallback={<Skeleton />}>
              <TraceOf task={id} />
            </Suspense>
          )}
        </>
      )}
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

/** Whom Chat talks to about a task: at a hub the entry, whose agent has a number after its name. */
function chatPartner(agent: string): string {
  if (me.value!.agents.length) return agent;
  return me.value!.mode === "hub" && agent !== me.value!.card.name ? agent.replace(/\.[^.]*$/, "") : "";
}
