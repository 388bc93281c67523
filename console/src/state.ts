/** What all pages share: who we are, what the server says now, and how the page looks. */

import { effect, signal } from "@preact/signals";
import * as http from "./api/http";
import { logIn, sessionHeaders } from "./api/session";
import type { Exchange, Me, Summary } from "./api/types";

export const me = signal<Me | null>(null);
export const isLocked = signal(false);
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
    void follow();
  } catch (error) {
    if (error instanceof http.Failure && error.status === 403) isLocked.value = true;
    else {
      failure.value = String(error instanceof Error ? error.message : error);
      setTimeout(() => void start(), 2000);
    }
  }
}

// Live changes: one stream for the tab

export interface Told {
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

async function follow(): Promise<void> {
  for (;;) {
    try {
      const response = await fetch("/console/api/live", { headers: sessionHeaders() });
      if (response.status === 403) {
        isLocked.value = true;
        return;
      }
      if (!response.ok) throw new Error(`HTTP ${response.status}`);
      offlineSince.value = null;
      await http.stream(response, (data) => {
        const told = JSON.parse(data) as Told;
        for (const listener of listeners) listener(told);
      });
    } catch {
      offlineSince.value ??= Date.now();
    }
    await new Promise((done) => setTimeout(done, 1000));
  }
}

// Addresses

/** Where Chat is: the first page of an agent; a hub begins with its inbox. */
export const chatPlace = (): string => (me.value?.mode === "hub" ? "chat" : "");

export const path = signal(location.pathname.replace(/^\/console\/?/, ""));
export const query = signal(new URLSearchParams(location.search));

function read(): void {
  path.value = location.pathname.replace(/^\/console\/?/, "");
  query.value = new URLSearchParams(location.search);
}

addEventListener("popstate", read);

export function href(to: string, values: Record<string, string> = {}): string {
  const given = Object.entries(values).filter(([, value]) => value);
  return `/console/${to}${given.length ? `?${new URLSearchParams(given)}` : ""}`;
}

export function go(to: string, values: Record<string, string> = {}, replace = false): void {
  history[replace ? "replaceState" : "pushState"](null, "", href(to, values));
  read();
}

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
