/** The log of a task, entry by entry, and each entry in the form that a version of the protocol sends. */

import { useEffect, useRef, useState } from "preact/hooks";
import * as http from "../../api/http";
import type { Entry, Json, Task } from "../../api/types";
import { number, t } from "../../i18n";
import { me } from "../../state";
import { Copy, Segments, Skeleton } from "../../ui/elements";
import { JsonTree } from "../../ui/json";
import { difference, what } from "./log";

const ROW = 30;
const VISIBLE = 30;

/** Rows are drawn on demand: a log of ten thousand scrolls as one of ten. */
export function EventList(props: {
  entries: Entry[];
  numbers: string[];
  now: number;
  onMove: (to: number) => void;
  marked?: { [number: string]: unknown }; // what stands out
}) {
  const { entries, numbers, now, onMove, marked = {} } = props;
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
          <span>
            {numbers[first + i]! in marked && <span class="lost">− </span>}
            {what(entry)}
          </span>
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

/** The talk as a client of some version saw it over some binding: each event as it was sent, and what was lost of it. */
export function Lens(props: { entries: Entry[]; numbers: string[]; now: number; onMove: (to: number) => void; at: http.Address }) {
  const { entries, now, at } = props;
  const { versions, bindings, aliases } = me.value!;
  const [version, setVersion] = useState(versions[0] ?? "");
  const [chosen, setBinding] = useState("JSONRPC");
  const binding = bindings[version]?.includes(chosen) ? chosen : "JSONRPC";
  const [lens, setLens] = useState<http.Lens | null>(null);
  useEffect(() => {
    setLens(null);
    let isNow = true;
    void http.lens(at, version, binding).then((found) => isNow && setLens(found));
    return () => {
      isNow = false;
    };
  }, [version, binding, entries.length]);
  const client = [version, ...(aliases[version] ?? [])].join(t("lens.or"));
  const count = Object.keys(lens?.lost ?? {}).length;
  const entry = entries[now];
  return (
    <>
      <div class="row filters">
        <Segments of={t("task.version")} names={versions} active={version} label={(name) => name} onChoose={setVersion} />
        <Segments of={t("try.binding")} names={bindings[version] ?? []} active={binding} label={(name) => name} onChoose={setBinding} />
        {lens && (
          <span class={count ? "lost" : "soft"} data-lens={count}>
            {t(count ? "lens.some" : "lens.all", { client, binding, count: number(count), events: number(lens.events) })}
          </span>
        )}
      </div>
      <div class="split">
        <EventList {...props} marked={lens?.lost} />
        {entry && <Wire entry={entry} at={at} version={version} binding={binding} />}
      </div>
    </>
  );
}

/** One event as clients of a version are sent it. */
function Wire({ entry, at, version, binding }: { entry: Entry; at: http.Address; version: string; binding: string }) {
  const [wire, setWire] = useState<Awaited<ReturnType<typeof http.wire>> | null>(null);
  const isVisible = entry.event !== undefined;
  useEffect(() => {
    setWire(null);
    if (!isVisible) return undefined;
    let isNow = true;
    void http.wire(at, entry.seq, binding).then((found) => isNow && setWire(found));
    return () => {
      isNow = false;
    };
  }, [entry.pos, binding]);
  if (!isVisible) return <p class="soft">{t("task.wire.none")}</p>;
  const shown = wire?.[version];
  return (
    <section data-tab={version}>
      {!shown && <Skeleton />}
      {!!shown?.lost.length && (
        <p class="small lost" data-lost>
          {t("lens.lost")} <span class="mono">{shown.lost.join(", ")}</span>
        </p>
      )}
      {shown?.frames.map((frame, i) => (
        <div key={i} class="card framed">
          <Copy text={() => JSON.stringify(frame)} isQuiet />
          <pre tabIndex={0}>{JSON.stringify(frame, null, 2)}</pre>
        </div>
      ))}
      {shown && !shown.frames.length && <p class="soft">{t("common.none")}</p>}
    </section>
  );
}
