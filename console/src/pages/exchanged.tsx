/** A request and its answer as they were on the wire, as far as they are kept. */

import { t } from "../i18n";

type Body = { text: string; isCut: boolean } | undefined;

export interface Exchanged {
  status: number; // 0: there was no answer
  requestHeaders?: [string, string][];
  requestBody?: Body;
  answerHeaders?: [string, string][];
  answerBody?: Body;
}

export function RequestAndAnswer({ first, of }: { first: string; of: Exchanged }) {
  return (
    <>
      <h3>{t("live.request")}</h3>
      <pre class="wire" tabIndex={0}>
        {side(first, of.requestHeaders, of.requestBody)}
      </pre>
      <h3>{t("live.answer")}</h3>
      <pre class="wire" tabIndex={0}>
        {of.status ? side(`HTTP ${of.status}`, of.answerHeaders, of.answerBody) : t("pushes.noanswer")}
      </pre>
    </>
  );
}

function side(first: string, headers: [string, string][] = [], body?: Body): string {
  const lines = [first, ...headers.map(([name, value]) => `${name}: ${value}`), "", body?.text ?? ""];
  return lines.join("\n") + (body?.isCut ? `\n${t("live.cut")}` : "");
}
