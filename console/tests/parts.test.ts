/** Code with colours, charts and tables: what is drawn of them, and what is left as it is. */

import { expect, test } from "vitest";
import type { Json } from "../src/api/types";
import { csvOf, parseCsv, tableOf } from "../src/render/csv";
import { tokensOf } from "../src/render/tokens";
import { chartOf } from "../src/render/vega";

test("code is cut into tokens and nothing of it is lost", () => {
  const text = 'def f(x):  # "no string"\n    return "a\\"b" + 0x1F + xreturn';
  const tokens = tokensOf(text, "python");
  expect(tokens.map((one) => one.text).join("")).toBe(text);
  const of = (kind: string) => tokens.filter((one) => one.kind === kind).map((one) => one.text);
  expect(of("comment")).toEqual(['# "no string"']);
  expect(of("string")).toEqual(['"a\\"b"']);
  expect(of("number")).toEqual(["0x1F"]);
  expect(of("word")).toEqual(["def", "return"]);
});

test("text without ends is read once", () => {
  // Work that grows with the square of the length would outlast the test's time.
  for (const one of ["/*", '"\\', "`'\"", "/* *"]) {
    const text = one.repeat(100_000);
    expect(tokensOf(text, "js").reduce((length, token) => length + token.text.length, 0)).toBe(text.length);
  }
});

const SPEC = {
  mark: "bar",
  data: { values: [{ area: "tax", amount: 3 }, { area: "travel", amount: -1 }] },
  encoding: { x: { field: "area", type: "nominal" }, y: { field: "amount", type: "quantitative" } },
};

test("a simple chart is drawn, and one that asks for more is not", () => {
  expect(chartOf(SPEC)?.rows).toEqual([
    { x: "tax", y: 3, series: "" },
    { x: "travel", y: -1, series: "" },
  ]);
  expect(chartOf({ ...SPEC, transform: [] })).toBeNull();
  expect(chartOf({ ...SPEC, mark: "geoshape" })).toBeNull();
  expect(chartOf({ ...SPEC, data: { url: "https://elsewhere.example/data.csv" } })).toBeNull();
  const summed = { ...SPEC.encoding, y: { aggregate: "sum", field: "amount" } };
  expect(chartOf({ ...SPEC, encoding: summed })).toBeNull();
});

test("a chart that no axis can hold is not drawn", () => {
  for (const amount of [1e308, -1e308]) {
    expect(chartOf({ ...SPEC, data: { values: [{ area: "tax", amount }] } })).toBeNull();
  }
});

test("a table that is saved reads as it was, and holds no formula", () => {
  const saved = csvOf(["a", "b"], [['x,"y"', 2], ["=HYPERLINK(1)", null]]);
  expect(parseCsv(saved)).toEqual([["a", "b"], ['x,"y"', "2"], ["'=HYPERLINK(1)", "null"]]);
});

test("a table of data has every name that a row has, as long as they are few", () => {
  const rows: Json = [{ a: 1 }, { a: 2, error: "boom" }];
  expect(tableOf(rows)).toEqual({ names: ["a", "error"], rows: [[1, undefined], [2, "boom"]] });
  expect(tableOf(Array.from({ length: 20 }, (_, n) => ({ [`name${n}`]: n })))).toBeNull();
  expect(tableOf([{ a: 1 }, 2])).toBeNull();
  expect(tableOf([JSON.parse('{"__proto__": 1}'), { constructor: 2 }])?.rows).toEqual([[1, undefined], [undefined, 2]]);
});
