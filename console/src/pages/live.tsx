/** Live: calls as they happen. */

import { useEffect, useState } from "preact/hooks";
import * as http from "../api/http";
import type { Exchange } from "../api/types";
import { bytes, clock, t } from "../i18n";
import { me, onChange } from "../state";
import { useRows } from "../ui/keys";

const MOST = 200;

export default function Live() {
  const [calls, setCalls] = useState<Exchange[]>([]);
  const [isPaused, setPaused] = useState(false);
  const [isErrors, setErrors] = useState(false);
  const [open, setOpen] = useState<Exchange | null>(null);
  useEffect(() => {
    void http.exchanges().then(({ exchanges }) => setCalls(exchanges.reverse()));
  }, []);
  useEffect(
    () =>
      onChange((told) => {
        const news = told.exchanges ?? [];
        if (!isPaused && news.length) setCalls((now) => [...news.reverse(), ...now].slice(0, MOST));
      }),
    [isPaused],
  );
  const shown = calls.filter((call) => !isErrors || call.status >= 400);
  const look = (call: Exchange | undefined) => call && void http.exchange(call.n).then(setOpen);
  const selected = useRows(shown.length, (i) => look(shown[i]));
  if (!me.value!.hasExchanges) return <p>{t("live.off")}</p>;
  return (
    <>
      <h1>{t("live.title")}</h1>
      <div class="row">
        <button type="button" onClick={() => setPaused(!isPaused)}>
          {isPaused ? t("live.resume") : t("live.pause")}
        </button>
        <label>
          <input type="checkbox" checked={isErrors} onChange={(event) => setErrors(event.currentTarget.checked)} />{" "}
          {t("live.errors")}
        </label>
      </div>
      {!shown.length && <p>{t("live.empty")}</p>}
      {shown.length > 0 && (
        <div class="scroll">
          <table>
            <caption class="hidden">{t("live.table")}</caption>
            <thead>
              <tr>
                <th scope="col">{t("live.time")}</th>
                <th scope="col">{t("live.operation")}</th>
                <th scope="col">{t("live.status")}</th>
                <th scope="col">ms</th>
                <th scope="col">{t("live.bytes")}</th>
              </tr>
            </thead>
            <tbody>
              {shown.map((call, i) => (
                <tr key={call.n} aria-selected={i === selected} data-exchange={call.n}>
                  <td>{clock(call.at)}</td>
                  <td>
                    <button type="button" onClick={() => look(call)}>
                      {call.operation || `${call.verb} ${call.path}`}
                    </button>
                  </td>
                  <td class={call.status >= 400 ? "bad" : ""}>{call.isStream ? t("live.stream") : call.status}</td>
                  <td>{call.ms}</td>
                  <td>
                    {bytes(call.bytesIn)} → {call.bytesOut === null ? "…" : bytes(call.bytesOut)}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {open && (
        <section class="card" aria-label={open.operation || open.path}>
          <button type="button" onClick={() => setOpen(null)}>
            {t("common.close")}
          </button>
          <h2>{t("live.request")}</h2>
          <pre tabIndex={0}>{side(`${open.verb} ${open.path}`, open.requestHeaders, open.requestBody)}</pre>
          <h2>{t("live.answer")}</h2>
          <pre tabIndex={0}>{side(`HTTP ${open.status}`, open.answerHeaders, open.answerBody ?? undefined)}</pre>
        </section>
      )}
    </>
  );
}

function side(first: string, headers: [string, string][] = [], body?: { text: string; isCut: boolean }): string {
  const lines = [first, ...headers.map(([name, value]) => `${name}: ${value}`), "", body?.text ?? ""];
  return lines.join("\n") + (body?.isCut ? `\n${t("live.cut")}` : "");
}
