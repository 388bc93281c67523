/** Program text with colours. Nothing is run. */

import { useMemo } from "preact/hooks";
import { t } from "../i18n";
import { Copy } from "../ui/elements";
import { tokensOf } from "./tokens";

export default function Code({ text, language }: { text: string; language: string }) {
  const tokens = useMemo(() => tokensOf(text, language), [text, language]);
  return (
    <div class="code" data-language={language}>
      <div class="row small soft">
        <span class="grow">{language || t("part.code")}</span>
        <Copy text={() => text} />
      </div>
      <pre tabIndex={0}>
        <code>{tokens.map((one, i) => (one.kind ? <span key={i} class={`is-${one.kind}`}>{one.text}</span> : one.text))}</code>
      </pre>
    </div>
  );
}
