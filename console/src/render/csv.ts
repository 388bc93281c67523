/** Tables: comma-separated values as rows of cells, and data as a table. */

import type { Json } from "../api/types";

export function parseCsv(text: string): string[][] {
  const rows: string[][] = [[]];
  let cell = "";
  let isQuoted = false;
  for (let i = 0; i < text.length; i++) {
    const char = text[i];
    if (isQuoted) {
      if (char === '"' && text[i + 1] === '"') cell += text[++i];
      else if (char === '"') isQuoted = false;
      else cell += char;
    } else if (char === '"') isQuoted = true;
    else if (char === "," || char === "\n") {
      rows[rows.length - 1]!.push(cell.replace(/\r$/, ""));
      cell = "";
      if (char === "\n") rows.push([]);
    } else cell += char;
  }
  rows[rows.length - 1]!.push(cell);
  return rows.filter((row) => row.some((value) => value));
}

/** Rows as CSV. A cell that a spreadsheet would take for a formula gets a quote in front (OWASP). */
export function csvOf(names: string[], rows: unknown[][]): string {
  const cell = (value: unknown): string => {
    const text = typeof value === "string" ? value : value === undefined ? "" : JSON.stringify(value);
    const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return [names, ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

const COLUMNS = 12; // that a table of data may have

/** Objects as a table, with every name that one of them has; else null. */
export function tableOf(value: Json): { names: string[]; rows: (Json | undefined)[][] } | null {
  if (!Array.isArray(value) || value.length < 2) return null;
  const names = new Set<string>();
  for (const row of value) {
    if (row === null || typeof row !== "object" || Array.isArray(row)) return null;
    for (const name of Object.keys(row)) names.add(name);
    if (names.size > COLUMNS) return null;
  }
  const columns = [...names];
  return { names: columns, rows: value.map((row) => columns.map((name) => (Object.hasOwn(row as object, name) ? (row as { [key: string]: Json })[name] : undefined))) };
}
