/** Tasks: everything the agent works on, newest first, found by words, state, time or how long they took. */

import { useEffect, useRef, useState } from "preact/hooks";
import * as http from "../api/http";
import type { Summary } from "../api/types";
import { isFinal } from "../fold";
import { moment, number, span, stateWord, t } from "../i18n";
import { go, me, onChange, query, useReturn } from "../state";
import { Link, Skeleton, State, Trouble } from "../ui/elements";
import { useRows } from "../ui/keys";
import { visible } from "../ui/text";
import { Countdown, ProgressBar } from "../ui/time";
import { addressOf, callerName, entryName } from "./address";
import { Glance } from "./glance";

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
const SORTS = ["", "oldest", "slow"] as const;
const PAUSE_MS = 250; // of somebody who types

interface Filters extends Record<string, string> {
  state: string;
  context: string;
  since: string;
  find: string;
  sort: string;
  cursor: string;
}

function filtersOf(given: URLSearchParams): Filters {
  const value = (name: string) => given.get(name) ?? "";
  return {
    state: value("state"),
    context: value("context"),
    since: value("since"),
    find: value("find"),
    sort: value("sort"),
    cursor: value("cursor"),
  };
}

/** Whether a task that changed belongs to what is shown. Words are the server's business: it looks at more than we have. */
export function belongs(task: Summary, filters: Filters, now: number): boolean {
  const since = SINCE[filters.since];
  return (
    !filters.find &&
    (!filters.state || task.state === filters.state) &&
    (!filters.context || task.contextId === filters.context) &&
    (!since || task.at >= now - since)
  );
}

function ask(filters: Filters): Promise<http.TaskPage> {
  const since = SINCE[filters.since];
  return http.tasks({
    ...filters,
    sort: filters.sort === "slow" ? "slow" : "",
    order: filters.sort === "oldest" ? "oldest" : "",
    since: since ? String(Date.now() - since) : "",
  });
}

let last: { key: string; page: http.TaskPage } | null = null; // Back shows it at once

