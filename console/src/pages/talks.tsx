/** The conversations one had with an agent, the newest first. */

import { useEffect } from "preact/hooks";
import * as http from "../api/http";
import type { Task } from "../api/types";
import { textOf, word } from "../fold";
import { moment, t } from "../i18n";
import { Link, Skeleton, State, Trouble } from "../ui/elements";
import { usePolled } from "../ui/polled";
import { visible } from "../ui/text";

const SELDOM_MS = 300_000; // it is read again whenever something is said here

export interface Talked {
  context: string;
  title: string; // its first words, as far as one page of tasks goes back
  state: string; // of its newest task
  at: number;
  tasks: number;
}

/** Tasks as conversations. The tasks are newest first. */
export function talksOf(tasks: Task[]): Talked[] {
  const found = new Map<string, Talked>();
  for (const task of tasks) {
    const first = task.history?.[0];
    const title = (first ? textOf(first.parts).trim() : "").slice(0, 120);
    const known = found.get(task.contextId);
    if (known) {
      known.tasks += 1;
      known.title = title || known.title;
    } else {
      const at = Date.parse(task.status.timestamp ?? "") || 0;
      found.set(task.contextId, { context: task.contextId, title, state: word(task.status.state), at, tasks: 1 });
    }
  }
  return [...found.values()];
}

export function Talks(props: { rpc: string; agent: string; current: string; changed: string; onChoose: () => void }) {
  const { value, error, load } = usePolled(async () => talksOf(await http.ownTasks(props.rpc)), SELDOM_MS, [props.rpc]);
  useEffect(() => {
    if (value) load(); // what was said just now belongs to the list
  }, [props.changed]);
  if (!value) return error !== null ? <Trouble error={error} onRetry={load} /> : <Skeleton />;
  if (!value.length) return <p class="soft small">{t("talks.none")}</p>;
  return (
    <ul class="plain" data-talks>
      {value.map((one) => (
        <li key={one.context} onClick={props.onChoose}>
          <Link to="chat" query={{ agent: props.agent, context: one.context }} current={one.context === props.current}>
            <span class="name">{visible(one.title) || t("talks.untitled")}</span>
            <span class="row small soft">
              <span class="fill">{moment(one.at)}</span>
              {(one.state === "input-required" || one.state === "auth-required" || one.state === "failed") && <State word={one.state} />}
            </span>
          </Link>
        </li>
      ))}
    </ul>
  );
}
