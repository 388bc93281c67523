/** What an admin types into a form, as the hub's interface takes it. */

export type Row = { [name: string]: unknown };

export interface Field {
  name: string;
  kind?: "text" | "number" | "list" | "area" | readonly string[]; // a list of words: a choice of them
  isOptional?: boolean;
  like?: string; // which examples stand in the empty field
}

/** What was typed, as the interface takes it: lists are separated by commas, and what is empty is left out. */
export function valuesOf(fields: Field[], given: { [name: string]: string }): Row {
  const values: Row = {};
  for (const { name, kind = "text" } of fields) {
    const text = (given[name] ?? (typeof kind === "string" ? "" : kind[0]!)).trim();
    if (!text) continue;
    if (kind === "number") values[name] = Number(text);
    else if (kind === "list") values[name] = text.split(",").map((one) => one.trim()).filter(Boolean);
    else values[name] = text;
  }
  return values;
}
