/** The shell: navigation, the page of the address, keys and what is wrong. */

import type { ComponentChildren } from "preact";
import { lazy, Suspense } from "preact/compat";
import { useEffect, useState } from "preact/hooks";
import { clock, language, t } from "./i18n";
import { choose, failure, go, hasKeys, isLocked, me, notice, offlineSince, path, titleOf, useTitle } from "./state";
import { Boundary } from "./ui/boundary";
import { Dialog, Icon, Link } from "./ui/elements";
import { isTyping, useKeys } from "./ui/keys";
import { visible } from "./ui/text";

const Chat = lazy(() => import("./pages/chat"));
const Tasks = lazy(() => import("./pages/tasks"));
const TaskPage = lazy(() => import("./pages/task"));
const Agent = lazy(() => import("./pages/agent"));
const Live = lazy(() => import("./pages/live"));
const Pushes = lazy(() => import("./pages/pushes"));
const Settings = lazy(() => import("./pages/settings"));

const Inbox = lazy(() => import("./pages/hub/inbox"));
const Agents = lazy(() => import("./pages/hub/agents"));
const EntryPage = lazy(() => import("./pages/hub/entry"));
const Trace = lazy(() => import("./pages/hub/trace"));

const AGENT_PLACES = [
  { to: "", name: "chat", key: "i" },
  { to: "tasks", name: "tasks", key: "t" },
  { to: "agent", name: "agent", key: "a" },
  { to: "live", name: "live", key: "l" },
  { to: "pushes", name: "pushes", key: "p" },
  { to: "settings", name: "settings", key: "s" },
] as const;

const HUB_PLACES = [
  { to: "", name: "inbox", key: "i" },
  { to: "agents", name: "agents", key: "a" },
  { to: "chat", name: "chat", key: "h" },
  { to: "tasks", name: "tasks", key: "t" },
  { to: "trace", name: "trace", key: "r" },
  { to: "live", name: "live", key: "l" },
  { to: "pushes", name: "pushes", key: "p" },
  { to: "settings", name: "settings", key: "s" },
] as const;

const places = () => (me.value?.mode === "hub" ? HUB_PLACES : AGENT_PLACES);

export function App() {
  const [isHelp, setHelp] = useState(false);
  const place = places().find((one) => one.to === path.value.split("/")[0]);
  const title = isLocked.value ? t("app.title") : titleOf(place ? t(`nav.${place.name}`) : "");
  useEffect(() => {
    document.documentElement.lang = language.value === "zh" ? "zh-CN" : "en";
    document.title = title;
  }, [language.value, title]);
  useGoto();
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
        <p>{t("locked.text")}</p>
      </main>
    );
  }
  if (!me.value) return <main>{failure.value ? <p role="alert">{failure.value}</p> : <p>{t("common.loading")}</p>}</main>;
  const [first = ""] = path.value.split("/");
  return (
    <div class="shell">
      <a class="skip" href="#content">
        {t("app.skip")}
      </a>
      <nav class="rail" aria-label={t("nav.main")}>
        {me.value.agents.length ? <AgentChoice /> : <strong>{visible(me.value.card.name)}</strong>}
        <ul>
          {places().map((place) => (
            <li key={place.name}>
              <Link to={place.to} current={first === place.to}>
                <Icon name={place.name} />
                {t(`nav.${place.name}`)}
              </Link>
            </li>
          ))}
        </ul>
      </nav>
      <div>
        {offlineSince.value !== null && (
          <p class="bar" role="status">
            {t("offline", { time: clock(offlineSince.value) })}
          </p>
        )}
        {notice.value && (
          <p class="bar" role="alert">
            {t("common.error")}: {notice.value}
          </p>
        )}
        <main id="content" tabIndex={-1}>
          <Boundary key={path.value}>
            <Suspense fallback={<p>{t("common.loading")}</p>}>{pageOf(path.value, me.value.mode === "hub")}</Suspense>
          </Boundary>
        </main>
      </div>
      <Dialog title={t("help.title")} isOpen={isHelp} onClose={() => setHelp(false)}>
        <dl>
          <dt>?</dt>
          <dd>{t("help.help")}</dd>
          <dt>/</dt>
          <dd>{t("help.search")}</dd>
          <dt>g</dt>
          <dd>{t("help.goto", { letters: places().map((place) => `${place.key} ${t(`nav.${place.name}`)}`).join(", ") })}</dd>
          <dt>j k</dt>
          <dd>{t("help.rows")}</dd>
          <dt>Enter</dt>
          <dd>{t("help.open")}</dd>
          <dt>[ ]</dt>
          <dd>{t("help.events")}</dd>
          <dt>Space</dt>
          <dd>{t("help.play")}</dd>
          <dt>c</dt>
          <dd>{t("help.cancel")}</dd>
          <dt>Esc</dt>
          <dd>{t("help.close")}</dd>
        </dl>
        <button type="button" onClick={() => setHelp(false)}>
          {t("common.close")}
        </button>
      </Dialog>
    </div>
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
      return isHub ? <Inbox /> : <Chat />;
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
    case "chat":
      return <Chat />;
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