export default function Tasks() {
  const filters = filtersOf(query.value);
  const key = JSON.stringify(filters);
  const [page, setPage] = useState<http.TaskPage | null>(last?.key === key ? last.page : null);
  const [error, setError] = useState<unknown>(null);
  const [changed, setChanged] = useState<Summary[]>([]);
  const [words, setWords] = useState(filters.find);
  const [open, setOpen] = useState("");
  const current = useRef(0); // an answer that comes late must not replace a newer one

  const load = () => {
    const own = ++current.current;
    ask(filters)
      .then((found) => {
        if (own !== current.current) return;
        last = { key, page: found };
        setPage(found);
        setChanged([]);
        setError(null);
      })
      .catch((wrong: unknown) => own === current.current && setError(wrong));
  };
  useEffect(load, [key]);
  useReturn(page !== null);

  useEffect(
    () =>
      onChange((told) => {
        if (told.isBack) load();
        const news = told.tasks ?? [];
        if (!news.length) return;
        // Tasks that are shown change in place, or go if they no longer belong; new ones wait until they are asked for.
        const byId = new Map(news.map((task) => [task.id, task]));
        const stays = (task: Summary) => filters.find !== "" || belongs(task, filters, Date.now());
        setPage((now) => now && { ...now, tasks: now.tasks.map((task) => byId.get(task.id) ?? task).filter(stays) });
        const fitting = news.filter((task) => belongs(task, filters, Date.now()));
        setChanged((now) => [...now.filter((old) => !byId.has(old.id)), ...fitting]);
      }),
    [key],
  );

  const set = (name: keyof Filters, value: string) => go("tasks", { ...filters, cursor: "", [name]: value });
  useEffect(() => setWords(filters.find), [filters.find]);
  useEffect(() => {
    if (words === filters.find) return undefined;
    const timer = setTimeout(() => go("tasks", { ...filters, cursor: "", find: words }, true), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [words]);

  const shown = page?.tasks ?? [];
  const newest = shown[0]?.at ?? 0;
  const isNewestFirst = !filters.sort && !filters.cursor;
  const fresh = changed.filter((task) => isNewestFirst && task.at >= newest && !shown.some((old) => old.id === task.id));
  const selected = useRows(shown.length, (i) => {
    const task = shown[i];
    if (task) go(`tasks/${encodeURIComponent(task.id)}`, addressOf(task));
  });
  const glanced = shown.find((task) => task.id === open);

  return (
    <>
      <div class="head">
        <h1>
          {t("tasks.title")} {page && !page.looked && <span class="soft">{number(page.total)}</span>}
        </h1>
        {fresh.length > 0 && (
          <button type="button" class="primary" onClick={load}>
            {t("tasks.new", { count: fresh.length })}
          </button>
        )}
      </div>
      <div class="row filters">
        <input
          id="search"
          class="grow"
          type="search"
          aria-label={t("tasks.search")}
          placeholder={t("tasks.search")}
          value={words}
          onInput={(event) => setWords(event.currentTarget.value)}
        />
        <label>
          <span class="label">{t("tasks.state")}</span>
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
          <span class="label">{t("tasks.since")}</span>
          <select value={filters.since} onChange={(event) => set("since", event.currentTarget.value)}>
            <option value="">{t("tasks.since.any")}</option>
            <option value="hour">{t("tasks.since.hour")}</option>
            <option value="day">{t("tasks.since.day")}</option>
            <option value="week">{t("tasks.since.week")}</option>
          </select>
        </label>
        <label>
          <span class="label">{t("tasks.sort")}</span>
          <select value={filters.sort} onChange={(event) => set("sort", event.currentTarget.value)}>
            {SORTS.map((sort) => (
              <option key={sort} value={sort}>
                {t(`tasks.sort.${sort || "newest"}` as "tasks.sort.newest")}
              </option>
            ))}
          </select>
        </label>
        {filters.context && (
          <button type="button" onClick={() => set("context", "")}>
            {t("tasks.context")}: {filters.context.slice(-8)} ✕
          </button>
        )}
      </div>
      {error !== null && <Trouble error={error} onRetry={load} />}
      {!page && error === null && <Skeleton />}
      {page?.looked && (
        <p class="soft" id="looked">
          {page.looked.isAll
            ? t("tasks.looked.all", { count: number(page.looked.count) })
            : t("tasks.looked", { count: number(page.looked.count), time: moment(page.looked.back) })}
        </p>
      )}
      {page && !shown.length && (
        <p class="empty">{Object.values(filters).some(Boolean) ? t("tasks.nothing") : t("tasks.empty")}</p>
      )}
      {shown.length > 0 && (
        <div class={glanced ? "with-pane" : ""}>
          <Rows tasks={shown} selected={selected} open={open} filters={filters} onOpen={setOpen} />
          {glanced && <Glance key={glanced.id} task={glanced} onClose={() => setOpen("")} />}
        </div>
      )}
      {page && shown.length > 0 && (
        <div class="row">
          <span class="soft grow">{t("tasks.count", { shown: number(shown.length), total: number(page.total) })}</span>
          {filters.cursor && (
            <button type="button" onClick={() => set("cursor", "")}>
              {t("tasks.newest")}
            </button>
          )}
          {page.next && (
            <button type="button" onClick={() => go("tasks", { ...filters, cursor: page.next })}>
              {filters.sort === "oldest" ? t("tasks.newer") : t("tasks.older")}
            </button>
          )}
        </div>
      )}
    </>
  );
}

/** How long a task took, or has taken so far. */
export function tookOf(task: Summary, now: number): number {
  return Math.max(0, (isFinal(`TASK_STATE_${task.state.toUpperCase()}`) ? task.at : now) - task.created);
}

/** What a task waits for, and how far it is. */
export function Awaited({ task }: { task: Summary }) {
  return (
    <span class="small under">
      {!!task.expires && <Countdown until={task.expires} kind="answer" />}
      {!!task.wakes && <Countdown until={task.wakes} kind="wakes" />}
      {task.progress && <ProgressBar progress={task.progress} />}
    </span>
  );
}

function Rows(props: {
  tasks: Summary[];
  selected: number;
  open: string;
  filters: Filters;
  onOpen: (id: string) => void;
}) {
  const { tasks, selected, open, filters, onOpen } = props;
  const hasAgents = me.value!.mode === "hub" || me.value!.agents.length > 0;
  return (
    <div class="table folds">
      <table>
        <caption class="hidden">{t("tasks.table")}</caption>
        <thead>
          <tr>
            <th scope="col">{t("tasks.state")}</th>
            <th scope="col">{t("tasks.what")}</th>
            {hasAgents && <th scope="col">{t("nav.agent")}</th>}
            <th scope="col" class="extra">
              {t("tasks.skill")}
            </th>
            <th scope="col" class="extra">
              {t("tasks.caller")}
            </th>
            <th scope="col" class="extra">
              {t("tasks.context")}
            </th>
            <th scope="col" class="numbers">
              {t("tasks.took")}
            </th>
            <th scope="col">{t("tasks.when")}</th>
          </tr>
        </thead>
        <tbody>
          {tasks.map((task, i) => (
            <tr
              key={task.id}
              aria-selected={i === selected || task.id === open}
              data-task={task.id}
              onClick={(event) => {
                if (!(event.target as HTMLElement).closest("a, button")) onOpen(task.id === open ? "" : task.id);
              }}
            >
              <td>
                <State word={task.state} />
              </td>
              <td class="first">
                <Link to={`tasks/${encodeURIComponent(task.id)}`} query={addressOf(task)}>
                  {visible(task.title || task.id)}
                </Link>
                {task.why && <span class="why">{visible(task.why)}</span>}
                <Awaited task={task} />
              </td>
              {hasAgents && <td class="clip">{visible(entryName(task.agent))}</td>}
              <td class="clip extra">{visible(task.skill)}</td>
              <td class="extra">{visible(callerName(task.caller)) || t("tasks.anonymous")}</td>
              <td class="extra">
                <Link to="tasks" query={{ ...filters, cursor: "", context: task.contextId }}>
                  <span class="mono">{task.contextId.slice(-8)}</span>
                </Link>
              </td>
              <td class="numbers">{task.created ? span(tookOf(task, Date.now())) : ""}</td>
              <td class="whole soft">{moment(task.at)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
