/** The inbox: what waits for a person, the oldest first. */

import { useEffect, useState } from "preact/hooks";
import * as hub from "../../api/hub";
import * as http from "../../api/http";
import type { Part, Schema, Summary, Task } from "../../api/types";
import { SchemaForm } from "../../forms/question";
import { moment, number, t, has } from "../../i18n";
import { onChange } from "../../state";
import { Link, State, Trouble } from "../../ui/elements";
import { PartView } from "../../render/parts";

const SCHEMA = "application/schema+json";
const WAITING = ["input-required", "auth-required"];

export default function Inbox() {
  const [alerts, setAlerts] = useState<hub.Alert[] | null>(null);
  const [asked, setAsked] = useState<Summary[]>([]);
  const [total, setTotal] = useState({ agents: 0, tasks: 0 });
  const [error, setError] = useState<unknown>(null);
  const load = () =>
    void Promise.all([hub.inbox(), hub.agents(), http.tasks({}), ...WAITING.map((state) => http.tasks({ state }))])
      .then(([news, agents, all, ...waiting]) => {
        setAlerts([...news.alerts].sort((a, b) => a.at_ms - b.at_ms));
        setTotal({ agents: agents.total, tasks: all.total });
        setAsked(waiting.flatMap((page) => page.tasks).sort((a, b) => a.at - b.at));
        setError(null);
      })
      .catch(setError);
  useEffect(() => {
    load();
    const timer = setInterval(load, 5000);
    const off = onChange((told) => told.tasks?.length && load());
    return () => {
      clearInterval(timer);
      off();
    };
  }, []);
  if (error !== null) return <Trouble error={error} onRetry={load} />;
  if (!alerts) return <p>{t("common.loading")}</p>;
  const act = (work: Promise<unknown>) => void work.then(load).catch(setError);
  return (
    <>
      <h1>{t("inbox.title", { count: number(alerts.length + asked.length) })}</h1>
      {!alerts.length && !asked.length && (
        <p>{t("inbox.empty", { agents: number(total.agents), tasks: number(total.tasks) })}</p>
      )}
      {asked.map((task) => (
        <Asked key={task.id} summary={task} onDone={load} />
      ))}
      {alerts.map((alert) => (
        <section key={alert.id} class="card" data-alert={alert.kind}>
          <p class="row">
            <span class="soft">{moment(alert.at_ms)}</span>
            <strong>{kindWord(alert.kind)}</strong>
            <Link to={`agents/${encodeURIComponent(alert.agent)}`}>{alert.agent}</Link>
          </p>
          <p>{alert.said}</p>
          <div class="row">
            {(alert.kind === "approval" || alert.kind === "card") && (
              <>
                <button type="button" class="primary" onClick={() => act(decide(alert, "approve"))}>
                  {t("entry.approve")}
                </button>
                <button type="button" onClick={() => act(decide(alert, "reject"))}>
                  {t("entry.reject")}
                </button>
              </>
            )}
            <button type="button" onClick={() => act(hub.dismiss(alert.id))}>
              {t("inbox.dismiss")}
            </button>
          </div>
        </section>
      ))}
    </>
  );
}

async function decide(alert: hub.Alert, verb: "approve" | "reject"): Promise<void> {
  // The version the alert is about: a newer one that came meanwhile has an alert of its own.
  await hub.decide(alert.agent, alert.detail?.version ?? 1, verb);
}

function kindWord(kind: string): string {
  const key = `alert.${kind}`;
  return has(key) ? t(key) : kind;
}

/** What stands before the last stroke says who vouches for the name. */
export const callerName = (caller: string) => caller.slice(caller.lastIndexOf("/") + 1);

/** An entry's agent has a number after its name. */
const agentName = (agent: string) => agent.replace(/\.[^.]*$/, "");

/** A task that waits for somebody. Our own can be answered here. */
function Asked({ summary, onDone }: { summary: Summary; onDone: () => void }) {
  const [task, setTask] = useState<Task | null>(null);
  const [words, setWords] = useState("");
  const [error, setError] = useState<unknown>(null);
  const at = { id: summary.id, tenant: summary.tenant, caller: summary.caller, agent: summary.agent };
  useEffect(() => {
    void http
      .task(at)
      .then((found) => setTask(found.task))
      .catch(setError);
  }, [summary.id, summary.events]);
  const parts = task?.status.message?.parts ?? [];
  const schema = parts.find((part) => part.mediaType === SCHEMA)?.data as Schema | undefined;
  const isOurs = summary.isOwn;
  const answer = async (part: Part, json?: string) => {
    const message = http.userMessage([part], { taskId: summary.id, contextId: summary.contextId });
    const stop = new AbortController();
    try {
      await http.openStream(summary.rpc, "SendStreamingMessage", { message }, "", stop.signal, () => undefined, json);
      onDone();
    } catch (wrong) {
      setError(wrong);
    }
  };
  const send = (json: string) => void answer({ data: http.RAW, mediaType: "application/json" }, json);
  return (
    <section class="card question" data-asked={summary.id}>
      <p class="row">
        <span class="soft">{moment(summary.at)}</span>
        <State word={summary.state} />
        <strong>{t("inbox.asks", { agent: agentName(summary.agent), caller: callerName(summary.caller) || t("tasks.anonymous") })}</strong>
        <Link to={`tasks/${encodeURIComponent(summary.id)}`} query={{ tenant: at.tenant, caller: at.caller, agent: summary.agent }}>
          {t("common.open")}
        </Link>
      </p>
      {parts
        .filter((part) => part.mediaType !== SCHEMA)
        .map((part, i) => (
          <PartView key={i} part={part} />
        ))}
      {isOurs && schema?.["type"] === "boolean" && (
        <div class="row">
          <button type="button" onClick={() => send("true")}>
            {t("chat.approve")}
          </button>
          <button type="button" onClick={() => send("false")}>
            {t("chat.deny")}
          </button>
        </div>
      )}
      {isOurs && schema && schema["type"] !== "boolean" && (
        <SchemaForm key={JSON.stringify(schema)} schema={schema} label={t("chat.answer")} onSend={send} />
      )}
      {isOurs && task && !schema && (
        <form
          class="row"
          onSubmit={(event) => {
            event.preventDefault();
            void answer({ text: words });
          }}
        >
          <label class="grow">
            {t("chat.answer")} <input value={words} required onInput={(event) => setWords(event.currentTarget.value)} />
          </label>
          <button type="submit" class="primary">
            {t("chat.answer")}
          </button>
        </form>
      )}
      {error !== null && <Trouble error={error} />}
    </section>
  );
}
