/** A value asked for by a schema: as a form, or as JSON, whichever the user likes. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { Json, Schema } from "../api/types";
import { t } from "../i18n";
import { draftOf as keptDraft, keepDraft } from "../ui/drafts";
import { FieldView } from "./form";
import { type Draft, type Problem, draftOf, emptyDraft, fieldOf, jsonOf } from "./schema";

export interface Typed {
  json: string | undefined;
  problems: Problem[];
}

interface Kept {
  draft: Draft;
  json: string;
  isJson: boolean;
}

export function SchemaForm(props: {
  schema: Schema;
  onSend: (json: string) => void;
  label: string;
  isBusy?: boolean;
  onDraft?: (json: string) => void;
  draftKey?: string; // what was typed is kept under it
}) {
  const field = fieldOf(props.schema);
  const kept = props.draftKey ? (JSON.parse(keptDraft(props.draftKey) || "{}") as Partial<Kept>) : {};
  const [draft, setDraft] = useState<Draft>(() => kept.draft ?? emptyDraft(field));
  const [json, setJson] = useState(kept.json ?? "");
  const [isJson, setIsJson] = useState(kept.isJson ?? field.kind === "json");
  const [problems, setProblems] = useState<Problem[]>([]);
  const [why, setWhy] = useState("");

  const first = useRef(JSON.stringify({ draft, json, isJson }));

  const typed = (): Typed => {
    const found: Problem[] = [];
    if (!isJson) return { json: jsonOf(field, draft, true, found), problems: found };
    try {
      JSON.parse(json);
      return { json, problems: [] };
    } catch {
      return { json, problems: [{ path: "", what: "json" }] };
    }
  };

  useEffect(() => {
    const { json: now, problems: wrong } = typed();
    if (!wrong.length && now !== undefined) props.onDraft?.(now);
    const text = JSON.stringify({ draft, json, isJson });
    if (props.draftKey && text !== first.current) keepDraft(props.draftKey, text);
  }, [draft, json, isJson]);

  const toggle = () => {
    const { json: now, problems: wrong } = typed();
    if (isJson) {
      if (wrong.length) return setProblems(wrong);
      setDraft(draftOf(field, JSON.parse(now ?? "null") as Json));
    } else setJson(now ?? "");
    setProblems([]);
    setIsJson(!isJson);
  };

  const send = async () => {
    const { json: now, problems: wrong } = typed();
    setProblems(wrong);
    setWhy("");
    if (wrong.length || now === undefined) return;
    const { Validator } = await import("@cfworker/json-schema");
    const result = new Validator(props.schema as object, "2020-12").validate(JSON.parse(now));
    if (!result.valid) {
      const first = result.errors[result.errors.length - 1];
      return setWhy(`${first?.instanceLocation ?? ""} ${first?.error ?? ""}`);
    }
    props.onSend(now);
  };

  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      {isJson ? (
        <div class="field">
          <label for="json-value">{t("form.json")}</label>
          <textarea id="json-value" class="mono" rows={6} value={json} onInput={(event) => setJson(event.currentTarget.value)} />
          {problems.length > 0 && <span class="bad">{t("form.bad.json")}</span>}
          <pre class="soft">{JSON.stringify(props.schema, null, 1)}</pre>
        </div>
      ) : (
        <FieldView
          field={field}
          name={field.title || t("chat.answer")}
          path=""
          isRequired={true}
          draft={draft}
          problems={problems}
          onChange={setDraft}
        />
      )}
      {why && (
        <p class="bad" role="alert">
          {t("form.bad.schema", { why })}
        </p>
      )}
      <div class="row">
        <button type="submit" class="primary" disabled={props.isBusy}>
          {props.label}
        </button>
        {field.kind !== "json" && (
          <button type="button" onClick={toggle}>
            {isJson ? t("form.form") : t("form.json")}
          </button>
        )}
      </div>
    </form>
  );
}
