/**
 * A JSON Schema as a form, and what was typed as JSON.
 *
 * What is typed stays text until it is sent, and numbers are sent digit by digit as they were
 * typed: a half-typed number can't be sent, and one past 2^53 arrives as it is.
 */

import type { Json, Schema } from "../api/types";

export type Kind = "boolean" | "integer" | "number" | "string" | "choice" | "array" | "object" | "json";

export interface Field {
  kind: Kind;
  title: string;
  description: string;
  isNullable: boolean;
  choices: Json[];
  format: string;
  items?: Field;
  members: { name: string; isRequired: boolean; field: Field }[];
  initial?: Json;
  schema: Schema;
}

export type Draft = string | boolean | undefined | Draft[] | { [name: string]: Draft };

export interface Problem {
  path: string;
  what: "json" | "number" | "integer" | "required";
}

const DEEPEST = 5;

export function fieldOf(schema: Schema, root: Schema = schema, depth = 0): Field {
  const found = resolved(schema, root);
  const base: Field = {
    kind: "json",
    title: text(found["title"]),
    description: text(schema["description"]) || text(found["description"]),
    isNullable: false,
    choices: [],
    format: text(found["format"]),
    members: [],
    initial: schema["default"] ?? found["default"],
    schema: found,
  };
  if (depth > DEEPEST) return base;
  const options = (found["anyOf"] ?? found["oneOf"]) as Schema[] | undefined;
  if (options) {
    const others = options.filter((option) => resolved(option, root)["type"] !== "null");
    if (others.length === 1 && others.length < options.length) {
      return { ...fieldOf(others[0]!, root, depth + 1), ...named(base), isNullable: true };
    }
    const consts = options.map((option) => resolved(option, root)["const"]);
    if (consts.every((value) => value !== undefined)) {
      return { ...base, kind: "choice", choices: consts as Json[] };
    }
    return base;
  }
  if (Array.isArray(found["enum"])) {
    const all = found["enum"];
    return {
      ...base,
      kind: "choice",
      choices: all.filter((value) => value !== null),
      isNullable: all.includes(null),
    };
  }
  if (found["const"] !== undefined) return { ...base, kind: "choice", choices: [found["const"]] };
  let type = found["type"];
  if (Array.isArray(type)) {
    const others = type.filter((one) => one !== "null");
    if (others.length !== 1) return base;
    base.isNullable = others.length < type.length;
    type = others[0];
  }
  switch (type) {
    case "boolean":
    case "integer":
    case "number":
    case "string":
      return { ...base, kind: type };
    case "array": {
      const items = found["items"];
      if (!items || typeof items !== "object" || Array.isArray(items)) return base;
      return { ...base, kind: "array", items: fieldOf(items, root, depth + 1) };
    }
    case "object": {
      const properties = found["properties"] as { [name: string]: Schema } | undefined;
      if (!properties) return base;
      const required = (found["required"] as string[] | undefined) ?? [];
      const members = Object.entries(properties).map(([name, member]) => ({
        name,
        isRequired: required.includes(name),
        field: fieldOf(member, root, depth + 1),
      }));
      return { ...base, kind: "object", members };
    }
    default:
      return base;
  }
}

function named({ title, description, initial }: Field): Partial<Field> {
  return {
    ...(title ? { title } : {}),
    ...(description ? { description } : {}),
    ...(initial === undefined ? {} : { initial }),
  };
}

function text(value: Json | undefined): string {
  return typeof value === "string" ? value : "";
}

