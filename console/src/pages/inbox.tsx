/** The inbox: what waits for a person. */

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import * as hub from "../api/hub";
import * as http from "../api/http";
import type { Part, Summary, Task } from "../api/types";
import { Asked } from "../forms/asked";
import { has, moment, number, span, t } from "../i18n";
import { me, onChange } from "../state";
import { Link, Skeleton, State, Trouble } from "../ui/elements";
import { usePolled } from "../ui/polled";
import { visible } from "../ui/text";
import { answerMetadata } from "../ui/time";
import { addressOf, callerName, entryName, GUEST } from "./address";
import { CardView } from "./hub/entry";

const WAITING = ["input-required", "auth-required"];

interface Found {
  alerts: hub.Alert[];
  asked: Summary[];
  total: number; // of what waits, however much is shown
  health: number; // alerts of how agents are, however many are shown
  questions: number; // of them
  agents: number;
  tasks: number;
}

async function read(): Promise<Found> {
  const isHub = me.value!.mode === "hub";
  const [news, agents, all, ...waiting] = await Promise.all([
    isHub ? hub.inbox() : { alerts: [], total: 0, kinds: {} as { [kind: string]: number } },
    isHub ? hub.agents() : { total: Math.max(1, me.value!.agents.length) },
    http.tasks({ limit: "1" }),
    ...WAITING.map((state) => http.tasks({ state, order: "oldest" })),
  ]);
  const questions = waiting.reduce((sum, page) => sum + page.total, 0);
  return {
    alerts: news.alerts,
    asked: waiting.flatMap((page) => page.tasks).sort((a, b) => a.at - b.at),
    total: news.total + questions,
    health: news.kinds["health"] ?? 0,
    questions,
    agents: agents.total,
    tasks: all.total,
  };
}

const isOurs = (task: Summary): boolean => task.isOwn || isGuests(task);
const isGuests = (task: Summary): boolean => task.caller === GUEST && !task.tenant;
const isDecision = (alert: hub.Alert): boolean => alert.kind === "approval" || alert.kind === "card";

/** What waits, grouped by what one must do: answer, decide, look; in each group the oldest first. */
export default function Inbox() {
  const { value: found, error, load } = usePolled(read, 5000);
  useEffect(() => onChange((told) => (told.isBack || told.tasks?.length) && load()), []);
  if (!found) return error !== null ? <Trouble error={error} onRetry={load} /> : <Skeleton />;
  const health = found.alerts.filter((alert) => alert.kind === "health");
  const others = found.alerts.filter((alert) => alert.kind !== "health" && !isDecision(alert));
  const question = (task: Summary) => <Question key={task.id} summary={task} onDone={load} />;
  const view = (alert: hub.Alert) => <AlertView key={alert.id} alert={alert} onDone={load} />;
  const oldest = (alerts: hub.Alert[]) => [...alerts].sort((a, b) => a.at_ms - b.at_ms);
  const groups: [string, ComponentChildren[]][] = [
    ["answer", found.asked.filter(isOurs).map(question)],
    ["approve", oldest(found.alerts.filter(isDecision)).map(view)],
    ["look", [...oldest(others).map(view), ...(health.length ? [<Healths key="health" alerts={health} total={found.health} onDone={load} />] : [])]],
    ["others", found.asked.filter((task) => !isOurs(task)).map(question)],
  ];
  const shown = found.asked.length + found.alerts.length;
  return (
    <div class="readable">
      <div class="head">
        <h1>
          {t("inbox.title")} <span class="soft">{number(found.total)}</span>
        </h1>
      </div>
      {error !== null && <Trouble error={error} onRetry={load} />}
      {!found.total && <p class="empty">{t("inbox.empty", { agents: number(found.agents), tasks: number(found.tasks) })}</p>}
      {shown < found.total && (
        <p>
          {t("inbox.more", { shown: number(shown), total: number(found.total) })}{" "}
          {found.asked.length < found.questions && (
            <>
              {t("inbox.more.questions")}{" "}
              <Link to="tasks" query={{ state: "input-required", sort: "oldest" }}>
                {t("nav.tasks")}
              </Link>
            </>
          )}
        </p>
      )}
      {groups.map(
        ([name, items]) =>
          items.length > 0 && (
            <section key={name} data-group={name}>
              <h2>
                {t(`inbox.group.${name}` as "inbox.group.answer")} <span class="soft">{number(items.length)}</span>
              </h2>
              {items}
            </section>
          ),
      )}
    </div>
  );
}

/** Runs what a button does, and says what went wrong. */
function useAct(onDone: () => void): { error: unknown; act: (work: Promise<unknown>) => void } {
  const [error, setError] = useState<unknown>(null);
  const act = (work: Promise<unknown>) =>
    void work
      .then(() => setError(null))
      .then(onDone)
      .catch(setError);
  return { error, act };
}

