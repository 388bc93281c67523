import { describe, expect, it } from "vitest";
import { en } from "../src/i18n/en";
import { zh } from "../src/i18n/zh";
import { axisOf } from "../src/pages/axis";
import { parseCsv } from "../src/render/csv";

describe("the time axis", () => {
  it("folds long pauses and keeps the order", () => {
    const times = [0, 1000, 2000, 1_080_000, 1_081_000];
    const axis = axisOf(times);
    expect(axis.folds).toEqual([{ from: 2000, to: 1_080_000 }]);
    const places = times.map(axis.place);
    expect(places).toEqual([...places].sort((a, b) => a - b));
    expect(places[0]).toBe(0);
    expect(places[4]).toBeCloseTo(1);
    expect(places[3]! - places[2]!).toBeLessThan(0.06);
  });

  it("folds nothing where there is no pause", () => {
    expect(axisOf([0, 100, 200]).folds).toEqual([]);
    expect(axisOf([]).place(5)).toBeGreaterThanOrEqual(0);
  });
});

describe("words", () => {
  it("have the same places for values in both languages", () => {
    const places = (text: string) => [...text.matchAll(/\{(\w+)\}/g)].map((found) => found[1]).sort();
    for (const key of Object.keys(en) as (keyof typeof en)[]) expect(places(zh[key])).toEqual(places(en[key]));
  });
});

describe("tables of comma-separated values", () => {
  it("know quotes", () => {
    expect(parseCsv('a,b\n"x, ""y""",2\r\n')).toEqual([
      ["a", "b"],
      ['x, "y"', "2"],
    ]);
  });
});
