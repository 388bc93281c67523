import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { Json, Schema } from "../src/api/types";
import { draftOf, emptyDraft, fieldOf, jsonOf, type Problem } from "../src/forms/schema";

const cases = JSON.parse(readFileSync(new URL("./schemas.json", import.meta.url), "utf8")) as {
  name: string;
  schema: Schema;
  value: Json;
}[];

/** Without optional members that hold nothing: they may be left out. */
function bare(value: Json): Json {
  if (Array.isArray(value)) return value.map(bare);
  if (value === null || typeof value !== "object") return value;
  const kept = Object.entries(value)
    .map(([name, item]) => [name, bare(item)] as const)
    .filter(([, item]) => !["null", '""', "[]", "{}"].includes(JSON.stringify(item)));
  return Object.fromEntries(kept);
}

describe("forms", () => {
  it.each(cases.map((one) => [one.name, one] as const))("draw and give back %s", (_, one) => {
    const field = fieldOf(one.schema);
    const problems: Problem[] = [];
    const json = jsonOf(field, draftOf(field, one.value), true, problems);
    expect(problems).toEqual([]);
    expect(bare(JSON.parse(json ?? "null"))).toEqual(bare(one.value));
  });

  it("never send what was not typed", () => {
    const field = fieldOf({
      type: "object",
      properties: { name: { type: "string" }, age: { type: "integer" }, ok: { type: "boolean" } },
      required: [],
    });
    expect(jsonOf(field, emptyDraft(field), true, [])).toBe("{}");
  });

  it("keep numbers past 2^53 as they were typed", () => {
    const field = fieldOf({ type: "integer" });
    expect(jsonOf(field, "12345678901234567890", true, [])).toBe("12345678901234567890");
  });

  it.each([
    ["integer", "1."],
    ["integer", "1.5"],
    ["integer", "-"],
    ["integer", "007"],
    ["number", "1."],
    ["number", "1e"],
    ["number", "abc"],
    ["json", '{"a":'],
  ])("refuse a half-typed %s: %s", (type, typed) => {
    const problems: Problem[] = [];
    const field = fieldOf(type === "json" ? {} : { type });
    jsonOf(field, typed, true, problems);
    expect(problems.map((problem) => problem.what)).toEqual([type]);
  });

  it("name what is missing", () => {
    const problems: Problem[] = [];
    const field = fieldOf({
      type: "object",
      properties: { who: { type: "object", properties: { age: { type: "integer" } }, required: ["age"] } },
      required: ["who"],
    });
    jsonOf(field, emptyDraft(field), true, problems);
    expect(problems).toEqual([{ path: "who.age", what: "required" }]);
  });

  it("give null where only null fits what was left empty", () => {
    const field = fieldOf({ type: "object", properties: { a: { anyOf: [{ type: "integer" }, { type: "null" }] } }, required: ["a"] });
    expect(jsonOf(field, emptyDraft(field), true, [])).toBe('{"a":null}');
  });

  it("end at recursion", () => {
    const schema: Schema = {
      $ref: "#/$defs/Node",
      $defs: { Node: { type: "object", properties: { below: { $ref: "#/$defs/Node" } } } },
    };
    expect(fieldOf(schema).kind).toBe("object");
  });
});
