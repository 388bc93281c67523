/** Two tasks beside each other, event by event: those that are alike stand in one row, the rest is marked. */

import { useEffect, useState } from "preact/hooks";
import * as http from "../api/http";
import type { Entry, Summary, Task } from "../api/types";
import { moment, number, span, t } from "../i18n";
import { go, onChange, query, useTitle } from "../state";
import { Link, Skeleton, State, Trouble } from "../ui/elements";
import { usePolled } from "../ui/polled";
import { visible } from "../ui/text";
import { addressOf } from "./address";
import { aligned } from "./align";
import { what } from "./task/log";

const MOST = 500; // entries of each: what is compared is quadratic

interface Side {
  summary: Summary & { task: Task };
  entries: Entry[];
}

async function read(side: string): Promise<Side | null> {
  const given = (name: string) => query.value.get(name) ?? "";
  const id = given(side);
  if (!id) return null;
  const at: http.Address = { id, tenant: given(`${side}.tenant`), caller: given(`${side}.caller`), agent: given(`${side}.agent`) };
  const [summary, { events }] = await Promise.all([http.task(at), http.events(at, 0)]);
  return { summary, entries: events.slice(0, MOST) };
}

const wordsOf = (entry: Entry): string => `${entry.kind} ${what(entry)}`;

export default function Compare() {
  const address = query.value.toString();
  const { value, error, load } = usePolled(() => Promise.all([read("left"), read("right")]), 30_000, [address]);
  useEffect(() => onChange((news) => news.tasks?.some(({ id }) => address.includes(id)) && load()), [address]); // one may still run
  useTitle(t("compare.title"));
  if (!value) return error !== null ? <Trouble error={error} onRetry={load} /> : <Skeleton />;
  const [left, right] = value;
  return (
    <>
      <div class="head">
        <h1>{t("compare.title")}</h1>
      </div>
      {!right && <Choose other={left?.summary.contextId ?? ""} own={left?.summary.id ?? ""} />}
      {left && right && <Table left={left} right={right} />}
    </>
  );
}

/** Which task to compare with: one of the newest, or those that words find. */
function Choose({ other, own }: { other: string; own: string }) {
  const [words, setWords] = useState("");
  const { value, error } = usePolled(() => http.tasks({ find: words, limit: "20" }), 30_000, [words]);
  const near = (task: Summary) => (task.contextId === other ? 0 : 1);
  const found = (value?.tasks ?? []).filter((task) => task.id !== own).sort((a, b) => near(a) - near(b));
  const take = (task: Summary) => {
    const { tenant = "", caller = "", agent = "" } = addressOf(task);
    go("compare", { ...Object.fromEntries(query.value), right: task.id, "right.tenant": tenant, "right.caller": caller, "right.agent": agent }, true);
  };
  return (
    <>
      <p>{t("compare.choose")}</p>
      <input type="search" aria-label={t("tasks.search")} placeholder={t("tasks.search")} value={words} onInput={(event) => setWords(event.currentTarget.value)} />
      {error !== null && <Trouble error={error} />}
      <ul class="plain ranked card">
        {found.map((task) => (
          <li key={task.id}>
            <button type="button" class="quiet name" onClick={() => take(task)}>
              {visible(task.title || task.id)}
            </button>
            <State word={task.state} />
            <span class="soft small">{moment(task.at)}</span>
          </li>
        ))}
      </ul>
    </>
  );
}

function Table({ left, right }: { left: Side; right: Side }) {
  const pairs = aligned(left.entries, right.entries, wordsOf);
  const differing = pairs.filter((pair) => !pair.left || !pair.right).length;
  const head = ({ summary }: Side) => (
    <th scope="col">
      <Link to={`tasks/${encodeURIComponent(summary.id)}`} query={addressOf(summary)}>
        {visible(summary.title || summary.id)}
      </Link>{" "}
      <State word={summary.state} />
    </th>
  );
  const cell = (side: Side, entry: Entry | null, isAlone: boolean) => (
    <td class={isAlone && entry ? "differs" : ""}>
      {entry && (
        <>
          <span class="soft small">+{span(entry.at - (side.entries[0]?.at ?? 0))}</span> {what(entry)}
        </>
      )}
    </td>
  );
  return (
    <>
      <p class="soft">{t("compare.count", { same: number(pairs.length - differing), differ: number(differing) })}</p>
      <div class="table">
        <table class="compared">
          <caption class="hidden">{t("compare.title")}</caption>
          <thead>
            <tr>
              {head(left)}
              {head(right)}
            </tr>
          </thead>
          <tbody>
            {pairs.map((pair, i) => (
              <tr key={i} data-pair={pair.left && pair.right ? "same" : "differs"}>
                {cell(left, pair.left, !pair.right)}
                {cell(right, pair.right, !pair.left)}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
