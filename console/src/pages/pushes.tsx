/** Push notifications: webhooks, how far each was served, and what was given up. */

import { useState } from "preact/hooks";
import * as http from "../api/http";
import type { Push } from "../api/types";
import { moment, t } from "../i18n";
import { Link, Trouble } from "../ui/elements";
import { usePolled } from "../ui/polled";

export default function PushesPage() {
  const [isTroubled, setTroubled] = useState(false);
  return (
    <>
      <h1>{t("pushes.title")}</h1>
      <label>
        <input type="checkbox" checked={isTroubled} onChange={(event) => setTroubled(event.currentTarget.checked)} />{" "}
        {t("pushes.troubled")}
      </label>
      <PushesView key={String(isTroubled)} read={() => http.pushes(isTroubled)} hasTasks={true} />
    </>
  );
}

/** Webhooks as a table, and dead letters with a button to send them again. */
export function PushesView({ read, hasTasks }: { read: () => Promise<http.Pushes>; hasTasks: boolean }) {
  const { value: found, error, load } = usePolled(read, 2000);
  const [told, setTold] = useState("");
  if (!found) return error !== null ? <Trouble error={error} onRetry={load} /> : null;
  const again = (n: number) =>
    void http
      .replay(n)
      .then(() => setTold(t("pushes.replayed")))
      .then(load);
  return (
    <>
      {error !== null && <Trouble error={error} onRetry={load} />}
      {!found.pushes.length && <p class="soft">{t("pushes.none")}</p>}
      {found.pushes.length > 0 && (
        <div class="scroll" tabIndex={0}>
          <table>
            <caption class="hidden">{t("pushes.table")}</caption>
            <thead>
              <tr>
                <th scope="col">{t("pushes.endpoint")}</th>
                <th scope="col">{t("pushes.sent")}</th>
                <th scope="col">{t("pushes.state")}</th>
                {hasTasks && <th scope="col">{t("pushes.task")}</th>}
              </tr>
            </thead>
            <tbody>
              {found.pushes.map((push) => (
                <tr key={push.taskId + push.id} data-push={push.id}>
                  <td>
                    {push.endpoint} <span class="soft">A2A {push.version}</span>
                  </td>
                  <td>
                    {push.sent} / {push.upto}
                  </td>
                  <td class={push.disabled || push.tries ? "bad" : ""}>{stateOf(push)}</td>
                  {hasTasks && (
                    <td>
                      <Link
                        to={`tasks/${encodeURIComponent(push.taskId)}`}
                        query={{ tenant: push.tenant, caller: push.caller }}
                      >
                        <span class="mono">{push.taskId.slice(0, 13)}</span>
                      </Link>
                    </td>
                  )}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {found.letters.length > 0 && (
        <>
          <h2>{t("pushes.letters")}</h2>
          <ul>
            {found.letters.map((letter) => (
              <li key={letter.n} data-letter={letter.n}>
                {moment(letter.at)} {t("pushes.letter", { first: letter.first, last: letter.last, error: letter.error })}{" "}
                <button type="button" onClick={() => again(letter.n)}>
                  {t("pushes.replay")}
                </button>
              </li>
            ))}
          </ul>
        </>
      )}
      <p role="status">{told}</p>
    </>
  );
}

function stateOf(push: Push): string {
  if (push.disabled) return t("pushes.disabled", { why: push.disabled });
  if (push.tries) return t("pushes.failing", { tries: push.tries, error: push.error });
  if (push.due !== null) return t("pushes.waiting", { time: moment(push.due) });
  return t("pushes.ok");
}
