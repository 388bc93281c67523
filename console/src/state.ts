/** What all pages share: who we are, what the server says now, and how the page looks. */

import { effect, signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import * as http from "./api/http";
import { logIn, sessionHeaders } from "./api/session";
import type { Exchange, Me, Summary } from "./api/types";
import { visible } from "./ui/text";

const NOTICE_MS = 8000;

export const me = signal<Me | null>(null);
export const isLocked = signal(false);
export const loginAt = signal(""); // where people log in with their provider; empty if they can't
export const failure = signal("");
const AGENT = "accord.agent";

/** Show another of several agents that are served together. */
export async function choose(agent: string): Promise<void> {
  localStorage.setItem(AGENT, agent);
  me.value = await http.me(agent);
}

export async function start(): Promise<void> {
  try {
    await logIn();
    me.value = await http.me(localStorage.getItem(AGENT) ?? "");
    failure.value = "";
    if (me.value.isOperator) void follow();
  } catch (error) {
    if (error instanceof http.Failure && error.status === 403) {
      loginAt.value = error.login;
      isLocked.value = true;
    } else {
      failure.value = String(error instanceof Error ? error.message : error);
      setTimeout(() => void start(), 2000);
    }
  }
}

// Live changes: one stream for the tab

export interface Told {
  isBack?: boolean; // the server answers again: what was read before may be old
  tasks?: Summary[];
  total?: number;
  exchanges?: Exchange[];
}

export const offlineSince = signal<number | null>(null);
const listeners = new Set<(told: Told) => void>();

export function onChange(listener: (told: Told) => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Resolve when the tab is in view. */
function inView(): Promise<void> {
  return new Promise((done) => {
    const look = (): void => {
      if (document.hidden) return;
      document.removeEventListener("visibilitychange", look);
      done();
    };
    document.addEventListener("visibilitychange", look);
    look();
  });
}

/** Read the stream of changes for ever. A hidden tab reads none: a browser has six connections to a
 * server for all tabs, and further tabs would never load. */
async function follow(): Promise<void> {
  for (let isFirst = true; ; isFirst = false) {
    await inView();
    const left = new AbortController();
    const leave = (): void => {
      if (document.hidden) left.abort();
    };
    document.addEventListener("visibilitychange", leave);
    try {
      const response = await fetch("/console/api/live", { headers: sessionHeaders(), signal: left.signal });
      if (response.status === 403) {
        isLocked.value = true;
        return;
      }
      if (!response.ok) throw new Error(`HTTP ${response.status}`);
      offlineSince.value = null;
      // What changed between two streams was missed.
      if (!isFirst) for (const listener of listeners) listener({ isBack: true });
      await http.stream(response, (data) => {
        const told = JSON.parse(data) as Told;
        for (const listener of listeners) listener(told);
      });
    } catch {
      if (!left.signal.aborted) offlineSince.value ??= Date.now();
    } finally {
      document.removeEventListener("visibilitychange", leave);
    }
    if (!left.signal.aborted) await new Promise((done) => setTimeout(done, 1000));
  }
}

// Addresses

/** Where an agent answers JSON-RPC: the one of this server, or at a hub the one of a name. */
export const rpcOf = (agent: string): string => (agent ? `/agents/${encodeURIComponent(agent)}/` : me.value!.rpc);

export const path = signal(location.pathname.replace(/^\/console\/?/, ""));
export const query = signal(new URLSearchParams(location.search));

function read(): void {
  path.value = location.pathname.replace(/^\/console\/?/, "");
  query.value = new URLSearchParams(location.search);
}

/** How far down one had read the page that Back returns to. */
let returnTo = 0;

addEventListener("popstate", (event) => {
  returnTo = Number((event.state as { y?: number } | null)?.y ?? 0);
  read();
});

/** Scroll to where one was, once what is shown there has been read. */
export function useReturn(isRead: boolean): void {
  useEffect(() => {
    if (!isRead || !returnTo) return;
    scrollTo(0, returnTo);
    returnTo = 0;
  }, [isRead]);
}

export function href(to: string, values: Record<string, string> = {}): string {
  const given = Object.entries(values).filter(([, value]) => value);
  return `/console/${to}${given.length ? `?${new URLSearchParams(given)}` : ""}`;
}

export function go(to: string, values: Record<string, string> = {}, replace = false): void {
  if (!replace) {
    history.replaceState({ y: scrollY }, "");
    returnTo = 0;
  }
  const isElsewhere = to !== path.value;
  history[replace ? "replaceState" : "pushState"](null, "", href(to, values));
  read();
  if (isElsewhere && !replace) scrollTo(0, 0);
}

// What the tab is called

const pageTitle = signal("");

/** Name the tab after what a page shows, while it is shown. */
export function useTitle(words: string): void {
  useEffect(() => {
    pageTitle.value = words;
    return () => {
      pageTitle.value = "";
    };
  }, [words]);
}

/** The title of the tab: what is shown, and whose console it is. */
export function titleOf(place: string): string {
  return [pageTitle.value || place, me.value?.card.name ?? "", "Accord"]
    .filter(Boolean)
    .map((part) => visible(part).slice(0, 60))
    .join(" · ");
}

// What is said beside the pages

export const notice = signal("");

/** Say something for a while, in a corner of the page. */
export function say(text: string): void {
  notice.value = text;
  setTimeout(() => {
    if (notice.value === text) notice.value = "";
  }, NOTICE_MS);
}

addEventListener("unhandledrejection", (event) => {
  event.preventDefault();
  say(event.reason instanceof Error ? event.reason.message : String(event.reason));
});

// Theme and keys

export type Theme = "system" | "light" | "dark";
const kept = localStorage.getItem("accord.theme");
export const theme = signal<Theme>(kept === "light" || kept === "dark" ? kept : "system");
export const hasKeys = signal(localStorage.getItem("accord.keys") !== "off");

effect(() => {
  document.documentElement.dataset["theme"] = theme.value;
  localStorage.setItem("accord.theme", theme.value);
});
effect(() => localStorage.setItem("accord.keys", hasKeys.value ? "on" : "off"));
