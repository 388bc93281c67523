/** A form drawn from a schema. */

import { useState } from "preact/hooks";
import { t } from "../i18n";
import { visible } from "../ui/text";
import type { Draft, Field, Problem } from "./schema";

interface Props {
  field: Field;
  draft: Draft;
  onChange: (draft: Draft) => void;
  problems: Problem[];
  path: string;
  name: string;
  isRequired: boolean;
}

let count = 0;

export function FieldView(props: Props) {
  const { field, draft, onChange, problems, path, name, isRequired } = props;
  const [id] = useState(() => `field-${++count}`);
  const problem = problems.find((one) => one.path === path);
  const label = visible(field.title || name);
  const hint = [visible(field.description ?? ""), isRequired ? t("form.required") : ""].filter(Boolean).join(" · ");
  const described = {
    id,
    "aria-describedby": `${id}-hint`,
    "aria-invalid": problem ? true : undefined,
    "data-path": path,
  };
  if (field.kind === "object" && field.members.length) {
    const given = (draft ?? {}) as { [name: string]: Draft };
    const inner = field.members.map((member) => (
      <FieldView
        key={member.name}
        field={member.field}
        name={member.name}
        path={path ? `${path}.${member.name}` : member.name}
        isRequired={member.isRequired}
        draft={given[member.name]}
        problems={problems}
        onChange={(value) => onChange({ ...given, [member.name]: value })}
      />
    ));
    return path ? (
      <fieldset>
        <legend>{label}</legend>
        {field.description && <p class="soft">{visible(field.description)}</p>}
        {inner}
      </fieldset>
    ) : (
      <>{inner}</>
    );
  }
  if (field.kind === "array" && field.items) {
    const items = (draft ?? []) as Draft[];
    return (
      <fieldset>
        <legend>{label}</legend>
        {items.map((item, i) => (
          <div class="row" key={i}>
            <div class="grow">
              <FieldView
                field={field.items!}
                name={`${label} ${i + 1}`}
                path={`${path}[${i}]`}
                isRequired={true}
                draft={item}
                problems={problems}
                onChange={(value) => onChange(items.map((one, at) => (at === i ? value : one)))}
              />
            </div>
            <button type="button" onClick={() => onChange(items.filter((_, at) => at !== i))}>
              {t("form.remove")}
            </button>
          </div>
        ))}
        <button type="button" onClick={() => onChange([...items, undefined])}>
          {t("form.add")}
        </button>
      </fieldset>
    );
  }
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {control(field, draft, onChange, described)}
      <span id={`${id}-hint`} class={problem ? "bad" : "soft"}>
        {problem ? t(`form.bad.${problem.what}`) : hint}
      </span>
    </div>
  );
}

function control(
  field: Field,
  draft: Draft,
  onChange: (draft: Draft) => void,
  described: Record<string, unknown>,
) {
  const typed = typeof draft === "string" ? draft : "";
  const onInput = (event: Event) => onChange((event.currentTarget as HTMLInputElement).value);
  switch (field.kind) {
    case "boolean":
      return (
        <select
          {...described}
          value={draft === undefined ? "" : String(draft)}
          onChange={(event) =>
            onChange(event.currentTarget.value === "" ? undefined : event.currentTarget.value === "true")
          }
        >
          <option value="">{t("form.choose")}</option>
          <option value="true">true</option>
          <option value="false">false</option>
        </select>
      );
    case "choice":
      return (
        <select {...described} value={typed} onChange={onInput}>
          <option value="">{t("form.choose")}</option>
          {field.choices.map((choice, i) => (
            <option key={i} value={String(i)}>
              {visible(typeof choice === "string" ? choice : JSON.stringify(choice))}
            </option>
          ))}
        </select>
      );
    case "integer":
    case "number":
      return <input {...described} inputMode={field.kind === "integer" ? "numeric" : "decimal"} value={typed} onInput={onInput} />;
    case "string":
      if (field.format === "date") return <input {...described} type="date" value={typed} onInput={onInput} />;
      return <input {...described} type="text" value={typed} onInput={onInput} />;
    default:
      return <textarea {...described} class="mono" rows={4} value={typed} onInput={onInput} />;
  }
}
