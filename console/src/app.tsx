/** The shell: navigation, the page of the address, keys and what is wrong. */

import type { ComponentChildren } from "preact";
import { lazy, Suspense } from "preact/compat";
import { useEffect, useState } from "preact/hooks";
import * as http from "./api/http";
import { clock, language, number, t } from "./i18n";
import { places } from "./places";
import { choose, failure, go, hasKeys, isLocked, loginAt, me, notice, offlineSince, onChange, path, titleOf, useTitle } from "./state";
import { Boundary } from "./ui/boundary";
import { Dialog, Icon, Link, Skeleton } from "./ui/elements";
import { isTyping, useKeys } from "./ui/keys";
import { usePolled } from "./ui/polled";
import { visible } from "./ui/text";

const Now = lazy(() => import("./pages/now"));
const Inbox = lazy(() => import("./pages/inbox"));
const Chat = lazy(() => import("./pages/chat"));
const Tasks = lazy(() => import("./pages/tasks"));
const TaskPage = lazy(() => import("./pages/task"));
const Compare = lazy(() => import("./pages/compare"));
const Agent = lazy(() => import("./pages/agent"));
const Live = lazy(() => import("./pages/live"));
const Pushes = lazy(() => import("./pages/pushes"));
const Settings = lazy(() => import("./pages/settings"));
const Palette = lazy(() => import("./ui/palette"));

const Agents = lazy(() => import("./pages/hub/agents"));
const EntryPage = lazy(() => import("./pages/hub/entry"));
const Trace = lazy(() => import("./pages/hub/trace"));
const Admin = lazy(() => import("./pages/hub/admin"));

export function App() {
  const [isHelp, setHelp] = useState(false);
  const [isFinding, setFinding] = useState(false);
  const place = places().find((one) => one.to === path.value.split("/")[0]);
  const title = isLocked.value ? t("app.title") : titleOf(place ? t(`nav.${place.name}`) : "");
  useEffect(() => {
    document.documentElement.lang = language.value === "zh" ? "zh-CN" : "en";
    document.title = title;
  }, [language.value, title]);
  useGoto();
  useFind(() => setFinding(true));
  useKeys(
    {
      "?": () => setHelp(true),
      "/": () => document.querySelector<HTMLElement>("#search")?.focus(),
    },
    [],
  );
  if (isLocked.value) {
    return (
      <main>
        <h1>{t("locked.title")}</h1>
        {loginAt.value && (
          <p>
            <a class="button" href={loginAt.value}>
              {t("locked.login")}
            </a>
          </p>
        )}
        <p>{t("locked.text")}</p>
      </main>
    );
  }
  if (!me.value) return <main>{failure.value ? <p role="alert">{failure.value}</p> : <Skeleton />}</main>;
  return (
    <div class="shell">
      <a class="skip" href="#content">
        {t("app.skip")}
      </a>
      <Rail onFind={() => setFinding(true)} />
      <div>
        {offlineSince.value !== null && (
          <p class="bar" role="status">
            {t("offline", { time: clock(offlineSince.value) })}
          </p>
        )}
        <main id="content" tabIndex={-1}>
          <Boundary key={path.value}>
            <Suspense fallback={<Skeleton />}>{pageOf(path.value, me.value.mode === "hub")}</Suspense>
          </Boundary>
        </main>
      </div>
      <div class="toasts">
        {notice.value && (
          <p class="toast" role="alert">
            {notice.value}
          </p>
        )}
      </div>
      {isFinding && (
        <Suspense fallback={null}>
          <Palette onClose={() => setFinding(false)} />
        </Suspense>
      )}
      <Help isOpen={isHelp} onClose={() => setHelp(false)} />
    </div>
  );
}

/** The pages, with what waits on them. */
function Rail({ onFind }: { onFind: () => void }) {
  const info = me.value!;
  const [first = ""] = path.value.split("/");
  const { value: counts, load } = usePolled(() => (info.isOperator ? http.counts() : Promise.resolve(null)), 15_000);
  useEffect(() => onChange((told) => (told.isBack || told.tasks?.length) && load()), []);
  const groups = [...new Set(places().map((place) => place.group))];
  return (
    <nav class="rail" aria-label={t("nav.main")}>
      <div class="brand">
        <Logo />
        {info.agents.length ? <AgentChoice /> : <span>{visible(info.card.name)}</span>}
      </div>
      <button type="button" class="find" onClick={onFind}>
        <Icon name="find" />
        {t("nav.find")} <kbd>Ctrl K</kbd>
      </button>
      {groups.map((group) => (
        <ul key={group} data-group={group}>
          {places()
            .filter((place) => place.group === group)
            .map((place) => (
              <li key={place.name}>
                <Link to={place.to} current={first === place.to}>
                  <Icon name={place.name} />
                  {t(`nav.${place.name}`)}
                  {place.name === "inbox" && <Count n={counts?.waiting} kind="wait" label={t("nav.waiting")} />}
                  {place.name === "tasks" && <Count n={counts?.failed} kind="bad" label={t("nav.failed")} />}
                </Link>
              </li>
            ))}
        </ul>
      ))}
      <button type="button" class="more" onClick={onFind}>
        <Icon name="more" />
        {t("nav.more")}
      </button>
    </nav>
  );
}

