/** Who did what at the hub, the newest first, and whether the log is whole. */

import { useEffect, useState } from "preact/hooks";
import * as hub from "../../api/hub";
import { moment, t } from "../../i18n";
import { Skeleton, Trouble } from "../../ui/elements";
import { visible } from "../../ui/text";

export function Audit() {
  const [rows, setRows] = useState<hub.AuditRow[] | null>(null);
  const [next, setNext] = useState(0);
  const [what, setWhat] = useState("");
  const [error, setError] = useState<unknown>(null);
  const [verdict, setVerdict] = useState("");
  const load = (before: number) =>
    void hub
      .audit(before, what)
      .then((found) => {
        setRows((now) => (before && now ? [...now, ...found.rows] : found.rows));
        setNext(found.next);
        setError(null);
      })
      .catch(setError);
  useEffect(() => load(0), [what]);
  const verify = () =>
    void hub
      .verifyAudit()
      .then(({ whole, trouble }) => setVerdict(whole ? t("audit.whole") : String(trouble)))
      .catch(setError);
  return (
    <section data-kind="audit">
      <div class="row filters">
        <input class="grow" type="search" aria-label={t("audit.find")} placeholder={t("audit.find")} value={what} onChange={(event) => setWhat(event.currentTarget.value)} />
        <button type="button" onClick={verify}>
          {t("audit.verify")}
        </button>
        {verdict && <span role="status">{visible(verdict)}</span>}
      </div>
      {error !== null && <Trouble error={error} onRetry={() => load(0)} />}
      {!rows && error === null && <Skeleton />}
      {rows && !rows.length && <p class="empty">{t("common.none")}</p>}
      {!!rows?.length && (
        <div class="table folds">
          <table>
            <caption class="hidden">{t("admin.audit")}</caption>
            <thead>
              <tr>
                <th scope="col">{t("audit.when")}</th>
                <th scope="col">{t("audit.who")}</th>
                <th scope="col">{t("audit.what")}</th>
                <th scope="col">{t("audit.about")}</th>
              </tr>
            </thead>
            <tbody>
              {rows.map((row) => (
                <tr key={row.n}>
                  <td class="whole">{moment(row.at_ms)}</td>
                  <td>{visible(row.who)}</td>
                  <td class="first">{visible(row.did)}</td>
                  <td>
                    {visible(row.what)} <span class="soft small">{visible(row.detail)}</span>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {next > 0 && (
        <p>
          <button type="button" onClick={() => load(next)}>
            {t("tasks.older")}
          </button>
        </p>
      )}
    </section>
  );
}
