/** The words of the page, in the language the user chose. */

import { computed, signal } from "@preact/signals";
import { en, type Catalogue, type Key } from "./en";
import { zh } from "./zh";

export type Language = "en" | "zh" | "pseudo";

/** Stretched and accented, so that tests find texts that are cut off or were forgotten. */
const pseudo = Object.fromEntries(
  Object.entries(en).map(([key, text]) => [key, `⟦${text.replace(/[aeiou]/g, "$&$&́")}⟧`]),
) as Catalogue;

const catalogues: { [language in Language]: Catalogue } = { en, zh, pseudo };

function initial(): Language {
  const kept = localStorage.getItem("accord.language");
  if (kept === "en" || kept === "zh" || kept === "pseudo") return kept;
  return navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
}

export const language = signal<Language>(initial());
const words = computed(() => catalogues[language.value]);
const locale = computed(() => (language.value === "zh" ? "zh-CN" : "en-GB"));

export function setLanguage(chosen: Language): void {
  localStorage.setItem("accord.language", chosen);
  language.value = chosen;
}

export function t(key: Key, values: Record<string, string | number> = {}): string {
  return words.value[key].replace(/\{(\w+)\}/g, (whole, name) => String(values[name] ?? whole));
}

export function has(key: string): key is Key {
  return key in en;
}

export function stateWord(word: string): string {
  const key = `state.${word}`;
  return has(key) ? t(key) : word;
}

export function clock(ms: number): string {
  return new Intl.DateTimeFormat(locale.value, { timeStyle: "medium" }).format(ms);
}

export function moment(ms: number): string {
  const isToday = new Date(ms).toDateString() === new Date().toDateString();
  const options: Intl.DateTimeFormatOptions = isToday
    ? { timeStyle: "medium" }
    : { dateStyle: "medium", timeStyle: "short" };
  return new Intl.DateTimeFormat(locale.value, options).format(ms);
}

/** A past moment in a few letters: the time of day, with the weekday if it was not today; the date if that is long ago. */
export function dayOrTime(ms: number): string {
  const isToday = new Date(ms).toDateString() === new Date().toDateString();
  const time = { hour: "numeric", minute: "2-digit" } as const;
  const isRecent = Date.now() - ms < 2 * 86_400_000;
  const options: Intl.DateTimeFormatOptions = isToday ? time : isRecent ? { weekday: "short", ...time } : { month: "short", day: "numeric" };
  return new Intl.DateTimeFormat(locale.value, options).format(ms);
}

export function number(value: number): string {
  return new Intl.NumberFormat(locale.value).format(value);
}

const UNITS = { second: ["s", "秒"], minute: ["min", "分钟"], hour: ["h", "小时"], day: ["d", "天"] } as const;

/** A time span in its two largest units: `140 ms`, `4.1 s`, `18 min 3 s`. */
export function span(ms: number): string {
  const isChinese = language.value === "zh";
  const unit = (value: number, name: keyof typeof UNITS) => {
    const digits = name === "second" && ms < 10_000 ? 1 : 0;
    const said = new Intl.NumberFormat(locale.value, { maximumFractionDigits: digits }).format(value);
    return `${said} ${UNITS[name][isChinese ? 1 : 0]}`;
  };
  if (ms < 1000) return `${number(Math.round(ms))} ms`;
  const s = ms / 1000;
  if (s < 59.5) return unit(s, "second");
  if (s < 3600) return `${unit(Math.floor(s / 60), "minute")} ${unit(Math.floor(s % 60), "second")}`;
  if (s < 86_400) {
    return `${unit(Math.floor(s / 3600), "hour")} ${unit(Math.floor((s % 3600) / 60), "minute")}`;
  }
  return `${unit(Math.floor(s / 86_400), "day")} ${unit(Math.floor((s % 86_400) / 3600), "hour")}`;
}

export function bytes(value: number): string {
  if (value < 1024) return `${number(value)} B`;
  if (value < 1 << 20) return `${number(Math.round(value / 1024))} KiB`;
  return `${number(Math.round(value / (1 << 18)) / 4)} MiB`;
}
