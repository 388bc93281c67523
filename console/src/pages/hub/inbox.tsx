/** The inbox: what waits for a person, the oldest first. */

import { useEffect, useState } from "preact/hooks";
import * as hub from "../../api/hub";
import * as http from "../../api/http";
import type { Part, Summary, Task } from "../../api/types";
import { Asked } from "../../forms/asked";
import { moment, number, t, has } from "../../i18n";
import { onChange } from "../../state";
import { Link, State, Trouble } from "../../ui/elements";
import { usePolled } from "../../ui/polled";
import { visible } from "../../ui/text";
import { CardView } from "./entry";

const WAITING = ["input-required", "auth-required"];
const GUEST = "guest//guest"; // whoever calls without a login

interface Found {
  alerts: hub.Alert[];
  asked: Summary[];
  total: number; // of what waits, however much is shown
  agents: number;
  tasks: number;
}

async function read(): Promise<Found> {
  const [news, agents, all, ...waiting] = await Promise.all([
    hub.inbox(),
    hub.agents(),
    http.tasks({ limit: "1" }),
    ...WAITING.map((state) => http.tasks({ state, order: "oldest" })),
  ]);
  return {
    alerts: news.alerts,
    asked: waiting.flatMap((page) => page.tasks),
    total: news.total + waiting.reduce((sum, page) => sum + page.total, 0),
    agents: agents.total,
    tasks: all.total,
  };
}

export default function Inbox() {
  const { value: found, error, load } = usePolled(read, 5000);
  useEffect(() => onChange((told) => (told.isBack || told.tasks?.length) && load()), []);
  if (!found) return error !== null ? <Trouble error={error} onRetry={load} /> : <p>{t("common.loading")}</p>;
  const health = found.alerts.filter((alert) => alert.kind === "health");
  const others = found.alerts.filter((alert) => alert.kind !== "health");
  const items = [
    ...found.asked.map((task) => ({ at: task.at, item: <Question key={task.id} summary={task} onDone={load} /> })),
    ...others.map((alert) => ({ at: alert.at_ms, item: <AlertView key={alert.id} alert={alert} onDone={load} /> })),
    ...(health.length ? [{ at: health[0]!.at_ms, item: <Healths key="health" alerts={health} onDone={load} /> }] : []),
  ].sort((a, b) => a.at - b.at);
  const shown = found.asked.length + found.alerts.length;
  return (
    <>
      <h1>{t("inbox.title", { count: number(found.total) })}</h1>
      {error !== null && <Trouble error={error} onRetry={load} />}
      {!found.total && <p>{t("inbox.empty", { agents: number(found.agents), tasks: number(found.tasks) })}</p>}
      {shown < found.total && (
        <p>
          {t("inbox.more", { shown: number(shown), total: number(found.total) })}{" "}
          <Link to="tasks" query={{ state: "input-required" }}>
            {t("nav.tasks")}
          </Link>
        </p>
      )}
      {items.map(({ item }) => item)}
    </>
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
  const isDecision = alert.kind === "approval" || alert.kind === "card";
  return (
    <section class="card" data-alert={alert.kind}>
      <p class="row">
        <span class="soft">{moment(alert.at_ms)}</span>
        <strong>{kindWord(alert.kind)}</strong>
        <Link to={`agents/${encodeURIComponent(alert.agent)}`}>{visible(alert.agent)}</Link>
      </p>
      <p>{visible(alert.said)}</p>
      {isDecision && <Decision alert={alert} onDone={onDone} />}
      <button type="button" onClick={() => act(hub.dismiss(alert.id))}>
        {t("inbox.dismiss")}
      </button>
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
      <CardView version={version} isNew={alert.kind === "approval"} onDecide={(verb) => act(hub.decide(alert.agent, n, verb))} />
      {error !== null && <Trouble error={error} />}
    </>
  );
}

/** How agents are, in one line, however many changed at once. */
function Healths({ alerts, onDone }: { alerts: hub.Alert[]; onDone: () => void }) {
  const { error, act } = useAct(onDone);
  const names = alerts.map((alert) => visible(alert.agent));
  const few = names.slice(0, 3).join(", ") + (names.length > 3 ? " …" : "");
  return (
    <section class="card" data-alert="health">
      <details>
        <summary>
          <span class="soft">{moment(alerts[0]!.at_ms)}</span> <strong>{kindWord("health")}</strong>{" "}
          {t("inbox.health", { count: number(alerts.length), names: few })}
        </summary>
        <ul>
          {alerts.map((alert) => (
            <li key={alert.id}>
              <Link to={`agents/${encodeURIComponent(alert.agent)}`}>{visible(alert.agent)}</Link>: {visible(alert.said)}
            </li>
          ))}
        </ul>
      </details>
      <button type="button" onClick={() => act(Promise.all(alerts.map((alert) => hub.dismiss(alert.id))))}>
        {t("inbox.dismiss")}
      </button>
      {error !== null && <Trouble error={error} />}
    </section>
  );
}

function kindWord(kind: string): string {
  const key = `alert.${kind}`;
  return has(key) ? t(key) : kind;
}

/** What stands before the last stroke says who vouches for the name. */
export const callerName = (caller: string) => caller.slice(caller.lastIndexOf("/") + 1);

/** An entry's agent has a number after its name. */
const agentName = (agent: string) => agent.replace(/\.[^.]*$/, "");

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
  const isGuests = summary.caller === GUEST && !summary.tenant;
  const [standsIn, setStandsIn] = useState(false);
  const caller = visible(callerName(summary.caller)) || t("tasks.anonymous");
  const own = async (parts: Part[], json?: string) => {
    const given: Part[] = json === undefined ? parts : [{ data: http.RAW, mediaType: "application/json" }];
    const message = http.userMessage(given, { taskId: summary.id, contextId: summary.contextId });
    // Not as a stream: a browser has six connections, and the task may go on for long.
    await http.call(summary.rpc, "SendMessage", { message, configuration: { returnImmediately: true } }, json);
    onDone();
  };
  const forGuest = async (parts: Part[], json?: string) => {
    await hub.answerForGuest(agentName(summary.agent), summary.id, parts, json);
    onDone();
  };
  return (
    <section class="card question" data-asked={summary.id}>
      <p class="row">
        <span class="soft">{moment(summary.at)}</span>
        <State word={summary.state} />
        <strong>{t("inbox.asks", { agent: visible(agentName(summary.agent)), caller })}</strong>
        <Link to={`tasks/${encodeURIComponent(summary.id)}`} query={{ tenant: at.tenant, caller: at.caller, agent: summary.agent }}>
          {t("common.open")}
        </Link>
      </p>
      <p class="soft" data-who={summary.isOwn ? "own" : isGuests ? "guest" : "other"}>
        {summary.isOwn ? t("inbox.who.own") : isGuests ? t("inbox.who.guest") : t("inbox.who.other", { caller })}
      </p>
      {task && <Asked task={task} onAnswer={summary.isOwn ? own : standsIn ? forGuest : null} takesFocus={standsIn} />}
      {task && isGuests && !standsIn && (
        <button type="button" onClick={() => setStandsIn(true)}>
          {t("inbox.standin")}
        </button>
      )}
      {error !== null && <Trouble error={error} />}
    </section>
  );
}