function resolved(schema: Schema, root: Schema): Schema {
  let found = schema;
  for (let i = 0; i < 10 && typeof found["$ref"] === "string"; i++) {
    const path = found["$ref"].replace(/^#\/?/, "").split("/");
    let at: Json | undefined = root;
    for (const step of path.filter(Boolean)) {
      const name = step.replaceAll("~1", "/").replaceAll("~0", "~");
      at = at && typeof at === "object" && !Array.isArray(at) ? at[name] : undefined;
    }
    found = (at as Schema | undefined) ?? {};
  }
  const all = found["allOf"];
  if (Array.isArray(all) && all.length === 1) return { ...found, ...resolved(all[0] as Schema, root) };
  return found;
}

/** What stands in an empty form: defaults, and nothing else. */
export function emptyDraft(field: Field): Draft {
  if (field.initial !== undefined && field.initial !== null) return draftOf(field, field.initial);
  if (field.kind === "object") {
    return Object.fromEntries(field.members.map((member) => [member.name, emptyDraft(member.field)]));
  }
  if (field.kind === "array") return [];
  return undefined;
}

/** A value as it stands in the form. */
export function draftOf(field: Field, value: Json): Draft {
  if (value === null) return undefined;
  switch (field.kind) {
    case "boolean":
      return value === true;
    case "choice": {
      const at = field.choices.findIndex((choice) => JSON.stringify(choice) === JSON.stringify(value));
      return at < 0 ? undefined : String(at);
    }
    case "array":
      return Array.isArray(value) ? value.map((item) => draftOf(field.items!, item)) : [];
    case "object": {
      const given = value as { [name: string]: Json };
      return Object.fromEntries(
        field.members.map((member) => [
          member.name,
          given[member.name] === undefined ? undefined : draftOf(member.field, given[member.name]!),
        ]),
      );
    }
    case "string":
      return typeof value === "string" ? value : JSON.stringify(value);
    default:
      return JSON.stringify(value);
  }
}

/** What was typed as JSON text; undefined for a field that was left empty. */
export function jsonOf(
  field: Field,
  draft: Draft,
  isRequired: boolean,
  problems: Problem[],
  path = "",
): string | undefined {
  const missing = (): string | undefined => {
    if (!isRequired) return undefined;
    if (field.isNullable) return "null";
    problems.push({ path, what: "required" });
    return undefined;
  };
  switch (field.kind) {
    case "boolean":
      return draft === undefined ? missing() : String(draft);
    case "choice":
      return draft === undefined || draft === "" ? missing() : JSON.stringify(field.choices[Number(draft)]);
    case "string":
      if (draft === undefined || (draft === "" && (!isRequired || field.isNullable))) return missing();
      return JSON.stringify(draft);
    case "integer":
    case "number": {
      const typed = typeof draft === "string" ? draft.trim() : "";
      if (!typed) return missing();
      const isGood =
        field.kind === "integer"
          ? /^-?(0|[1-9]\d*)$/.test(typed)
          : /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(typed);
      if (!isGood) problems.push({ path, what: field.kind });
      return typed;
    }
    case "array": {
      const items = (draft as Draft[] | undefined) ?? [];
      if (!items.length && !isRequired) return undefined;
      const texts = items.map(
        (item, i) => jsonOf(field.items!, item, true, problems, `${path}[${i}]`) ?? "null",
      );
      return `[${texts.join(",")}]`;
    }
    case "object": {
      const given = (draft as { [name: string]: Draft } | undefined) ?? {};
      if (isEmpty(given) && (!isRequired || field.isNullable)) return missing();
      const members: string[] = [];
      for (const member of field.members) {
        const at = path ? `${path}.${member.name}` : member.name;
        const found = jsonOf(member.field, given[member.name], member.isRequired, problems, at);
        if (found !== undefined) members.push(`${JSON.stringify(member.name)}:${found}`);
      }
      return `{${members.join(",")}}`;
    }
    case "json": {
      const typed = typeof draft === "string" ? draft.trim() : "";
      if (!typed) return missing();
      try {
        JSON.parse(typed);
      } catch {
        problems.push({ path, what: "json" });
      }
      return typed;
    }
  }
}

function isEmpty(draft: Draft): boolean {
  if (draft === undefined || draft === "") return true;
  if (Array.isArray(draft)) return draft.length === 0;
  return typeof draft === "object" && Object.values(draft).every(isEmpty);
}