function Count({ n, kind, label }: { n: number | undefined; kind: string; label: string }) {
  if (!n) return null;
  return (
    <span class={`count ${kind}`} title={label}>
      {number(n)}
      <span class="hidden"> {label}</span>
    </span>
  );
}

function Logo() {
  return (
    <svg viewBox="0 0 24 24" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="2.6" stroke-linecap="round">
      <circle cx="8.5" cy="12" r="5.5" />
      <circle cx="15.5" cy="12" r="5.5" />
    </svg>
  );
}

function Help({ isOpen, onClose }: { isOpen: boolean; onClose: () => void }) {
  const letters = places()
    .map((place) => `${place.key} ${t(`nav.${place.name}`)}`)
    .join(", ");
  const keys: [string, string][] = [
    ["Ctrl K", t("help.find")],
    ["?", t("help.help")],
    ["/", t("help.search")],
    ["g", t("help.goto", { letters })],
    ["j k", t("help.rows")],
    ["Enter", t("help.open")],
    ["[ ]", t("help.events")],
    ["Space", t("help.play")],
    ["c", t("help.cancel")],
    ["Esc", t("help.close")],
  ];
  return (
    <Dialog title={t("help.title")} isOpen={isOpen} onClose={onClose}>
      <dl>
        {keys.map(([key, what]) => (
          <>
            <dt>{key}</dt>
            <dd>{what}</dd>
          </>
        ))}
      </dl>
      <button type="button" onClick={onClose}>
        {t("common.close")}
      </button>
    </Dialog>
  );
}

/** Which of several agents Chat and Agent are about. */
function AgentChoice() {
  const info = me.value!;
  const change = (name: string) => {
    void choose(name);
    go(path.value.startsWith("tasks") ? "tasks" : path.value);
  };
  return (
    <select aria-label={t("nav.choice")} value={info.card.name} onChange={(event) => change(event.currentTarget.value)}>
      {info.agents.map((name) => (
        <option key={name} value={name}>
          {visible(name)}
        </option>
      ))}
    </select>
  );
}

/** The page of an address. */
function pageOf(address: string, isHub: boolean): ComponentChildren {
  const parts = address.replace(/\/$/, "").split("/");
  const name = decoded(parts[1] ?? "");
  if (parts.length > 2 || name === null) return <NotFound />;
  switch (`${parts[0]}${name ? "/" : ""}`) {
    case "":
      return me.value?.isOperator === false ? <Agents /> : <Now />;
    case "inbox":
      return <Inbox />;
    case "chat":
      return <Chat />;
    case "compare":
      return <Compare />;
    case "tasks":
      return <Tasks />;
    case "tasks/":
      return <TaskPage key={name} id={name} />;
    case "live":
      return <Live />;
    case "pushes":
      return <Pushes />;
    case "settings":
      return <Settings />;
  }
  if (!isHub) return parts[0] === "agent" && !name ? <Agent /> : <NotFound />;
  switch (`${parts[0]}${name ? "/" : ""}`) {
    case "admin":
    case "admin/":
      return <Admin tab={name} />;
    case "agents":
      return <Agents />;
    case "agents/":
      return <EntryPage key={name} name={name} />;
    case "trace":
    case "trace/":
      return <Trace id={name} />;
  }
  return <NotFound />;
}

function decoded(part: string): string | null {
  try {
    return decodeURIComponent(part);
  } catch {
    return null;
  }
}

function NotFound() {
  useTitle(t("missing.title"));
  return (
    <>
      <h1>{t("missing.title")}</h1>
      <p>
        <span class="mono">{location.pathname}</span> {t("missing.text")}
      </p>
      <p class="row">
        {places().map((place) => (
          <Link key={place.name} to={place.to}>
            {t(`nav.${place.name}`)}
          </Link>
        ))}
      </p>
    </>
  );
}

/** `g` and then a letter goes to a page. */
function useGoto(): void {
  useEffect(() => {
    let since = 0;
    const on = (event: KeyboardEvent) => {
      if (!hasKeys.value || isTyping(event) || event.ctrlKey || event.metaKey) return;
      if (event.key === "g") since = event.timeStamp;
      else if (event.timeStamp - since < 1500) {
        const place = places().find((one) => one.key === event.key);
        since = 0;
        if (place) go(place.to);
      }
    };
    addEventListener("keydown", on);
    return () => removeEventListener("keydown", on);
  }, []);
}

/** Ctrl-K, or Command-K, opens the palette wherever one is. */
function useFind(open: () => void): void {
  useEffect(() => {
    const on = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey) return;
      event.preventDefault();
      open();
    };
    addEventListener("keydown", on);
    return () => removeEventListener("keydown", on);
  }, []);
}
