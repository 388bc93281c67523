/** A trace: the tasks one request led to, as a tree, with when each of them worked. */

import * as hub from "../../api/hub";
import { moment, number, span, t } from "../../i18n";
import { Link, Skeleton, State, Trouble } from "../../ui/elements";
import { usePolled } from "../../ui/polled";
import { visible } from "../../ui/text";
import { callerName, GUEST } from "../address";

export default function Trace({ id }: { id: string }) {
  return id ? <Tree key={id} id={id} /> : <Newest />;
}

function Newest() {
  const { value, error, load } = usePolled(hub.traces, 5000);
  const found = value?.traces;
  return (
    <>
      <div class="head">
        <h1>{t("trace.title")}</h1>
      </div>
      {error !== null && <Trouble error={error} onRetry={load} />}
      {!found && error === null && <Skeleton />}
      {found && !found.length && <p class="empty">{t("trace.empty")}</p>}
      {!!found?.length && (
        <div class="table folds">
          <table>
            <caption class="hidden">{t("trace.title")}</caption>
            <thead>
              <tr>
                <th scope="col">{t("trace.request")}</th>
                <th scope="col">{t("agents.name")}</th>
                <th scope="col">{t("tasks.state")}</th>
                <th scope="col" class="numbers">
                  {t("trace.tasks")}
                </th>
                <th scope="col" class="numbers">
                  {t("trace.agents")}
                </th>
                <th scope="col" class="numbers">
                  {t("tasks.took")}
                </th>
                <th scope="col">{t("tasks.when")}</th>
              </tr>
            </thead>
            <tbody>
              {found.map((one) => (
                <tr key={one.id}>
                  <td class="first">
                    <Link to={`trace/${encodeURIComponent(one.id)}`}>{visible(one.title || one.id)}</Link>
                  </td>
                  <td>{visible(one.agent)}</td>
                  <td>
                    <State word={one.state} />
                  </td>
                  <td class="numbers" data-label={t("trace.tasks")}>
                    {number(one.tasks)}
                  </td>
                  <td class="numbers" data-label={t("trace.agents")}>
                    {number(one.agents)}
                  </td>
                  <td class="numbers">{milliseconds(one.ended_ms - one.started_ms)}</td>
                  <td class="whole">{moment(one.at_ms)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}

interface Node extends hub.Span {
  depth: number;
}

/** The spans in the order of the tree, parents before their children. */
export function ordered(spans: hub.Span[]): Node[] {
  const known = new Set(spans.map((one) => one.task));
  const children = new Map<string, hub.Span[]>();
  for (const one of [...spans].sort((a, b) => a.started_ms - b.started_ms)) {
    const parent = known.has(one.parent) ? one.parent : "";
    children.set(parent, [...(children.get(parent) ?? []), one]);
  }
  const found: Node[] = [];
  const visit = (parent: string, depth: number) => {
    for (const one of children.get(parent) ?? []) {
      found.push({ ...one, depth });
      visit(one.task, depth + 1);
    }
  };
  visit("", 0);
  return found;
}

function Tree({ id }: { id: string }) {
  const { value, error, load } = usePolled(() => hub.trace(id), 3000, [id]);
  const spans = value?.spans;
  if (!spans) return error !== null ? <Trouble error={error} onRetry={load} /> : <Skeleton />;
  return (
    <>
      {error !== null && <Trouble error={error} onRetry={load} />}
      <div class="head">
        <h1>{visible(value.title || id)}</h1>
        <Link to="trace" class="button">
          {t("trace.all")}
        </Link>
      </div>
      <Waterfall spans={spans} />
    </>
  );
}

/** The trace that a task belongs to, with the task marked. */
export function TraceOf({ task }: { task: string }) {
  const { value: spans, error, load } = usePolled(
    async () => {
      const id = await hub.traceOf(task);
      return id ? (await hub.trace(id)).spans : [];
    },
    3000,
    [task],
  );
  if (!spans) return error !== null ? <Trouble error={error} onRetry={load} /> : <Skeleton />;
  return spans.length ? <Waterfall spans={spans} task={task} /> : <p class="empty">{t("trace.gone")}</p>;
}

/** Who made a call: what an agent delegates without a login of its own is that agent's. */
function callerOf(one: hub.Span, byTask: Map<string, hub.Span>): string {
  const parent = byTask.get(one.parent);
  if (parent && one.caller === GUEST) return visible(parent.agent);
  return visible(callerName(one.caller)) || t("tasks.anonymous");
}

function Waterfall({ spans, task = "" }: { spans: hub.Span[]; task?: string }) {
  const from = Math.min(...spans.map((one) => one.started_ms));
  const to = Math.max(from + 1, ...spans.map((one) => one.ended_ms));
  const agents = new Set(spans.map((one) => one.agent)).size;
  const byTask = new Map(spans.map((one) => [one.task, one]));
  const nodes = ordered(spans);
  const at = (ms: number) => ((ms - from) / (to - from)) * 100;
  return (
    <>
      <p class="soft">{t("trace.one", { tasks: number(spans.length), agents: number(agents), time: milliseconds(to - from) })}</p>
      <div class="table" tabIndex={0}>
        <table class="waterfall">
          <caption class="hidden">{t("trace.table")}</caption>
          <thead>
            <tr>
              <th scope="col">{t("trace.what")}</th>
              <th scope="col">{t("agents.name")}</th>
              <th scope="col">{t("tasks.caller")}</th>
              <th scope="col">{t("tasks.state")}</th>
              <th scope="col" class="numbers">
                {t("tasks.took")}
              </th>
              <th scope="col" class="wide" aria-label={t("trace.when")}>
                <span class="scale">
                  {[0, 1, 2, 3].map((i) => (
                    <span key={i}>{milliseconds(Math.round(((to - from) * i) / 4))}</span>
                  ))}
                </span>
              </th>
            </tr>
          </thead>
          <tbody>
            {nodes.map((one) => (
              <tr key={one.task} data-task={one.task} data-depth={one.depth} aria-selected={one.task === task}>
                <td class="whole first">
                  <span class="soft" aria-hidden="true">
                    {"\u00a0\u00a0".repeat(Math.min(one.depth, 8))}
                    {one.depth ? "└ " : ""}
                  </span>
                  <Link
                    to={`tasks/${encodeURIComponent(one.task)}`}
                    query={{ tenant: one.tenant, caller: one.caller, agent: one.owner }}
                  >
                    {one.skill || one.task.slice(0, 13)}
                  </Link>
                </td>
                <td class="whole">{visible(one.agent)}</td>
                <td class="whole" data-caller>{callerOf(one, byTask)}</td>
                <td>
                  <State word={one.state} />
                </td>
                <td class="numbers">{milliseconds(one.ended_ms - one.started_ms)}</td>
                <td class="middle">
                  <svg class="bar-of-time" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label={span(one.ended_ms - one.started_ms)}>
                    <rect
                      class={one.state}
                      x={at(one.started_ms)}
                      width={Math.max(0.8, at(one.ended_ms) - at(one.started_ms))}
                      y="1"
                      height="6"
                    />
                  </svg>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

const milliseconds = (ms: number): string => (ms < 10_000 ? `${number(ms)} ms` : span(ms));
