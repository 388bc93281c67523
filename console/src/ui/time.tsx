/** What changes by itself as time passes: deadlines, timers and how far a task is. */

import { useEffect, useState } from "preact/hooks";
import type { Progress, Task } from "../api/types";
import { moment, number, span, t } from "../i18n";

const SOON_MS = 3_600_000;

/** Draw again every second while less than an hour is left, else every half minute. */
function useNow(until: number): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    setNow(Date.now());
    const isSoon = until - Date.now() < SOON_MS;
    const timer = setInterval(() => setNow(Date.now()), isSoon ? 1000 : 30_000);
    return () => clearInterval(timer);
  }, [until, until - now < SOON_MS]);
  return now;
}

/** How long is left until a moment. `kind` says what happens then. */
export function Countdown({ until, kind }: { until: number; kind: "answer" | "wakes" }) {
  const left = until - useNow(until);
  const isOver = left <= 0;
  const urgent = kind === "answer" && left < SOON_MS ? "urgent" : "";
  const words = isOver ? t(`time.${kind}.over`) : t(`time.${kind}`, { time: span(Math.ceil(left / 1000) * 1000) });
  return (
    <time class={`countdown ${urgent}`} dateTime={new Date(until).toISOString()} title={moment(until)} data-until={until}>
      {words}
    </time>
  );
}

const QUESTION = "urn:accord:question:1";
const PROGRESS = "urn:accord:progress:1";

/** The question that a task waits for: its id, and until when it may be answered. */
export function questionOf(task: Task | null | undefined): { id: string; expires: number } {
  const found = task?.status.message?.metadata?.[QUESTION] as { id?: unknown; expiresAt?: unknown } | undefined;
  const at = typeof found?.expiresAt === "string" ? Date.parse(found.expiresAt) : NaN;
  return { id: typeof found?.id === "string" ? found.id : "", expires: Number.isFinite(at) ? at : 0 };
}

/** The metadata of an answer: which question it answers, so that a late one is not taken for the next. */
export function answerMetadata(task: Task | null | undefined): { metadata?: { [name: string]: { id: string } } } {
  const { id } = questionOf(task);
  return id ? { metadata: { [QUESTION]: { id } } } : {};
}

/** How far a task is, as its agent last said it in numbers. */
export function progressOf(task: Task | null | undefined): Progress | null {
  const found = task?.metadata?.[PROGRESS] as { done?: unknown; total?: unknown } | undefined;
  const isAmount = (value: unknown): value is number => typeof value === "number" && Number.isFinite(value) && value >= 0;
  if (!isAmount(found?.done)) return null;
  return { done: found.done, total: isAmount(found.total) && found.total > 0 ? found.total : null };
}

export function ProgressBar({ progress }: { progress: Progress }) {
  const { done, total } = progress;
  const share = total === null ? null : Math.min(1, done / total);
  const words = total === null ? number(done) : t("time.progress", { done: number(done), total: number(total) });
  return (
    <span class="progress">
      <progress {...(share === null ? {} : { value: share, max: 1 })} aria-label={words} />
      <span class="small soft">{share === null ? words : `${number(Math.round(share * 100))} %`}</span>
    </span>
  );
}
