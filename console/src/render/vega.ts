/** Charts of Vega-Lite, as far as a small drawing of our own goes: bars, lines, points and areas over the values that come
 *  with them. Vega itself makes functions from text, which the page's policy forbids; what is not understood is shown as JSON. */

import type { Json } from "../api/types";

const MOST = 500; // values
const LARGEST = 1e100; // an axis of more has no length that can be counted

type Mark = "bar" | "line" | "point" | "area";

export interface Chart {
  title: string;
  mark: Mark;
  x: string;
  y: string;
  color: string;
  isNumeric: boolean; // the x axis
  rows: { x: string | number; y: number; series: string }[];
}

type Object_ = { [name: string]: Json };
const isObject = (value: Json | undefined): value is Object_ => typeof value === "object" && value !== null && !Array.isArray(value);
const isText = (value: Json | undefined): value is string => typeof value === "string";

/** Return what can be drawn of a specification; null if it asks for more. */
export function chartOf(spec: Json): Chart | null {
  if (!isObject(spec)) return null;
  const given = isObject(spec["mark"]) ? spec["mark"]["type"] : spec["mark"];
  const mark = given === "circle" || given === "square" ? "point" : given;
  const encoding = spec["encoding"];
  const data = spec["data"];
  if (mark !== "bar" && mark !== "line" && mark !== "point" && mark !== "area") return null;
  if (!isObject(encoding) || !isObject(data) || !Array.isArray(data["values"]) || spec["transform"] !== undefined) return null;
  const { x, y, color, ...others } = encoding;
  if (!isObject(x) || !isObject(y) || !isText(x["field"]) || !isText(y["field"])) return null;
  const isShaped = [x, y].some((one) => ["aggregate", "bin", "timeUnit", "stack"].some((name) => one[name] !== undefined && one[name] !== null));
  if (isShaped || Object.keys(others).some((name) => name !== "tooltip" && name !== "order")) return null;
  const colored = isObject(color) && isText(color["field"]) ? color["field"] : "";
  const rows: Chart["rows"] = [];
  for (const row of data["values"].slice(0, MOST)) {
    if (!isObject(row)) return null;
    const at = row[x["field"]];
    const value = Number(row[y["field"]]);
    if ((!isText(at) && typeof at !== "number") || !(Math.abs(value) <= LARGEST)) return null;
    rows.push({ x: at, y: value, series: colored ? String(row[colored] ?? "") : "" });
  }
  if (!rows.length) return null;
  const isNumeric =
    mark !== "bar" && x["type"] === "quantitative" && rows.every((row) => typeof row.x === "number" && Math.abs(row.x) <= LARGEST);
  const title = isText(spec["title"]) ? spec["title"] : "";
  return { title, mark, x: x["field"], y: y["field"], color: colored, isNumeric, rows };
}
