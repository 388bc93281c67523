/** Administration of a hub: keys, people, teams, rules, networks, trusted keys and the audit log. */

import { useState } from "preact/hooks";
import * as hub from "../../api/hub";
import { moment, t } from "../../i18n";
import { go, say } from "../../state";
import { Copy, Dialog, Skeleton, Tabs, Trouble } from "../../ui/elements";
import { usePolled } from "../../ui/polled";
import { visible } from "../../ui/text";
import { Audit } from "./audit";
import { valuesOf, type Field, type Row } from "./values";

/** One kind of thing an admin keeps: where it is read, what of it is shown, and how one is added and removed. */
interface Kept {
  name: string;
  path: string;
  member: string; // of the answer
  columns: string[];
  fields: Field[];
  idOf: (row: Row) => string;
  saves?: (given: Row) => { method: string; path: string; body: Row };
  removes?: (row: Row) => string; // the path; none: it can't be removed
}

const ROLES = ["user", "publisher", "admin"] as const;
const word = (value: unknown): string => encodeURIComponent(String(value));

const KINDS: Kept[] = [
  {
    name: "keys",
    path: "/keys",
    member: "keys",
    columns: ["name", "role", "teams", "created_ms", "expires_ms", "used_ms", "revoked_ms"],
    fields: [{ name: "name" }, { name: "role", kind: ROLES }, { name: "teams", kind: "list", isOptional: true, like: "teams" }, { name: "expires_days", kind: "number", isOptional: true }],
    idOf: (row) => String(row["name"]),
    removes: (row) => (row["revoked_ms"] ? "" : `/keys/${word(row["id"])}`),
  },
  {
    name: "users",
    path: "/users",
    member: "users",
    columns: ["name", "role", "teams"],
    fields: [{ name: "name" }, { name: "role", kind: ROLES }, { name: "teams", kind: "list", isOptional: true, like: "teams" }],
    idOf: (row) => String(row["name"]),
    saves: ({ name, ...body }) => ({ method: "PUT", path: `/users/${word(name)}`, body }),
  },
  {
    name: "teams",
    path: "/teams",
    member: "teams",
    columns: ["name", "description"],
    fields: [{ name: "name" }, { name: "description", isOptional: true }],
    idOf: (row) => String(row["name"]),
    removes: (row) => `/teams/${word(row["name"])}`,
  },
  {
    name: "rules",
    path: "/policies",
    member: "policies",
    columns: ["who", "may", "what", "effect", "limit"],
    fields: [{ name: "who", like: "who" }, { name: "may", kind: ["call", "see"] }, { name: "what", like: "what" }, { name: "effect", kind: ["deny", "allow"] }, { name: "limit", kind: "number", isOptional: true }],
    idOf: (row) => `${String(row["who"])} ${String(row["what"])}`,
    removes: (row) => `/policies/${word(row["id"])}`,
  },
  {
    name: "networks",
    path: "/networks",
    member: "networks",
    columns: ["what", "why"],
    fields: [{ name: "what", like: "net" }, { name: "why", isOptional: true }],
    idOf: (row) => String(row["what"]),
    removes: (row) => `/networks?what=${word(row["what"])}`,
  },
  {
    name: "trust",
    path: "/trusted-keys",
    member: "trusted_keys",
    columns: ["name", "url", "expires_ms"],
    fields: [{ name: "name" }, { name: "url", isOptional: true }, { name: "pem", kind: "area", isOptional: true }, { name: "expires_days", kind: "number", isOptional: true }],
    idOf: (row) => String(row["name"]),
    removes: (row) => `/trusted-keys/${word(row["id"])}`,
  },
];

const TABS = [...KINDS.map((kind) => kind.name), "audit"];
const tabWord = (name: string): string => t(`admin.${name}` as "admin.keys");
const columnWord = (name: string): string => t(`admin.of.${name}` as "admin.of.name");

export default function Admin({ tab }: { tab: string }) {
  const active = TABS.includes(tab) ? tab : "keys";
  const kind = KINDS.find((one) => one.name === active);
  return (
    <>
      <div class="head">
        <h1>{t("nav.admin")}</h1>
      </div>
      <Tabs of={t("nav.admin")} names={TABS} active={active} label={tabWord} onChoose={(name) => go(`admin/${name}`)} />
      {kind ? <Listed key={kind.name} kind={kind} /> : <Audit />}
    </>
  );
}

