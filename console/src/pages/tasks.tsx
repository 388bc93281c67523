/** Tasks: everything the agent works on, newest first. */

import { useEffect, useRef, useState } from "preact/hooks";
import * as http from "../api/http";
import type { Summary } from "../api/types";
import { moment, number, stateWord, t } from "../i18n";
import { go, me, onChange, query } from "../state";
import { Link, State, Trouble } from "../ui/elements";
import { useRows } from "../ui/keys";
import { visible } from "../ui/text";

const STATES = [
  "submitted",
  "working",
  "input-required",
  "auth-required",
  "completed",
  "failed",
  "canceled",
  "rejected",
];
const SINCE: { [name: string]: number } = { hour: 3_600_000, day: 86_400_000, week: 604_800_000 };

/** What an address of a task has beside its id. The hub has tasks of many agents. */
function addressOf(task: Summary): Record<string, string> {
  const isOther = me.value!.mode === "hub" || me.value!.agents.length > 0;
  return { tenant: task.tenant, caller: task.caller, agent: isOther ? task.agent : "" };
}

export default function Tasks() {
  const [page, setPage] = useState<http.TaskPage | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [changed, setChanged] = useState<Summary[]>([]);
  const [words, setWords] = useState("");
  const given = (name: string) => query.value.get(name) ?? "";
  const filters = { state: given("state"), context: given("context"), since: given("since"), cursor: given("cursor") };

  const current = useRef(0); // an answer that comes late must not replace a newer one

  const load = () => {
    const own = ++current.current;
    const since = SINCE[filters.since];
    http
      .tasks({ ...filters, since: since ? String(Date.now() - since) : "" })
      .then((found) => {
        if (own !== current.current) return;
        setPage(found);
        setChanged([]);
        setError(null);
      })
      .catch((wrong: unknown) => own === current.current && setError(wrong));
  };
  useEffect(load, [filters.state, filters.context, filters.since, filters.cursor]);

  useEffect(
    () =>
      onChange((told) => {
        if (told.isBack) load();
        const news = told.tasks ?? [];
        if (!news.length) return;
        // Tasks that are shown change in place; new ones wait until they are asked for.
        setPage((now) => {
          if (!now) return now;
          const byId = new Map(news.map((task) => [task.id, task]));
          return { ...now, tasks: now.tasks.map((task) => byId.get(task.id) ?? task) };
        });
        setChanged((now) => [...now.filter((old) => !news.some((task) => task.id === old.id)), ...news]);
      }),
    [filters.state, filters.context, filters.since, filters.cursor],
  );

  const shown = (page?.tasks ?? []).filter(
    (task) => !words || `${task.title} ${task.skill} ${task.id}`.toLowerCase().includes(words.toLowerCase()),
  );
  const newest = page?.tasks[0]?.at ?? 0;
  const fresh = changed.filter(
    (task) => task.at >= newest && !page?.tasks.some((old) => old.id === task.id),
  );
  const selected = useRows(shown.length, (i) => {
    const task = shown[i];
    if (task) go(`tasks/${encodeURIComponent(task.id)}`, addressOf(task));
  });
  const set = (name: string, value: string) => go("tasks", { ...filters, cursor: "", [name]: value });

  return (
    <>
      <h1>{t("tasks.title")}</h1>
      <div class="row">
        <label>
          {t("tasks.state")}{" "}
          <select value={filters.state} onChange={(event) => set("state", event.currentTarget.value)}>
            <option value="">{t("common.all")}</option>
            {STATES.map((state) => (
              <option key={state} value={state}>
                {stateWord(state)}
              </option>
            ))}
          </select>
        </label>
        <label>
          {t("tasks.since")}{" "}
          <select value={filters.since} onChange={(event) => set("since", event.currentTarget.value)}>
            <option value="">{t("tasks.since.any")}</option>
            <option value="hour">{t("tasks.since.hour")}</option>
            <option value="day">{t("tasks.since.day")}</option>
            <option value="week">{t("tasks.since.week")}</option>
          </select>
        </label>
        <label>
          {t("tasks.search")}{" "}
          <input id="search" type="search" value={words} onInput={(event) => setWords(event.currentTarget.value)} />
        </label>
        {filters.context && (
          <button type="button" onClick={() => set("context", "")}>
            {t("tasks.context")}: {filters.context.slice(0, 8)} ✕
          </button>
        )}
        {fresh.length > 0 && (
          <button type="button" class="primary" onClick={load}>
            {t("tasks.new", { count: fresh.length })}
          </button>
        )}
      </div>
      {error !== null && <Trouble error={error} onRetry={load} />}
      {page && !page.tasks.length && (
        <p>{Object.values(filters).some(Boolean) ? t("tasks.nothing") : t("tasks.empty")}</p>
      )}
      {shown.length > 0 && (
        <div class="scroll">
          <table>
            <caption class="hidden">{t("tasks.table")}</caption>
            <thead>
              <tr>
                <th scope="col">{t("tasks.state")}</th>
                <th scope="col">{t("tasks.what")}</th>
                <th scope="col">{t("tasks.skill")}</th>
                <th scope="col">{t("tasks.caller")}</th>
                <th scope="col">{t("tasks.context")}</th>
                <th scope="col">{t("tasks.when")}</th>
              </tr>
            </thead>
            <tbody>
              {shown.map((task, i) => (
                <tr key={task.id} aria-selected={i === selected} data-task={task.id}>
                  <td>
                    <State word={task.state} />
                  </td>
                  <td>
                    <Link to={`tasks/${encodeURIComponent(task.id)}`} query={addressOf(task)}>
                      {visible(task.title || task.id)}
                    </Link>
                  </td>
                  <td>{task.skill}</td>
                  <td>{visible(task.caller) || t("tasks.anonymous")}</td>
                  <td>
                    <Link to="tasks" query={{ ...filters, cursor: "", context: task.contextId }}>
                      <span class="mono">{task.contextId.slice(0, 8)}</span>
                    </Link>
                  </td>
                  <td>{moment(task.at)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {page && page.tasks.length > 0 && (
        <div class="row">
          <span class="soft grow">{t("tasks.count", { shown: number(shown.length), total: number(page.total) })}</span>
          {filters.cursor && (
            <button type="button" onClick={() => set("cursor", "")}>
              {t("tasks.newest")}
            </button>
          )}
          {page.next && (
            <button type="button" onClick={() => set("cursor", page.next)}>
              {t("tasks.older")}
            </button>
          )}
        </div>
      )}
    </>
  );
}
