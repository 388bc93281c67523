/** The log of a task, entry by entry, and each entry in the form that a version of the protocol sends. */

import { useEffect, useRef, useState } from "preact/hooks";
import * as http from "../../api/http";
import type { Entry, Json, Task } from "../../api/types";
import { t } from "../../i18n";
import { me } from "../../state";
import { Copy, Segments, Skeleton } from "../../ui/elements";
import { JsonTree } from "../../ui/json";
import { difference, what } from "./log";

const ROW = 30;
const VISIBLE = 30;

/** Rows are drawn on demand: a log of ten thousand scrolls as one of ten. */
export function EventList(props: { entries: Entry[]; numbers: string[]; now: number; onMove: (to: number) => void }) {
  const { entries, numbers, now, onMove } = props;
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const first = Math.max(0, Math.floor(top / ROW) - 5);
  const shown = entries.slice(first, first + VISIBLE);
  const start = entries[0]?.at ?? 0;
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const place = now * ROW;
    if (place < element.scrollTop || place > element.scrollTop + element.clientHeight - ROW) {
      element.scrollTop = place - element.clientHeight / 2;
    }
  }, [now]);
  return (
    <div
      class="events"
      ref={box}
      role="listbox"
      aria-label={t("task.events")}
      aria-activedescendant={`event-${now}`}
      tabIndex={0}
      onScroll={(event) => setTop(event.currentTarget.scrollTop)}
      onKeyDown={(event) => {
        if (event.key === "ArrowDown") onMove(now + 1);
        else if (event.key === "ArrowUp") onMove(now - 1);
        else return;
        event.preventDefault();
      }}
    >
      <div role="presentation" style={{ height: `${first * ROW}px` }} />
      {shown.map((entry, i) => (
        <div
          key={entry.pos}
          id={`event-${first + i}`}
          role="option"
          aria-selected={first + i === now}
          data-number={numbers[first + i]}
          onClick={() => onMove(first + i)}
        >
          <span class={entry.event ? "" : "soft"}>{numbers[first + i]}</span>
          <span class="mono">+{((entry.at - start) / 1000).toFixed(3)} s</span>
          <span>{what(entry)}</span>
        </div>
      ))}
      <div
        role="presentation"
        style={{ height: `${Math.max(0, entries.length - first - shown.length) * ROW}px` }}
      />
    </div>
  );
}

/** One entry: what it changed, and what of it no client is sent. */
export function EventDetails({ entry, task, before }: { entry: Entry; task: Task | null; before: Task | null }) {
  const own = entry.data ?? (entry.message as unknown as Json);
  return (
    <section data-tab="difference">
      <h3>{entry.kind}</h3>
      {entry.event ? <JsonTree value={difference(before, task) as Json} /> : <JsonTree value={own ?? null} />}
      {!entry.event && !entry.message && <p class="soft">{t("task.private")}</p>}
    </section>
  );
}

/** One event as clients of each version are sent it. */
export function Wire({ entry, at }: { entry: Entry; at: http.Address }) {
  const versions = me.value!.versions;
  const [version, setVersion] = useState(versions[0] ?? "");
  const [wire, setWire] = useState<{ [version: string]: Json[] } | null>(null);
  const isVisible = entry.event !== undefined;
  useEffect(() => {
    setWire(null);
    if (!isVisible) return undefined;
    let isNow = true;
    void http.wire(at, entry.seq).then((found) => isNow && setWire(found as unknown as { [version: string]: Json[] }));
    return () => {
      isNow = false;
    };
  }, [entry.pos]);
  if (!isVisible) return <p class="soft">{t("task.wire.none")}</p>;
  const frames = wire?.[version];
  return (
    <section data-tab={version}>
      <div class="row">
        <Segments of={t("task.version")} names={versions} active={version} label={(name) => name} onChoose={setVersion} />
        {frames && <Copy text={() => frames.map((frame) => JSON.stringify(frame)).join("\n")} />}
      </div>
      {!frames && <Skeleton />}
      {frames?.map((frame, i) => (
        <pre key={i} class="card" tabIndex={0}>
          {JSON.stringify(frame, null, 2)}
        </pre>
      ))}
      {frames && !frames.length && <p class="soft">{t("common.none")}</p>}
    </section>
  );
}
