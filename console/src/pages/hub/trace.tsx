/** A trace: the tasks one request led to, as a tree, with when each of them worked. */

import * as hub from "../../api/hub";
import { moment, number, span, t } from "../../i18n";
import { Link, State, Trouble } from "../../ui/elements";
import { usePolled } from "../../ui/polled";
import { visible } from "../../ui/text";
import { callerName } from "./inbox";

export default function Trace({ id }: { id: string }) {
  return id ? <Tree key={id} id={id} /> : <Newest />;
}

function Newest() {
  const { value, error, load } = usePolled(hub.traces, 5000);
  const found = value?.traces;
  return (
    <>
      <h1>{t("trace.title")}</h1>
      {error !== null && <Trouble error={error} onRetry={load} />}
      {found && !found.length && <p>{t("trace.empty")}</p>}
      <ul>
        {(found ?? []).map((one) => (
          <li key={one.id}>
            <Link to={`trace/${encodeURIComponent(one.id)}`}>{visible(one.title || one.id)}</Link>{" "}
            <span class="soft">
              {t("trace.tasks", { count: number(one.tasks) })} · {moment(one.at_ms)}
            </span>
          </li>
        ))}
      </ul>
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
  if (!spans) return error !== null ? <Trouble error={error} onRetry={load} /> : <p>{t("common.loading")}</p>;
  const from = Math.min(...spans.map((one) => one.started_ms));
  const to = Math.max(from + 1, ...spans.map((one) => one.ended_ms));
  const agents = new Set(spans.map((one) => one.agent)).size;
  const at = (ms: number) => ((ms - from) / (to - from)) * 100;
  return (
    <>
      {error !== null && <Trouble error={error} onRetry={load} />}
      <h1>{t("trace.one", { tasks: number(spans.length), agents: number(agents), time: span(to - from) })}</h1>
      <div class="scroll" tabIndex={0}>
        <table>
          <caption class="hidden">{t("trace.table")}</caption>
          <thead>
            <tr>
              <th scope="col">{t("trace.what")}</th>
              <th scope="col">{t("agents.name")}</th>
              <th scope="col">{t("tasks.caller")}</th>
              <th scope="col">{t("tasks.state")}</th>
              <th scope="col">{t("trace.when")}</th>
            </tr>
          </thead>
          <tbody>
            {ordered(spans).map((one) => (
              <tr key={one.task} data-task={one.task} data-depth={one.depth}>
                <td>
                  <span aria-hidden="true">{"└ ".repeat(Math.min(one.depth, 8))}</span>
                  <Link
                    to={`tasks/${encodeURIComponent(one.task)}`}
                    query={{ tenant: one.tenant, caller: one.caller, agent: one.owner }}
                  >
                    {one.skill || one.task.slice(0, 13)}
                  </Link>
                </td>
                <td>{visible(one.agent)}</td>
                <td>{visible(callerName(one.caller)) || t("tasks.anonymous")}</td>
                <td>
                  <State word={one.state} />
                </td>
                <td>
                  <svg class="bar-of-time" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label={span(one.ended_ms - one.started_ms)}>
                    <rect x={at(one.started_ms)} width={Math.max(0.8, at(one.ended_ms) - at(one.started_ms))} y="1" height="6" />
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
