/** Comma-separated values as rows of cells. */

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
export function csvOf(names: string[], rows: { [name: string]: unknown }[]): string {
  const cell = (value: unknown): string => {
    const text = typeof value === "string" ? value : value === undefined ? "" : JSON.stringify(value);
    const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return [names, ...rows.map((row) => names.map((name) => row[name]))].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}