function Listed({ kind }: { kind: Kept }) {
  const { value, error, load } = usePolled(() => hub.listed(kind.path, kind.member), 10_000, [kind.name]);
  const [wrong, setWrong] = useState<unknown>(null);
  const [made, setMade] = useState(""); // a key is shown once
  const [leaving, setLeaving] = useState<Row | null>(null);
  const done = (text: string) => {
    setWrong(null);
    say(text);
    load();
  };
  const remove = (row: Row) => {
    setLeaving(null);
    void hub
      .admin("DELETE", kind.removes!(row))
      .then(() => done(t("admin.removed", { name: visible(kind.idOf(row)) })))
      .catch(setWrong);
  };
  const save = async (given: Row) => {
    const { method, path, body } = kind.saves?.(given) ?? { method: "POST", path: kind.path, body: given };
    const answer = (await hub.admin(method, path, body)) as Row | null;
    setMade(typeof answer?.["key"] === "string" ? answer["key"] : "");
    done(t("entry.saved"));
  };
  const rows = value ?? [];
  return (
    <section data-kind={kind.name}>
      <p class="soft">{t(`admin.${kind.name}.text` as "admin.keys.text")}</p>
      {(wrong ?? error) !== null && <Trouble error={wrong ?? error} onRetry={load} />}
      {made && (
        <p class="card row" role="status">
          {t("admin.made")} <code data-made>{made}</code> <Copy text={() => made} />
        </p>
      )}
      {!value && error === null && <Skeleton />}
      {value && !rows.length && <p class="empty">{t("common.none")}</p>}
      {rows.length > 0 && (
        <div class="table folds">
          <table>
            <caption class="hidden">{tabWord(kind.name)}</caption>
            <thead>
              <tr>
                {kind.columns.map((name) => (
                  <th key={name} scope="col">
                    {columnWord(name)}
                  </th>
                ))}
                <th scope="col">
                  <span class="hidden">{t("admin.actions")}</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {rows.map((row, i) => (
                <tr key={i}>
                  {kind.columns.map((name, column) => (
                    <td key={name} class={column === 0 ? "first" : ""} {...(column && shown(name, row[name]) ? { "data-label": columnWord(name) } : {})}>
                      {shown(name, row[name])}
                    </td>
                  ))}
                  <td class="numbers">
                    {kind.removes?.(row) && (
                      <button type="button" class="quiet" onClick={() => setLeaving(row)}>
                        {t("admin.remove")}
                      </button>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <Added kind={kind} onSave={save} />
      <Dialog title={t("admin.remove")} isOpen={leaving !== null} onClose={() => setLeaving(null)}>
        <p>{t("admin.remove.ask", { name: leaving ? visible(kind.idOf(leaving)) : "" })}</p>
        <div class="row">
          <button type="button" class="danger" onClick={() => leaving && remove(leaving)}>
            {t("admin.remove")}
          </button>
          <button type="button" onClick={() => setLeaving(null)}>
            {t("common.close")}
          </button>
        </div>
      </Dialog>
    </section>
  );
}

function shown(name: string, value: unknown): string {
  if (value === null || value === undefined || value === "" || value === 0) return "";
  if (name.endsWith("_ms")) return moment(Number(value));
  return visible(Array.isArray(value) ? value.join(", ") : String(value));
}

function Added({ kind, onSave }: { kind: Kept; onSave: (given: Row) => Promise<void> }) {
  const [given, setGiven] = useState<{ [name: string]: string }>({});
  const [error, setError] = useState<unknown>(null);
  const submit = (event: Event) => {
    event.preventDefault();
    onSave(valuesOf(kind.fields, given))
      .then(() => (setGiven({}), setError(null)))
      .catch(setError);
  };
  return (
    <form class="card" onSubmit={submit}>
      <h2>{t(`admin.${kind.name}.add` as "admin.keys.add")}</h2>
      <div class="row fields">
        {kind.fields.map((field) => (
          <label key={field.name} class="field">
            {columnWord(field.name)}
            <Input field={field} value={given[field.name] ?? ""} onChange={(value) => setGiven({ ...given, [field.name]: value })} />
          </label>
        ))}
        <button type="submit" class="primary">
          {t("admin.add")}
        </button>
      </div>
      {error !== null && <Trouble error={error} />}
    </form>
  );
}

function Input({ field, value, onChange }: { field: Field; value: string; onChange: (value: string) => void }) {
  const { kind = "text" } = field;
  if (typeof kind !== "string") {
    return (
      <select name={field.name} value={value || kind[0]!} onChange={(event) => onChange(event.currentTarget.value)}>
        {kind.map((one) => (
          <option key={one} value={one}>
            {one}
          </option>
        ))}
      </select>
    );
  }
  const placeholder = field.like ? t(`admin.like.${field.like}` as "admin.like.who") : field.isOptional ? t("admin.optional") : "";
  const common = { name: field.name, value, required: !field.isOptional, placeholder };
  if (kind === "area") return <textarea {...common} rows={3} onInput={(event) => onChange(event.currentTarget.value)} />;
  return <input {...common} inputMode={kind === "number" ? "numeric" : "text"} onInput={(event) => onChange(event.currentTarget.value)} />;
}
