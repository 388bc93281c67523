/** Live: calls as they happen, with the details of one beside them. */

import { useEffect, useState } from "preact/hooks";
import * as http from "../api/http";
import type { Exchange } from "../api/types";
import { bytes, clock, number, t } from "../i18n";
import { me, onChange } from "../state";
import { Segments, Trouble } from "../ui/elements";
import { useRows } from "../ui/keys";
import { RequestAndAnswer } from "./exchanged";
import { visible } from "../ui/text";

const MOST = 200;

type Kind = "" | "errors" | "streams";
const KINDS: { [kind in Kind]: (call: Exchange) => boolean } = {
  "": () => true,
  errors: (call) => call.status >= 400,
  streams: (call) => call.isStream,
};

/** Calls newest first. One that is known has changed: its stream went on, or ended. */
export function merged(known: Exchange[], news: Exchange[]): Exchange[] {
  const byNumber = new Map([...known, ...news].map((call) => [call.n, call]));
  return [...byNumber.values()].sort((a, b) => b.n - a.n).slice(0, MOST);
}

export default function Live() {
  const [calls, setCalls] = useState<Exchange[]>([]);
  const [isPaused, setPaused] = useState(false);
  const [kind, setKind] = useState<Kind>("");
  const [words, setWords] = useState("");
  const [open, setOpen] = useState<Exchange | null>(null);
  const [error, setError] = useState<unknown>(null);
  const load = () =>
    void http
      .exchanges()
      .then(({ exchanges }) => {
        setCalls(merged([], exchanges)); // a server that was started again counts anew
        setError(null);
      })
      .catch(setError);
  useEffect(load, []);
  useEffect(
    () =>
      onChange((told) => {
        if (told.isBack) load();
        const news = told.exchanges ?? [];
        if (!isPaused && news.length) setCalls((now) => merged(now, news));
      }),
    [isPaused],
  );
  const found = calls.filter((call) => `${call.operation} ${call.verb} ${call.path}`.toLowerCase().includes(words.trim().toLowerCase()));
  const shown = found.filter(KINDS[kind]);
  const look = (call: Exchange | undefined) => call && void http.exchange(call.n).then(setOpen).catch(setError);
  // The details of a stream that is shown go on with it.
  const current = calls.find((call) => call.n === open?.n);
  useEffect(() => {
    if (open?.isOpen && current && !current.isOpen) look(current);
  }, [current?.isOpen]);
  const selected = useRows(shown.length, (i) => look(shown[i]));
  if (!me.value!.hasExchanges) {
    return (
      <>
        <div class="head">
          <h1>{t("live.title")}</h1>
        </div>
        <p class="empty">{t("live.off")}</p>
      </>
    );
  }
  return (
    <>
      <div class="head">
        <h1>
          {t("live.title")} <span class={isPaused ? "pulse paused" : "pulse"}>{isPaused ? t("live.paused") : t("live.on")}</span>
        </h1>
        <button type="button" onClick={() => setPaused(!isPaused)}>
          {isPaused ? t("live.resume") : t("live.pause")}
        </button>
      </div>
      <div class="row filters">
        <input
          class="grow"
          type="search"
          aria-label={t("live.find")}
          placeholder={t("live.find")}
          value={words}
          onInput={(event) => setWords(event.currentTarget.value)}
        />
        <Segments
          of={t("live.status")}
          names={Object.keys(KINDS)}
          active={kind}
          label={(name) => `${name ? t(`live.${name as "errors"}`) : t("common.all")} ${number(found.filter(KINDS[name as Kind]).length)}`}
          onChoose={(name) => setKind(name as Kind)}
        />
      </div>
      {error !== null && <Trouble error={error} onRetry={load} />}
      {!shown.length && <p class="empty">{calls.length ? t("live.nothing") : t("live.empty")}</p>}
      <div class={open ? "beside" : ""}>
        {shown.length > 0 && <Calls calls={shown} selected={selected} open={open?.n ?? 0} onOpen={look} />}
        {open && <Details call={open} onClose={() => setOpen(null)} />}
      </div>
    </>
  );
}

function Calls(props: { calls: Exchange[]; selected: number; open: number; onOpen: (call: Exchange) => void }) {
  return (
    <div class="table folds late">
      <table class="calls">
        <caption class="hidden">{t("live.table")}</caption>
        <thead>
          <tr>
            <th scope="col">{t("live.time")}</th>
            <th scope="col">{t("live.operation")}</th>
            <th scope="col">{t("live.status")}</th>
            <th scope="col" class="numbers">
              ms
            </th>
            <th scope="col" class="numbers">
              {t("live.bytes")}
            </th>
          </tr>
        </thead>
        <tbody>
          {props.calls.map((call, i) => (
            <tr
              key={call.n}
              aria-selected={i === props.selected || call.n === props.open}
              data-exchange={call.n}
              onClick={(event) => {
                if (!(event.target as HTMLElement).closest("button")) props.onOpen(call);
              }}
            >
              <td class="soft whole">{clock(call.at)}</td>
              <td class="first">
                <button type="button" class="bare name" onClick={() => props.onOpen(call)}>
                  {visible(call.operation || `${call.verb} ${call.path}`)}
                </button>{" "}
                {call.operation && call.path !== "/" && <span class="soft small">{visible(call.path)}</span>}
              </td>
              <td class={call.status >= 400 ? "bad whole" : "whole"} data-open={call.isOpen}>
                {call.isOpen ? t("live.open") : call.isStream ? `${call.status} ${t("live.stream")}` : call.status}
              </td>
              <td class="numbers">{call.isOpen ? "…" : number(Math.round(call.ms * 10) / 10)}</td>
              <td class="numbers soft">
                {bytes(call.bytesIn)} → {call.isOpen ? "…" : bytes(call.bytesOut)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Details({ call, onClose }: { call: Exchange; onClose: () => void }) {
  const title = visible(call.operation || `${call.verb} ${call.path}`);
  return (
    <aside class="card details" aria-label={title} data-details={call.n}>
      <div class="row">
        <h2 class="grow">{title}</h2>
        <button type="button" onClick={onClose}>
          {t("common.close")}
        </button>
      </div>
      <RequestAndAnswer first={`${call.verb} ${call.path}`} of={call} />
    </aside>
  );
}