function AlertView({ alert, onDone }: { alert: hub.Alert; onDone: () => void }) {
  const { error, act } = useAct(onDone);
  return (
    <section class="card" data-alert={alert.kind}>
      <div class="head small">
        <strong>
          <Link to={`agents/${encodeURIComponent(alert.agent)}`}>{visible(alert.agent)}</Link> {kindWord(alert.kind)}
        </strong>
        <span class="soft grow">{moment(alert.at_ms)}</span>
        <button type="button" class="quiet" onClick={() => act(hub.dismiss(alert.id))}>
          {t("inbox.dismiss")}
        </button>
      </div>
      <p>{visible(alert.said)}</p>
      {isDecision(alert) && <Decision alert={alert} onDone={onDone} />}
      {error !== null && <Trouble error={error} />}
    </section>
  );
}

/** A card that waits, with what differs in it: without that in view it can't be approved. */
function Decision({ alert, onDone }: { alert: hub.Alert; onDone: () => void }) {
  // The version the alert is about: a newer one that came meanwhile has an alert of its own.
  const n = alert.detail?.version ?? 1;
  const { value: version, error: unread, load } = usePolled(() => hub.card(alert.agent, n), 30_000, [alert.id]);
  const { error, act } = useAct(onDone);
  if (!version) return unread !== null ? <Trouble error={unread} onRetry={load} /> : <p>{t("common.loading")}</p>;
  return (
    <>
      <CardView agent={alert.agent} version={version} isNew={alert.kind === "approval"} onDecide={(verb) => act(hub.decide(alert.agent, n, verb))} />
      {error !== null && <Trouble error={error} />}
    </>
  );
}

/** How agents are, in one line, however many changed at once. */
function Healths({ alerts, total, onDone }: { alerts: hub.Alert[]; total: number; onDone: () => void }) {
  const { error, act } = useAct(onDone);
  const names = [...new Set(alerts.map((alert) => visible(alert.agent)))];
  const few = names.slice(0, 3).join(", ") + (names.length > 3 ? " …" : "");
  return (
    <section class="card" data-alert="health">
      <details>
        <summary>
          <span class="soft">{moment(alerts[0]!.at_ms)}</span> <strong>{kindWord("health")}</strong>{" "}
          {t("inbox.health", { count: number(total), names: few })}
        </summary>
        <ul>
          {alerts.map((alert) => (
            <li key={alert.id}>
              <Link to={`agents/${encodeURIComponent(alert.agent)}`}>{visible(alert.agent)}</Link>: {visible(alert.said)}
            </li>
          ))}
        </ul>
      </details>
      <button type="button" onClick={() => act(hub.dismissAll("health"))}>
        {t("inbox.dismiss.all", { count: number(total) })}
      </button>
      {error !== null && <Trouble error={error} />}
    </section>
  );
}

function kindWord(kind: string): string {
  const key = `alert.${kind}`;
  return has(key) ? t(key) : kind;
}

const nameOf = (agent: string): string => (me.value!.mode === "hub" ? entryName(agent) : agent);

/** A task that waits for somebody: for us, for a guest, whom an admin may stand in for, or for somebody else. */
function Question({ summary, onDone }: { summary: Summary; onDone: () => void }) {
  const [task, setTask] = useState<Task | null>(null);
  const [error, setError] = useState<unknown>(null);
  const at: http.Address = { id: summary.id, tenant: summary.tenant, caller: summary.caller, agent: summary.agent };
  useEffect(() => {
    http
      .task(at)
      .then((found) => {
        setTask(found.task);
        setError(null);
      })
      .catch(setError);
  }, [summary.id, summary.events]);
  const isAGuests = isGuests(summary);
  const [standsIn, setStandsIn] = useState(false);
  const caller = visible(callerName(summary.caller)) || t("tasks.anonymous");
  const own = async (parts: Part[], json?: string) => {
    const given: Part[] = json === undefined ? parts : [{ data: http.RAW, mediaType: "application/json" }];
    const message = http.userMessage(given, { taskId: summary.id, contextId: summary.contextId, ...answerMetadata(task) });
    // Not as a stream: a browser has six connections, and the task may go on for long.
    await http.call(summary.rpc, "SendMessage", { message, configuration: { returnImmediately: true } }, json);
    onDone();
  };
  const forGuest = async (parts: Part[], json?: string) => {
    await hub.answerForGuest(nameOf(summary.agent), summary.id, parts, json);
    onDone();
  };
  return (
    <section class="card question" data-asked={summary.id}>
      <div class="head small">
        <State word={summary.state} />
        <strong>{t("inbox.asks", { agent: visible(nameOf(summary.agent)), caller })}</strong>
        <span class="soft grow">{t("now.since", { time: span(Date.now() - summary.at) })}</span>
        <Link to={`tasks/${encodeURIComponent(summary.id)}`} query={addressOf(summary)}>
          {t("common.open")}
        </Link>
      </div>
      {task && <Asked task={task} onAnswer={summary.isOwn ? own : standsIn ? forGuest : null} takesFocus={standsIn} />}
      <div class="row">
        {task && isAGuests && !standsIn && (
          <button type="button" class="primary" onClick={() => setStandsIn(true)}>
            {t("inbox.standin")}
          </button>
        )}
        <span class="soft small grow" data-who={summary.isOwn ? "own" : isAGuests ? "guest" : "other"}>
          {summary.isOwn ? t("inbox.who.own") : isAGuests ? t("inbox.who.guest") : t("inbox.who.other", { caller })}
        </span>
      </div>
      {error !== null && <Trouble error={error} />}
    </section>
  );
}
