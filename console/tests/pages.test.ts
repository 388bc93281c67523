import { describe, expect, it } from "vitest";
import { en } from "../src/i18n/en";
import { zh } from "../src/i18n/zh";
import type { Entry, Summary } from "../src/api/types";
import { aligned } from "../src/pages/align";
import { valuesOf } from "../src/pages/hub/values";
import { axisOf } from "../src/pages/task/axis";
import { framesOf, redacted, replayOf } from "../src/pages/task/export";
import { callOf } from "../src/pages/try";
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

const entryOf = (pos: number, text: string): Entry => ({
  pos,
  seq: pos,
  at: pos,
  kind: "MessageAdded",
  message: { messageId: String(pos), role: "ROLE_USER", parts: [{ text }] },
});

describe("two tasks beside each other", () => {
  it("puts what says the same into one row and keeps the order of both", () => {
    const pairs = aligned(["a", "b", "c"], ["a", "x", "c", "d"], (one) => one);
    const words = pairs.map((pair) => `${pair.left ?? ""}|${pair.right ?? ""}`);
    expect(words).toEqual(["a|a", "b|", "|x", "c|c", "|d"]);
  });
});

describe("an exported task", () => {
  it("has no credentials and no private entries", () => {
    for (const secret of ["Bearer abcdefgh12345678", "password=hunter22", "sk-abcdefghijklmnopqrst", "eyJhbGciOiJI.eyJzdWIiOiIx.c2ln"]) {
      expect(redacted(`before ${secret} after`)).not.toContain(secret);
      expect(redacted(`before ${secret} after`)).toContain("after");
    }
    const texts = {
      "client_secret=hunter2hunter2": "hunter2",
      'access_token: tok12345': "tok12345",
      'DB_PASSWORD="correct horse"': "horse",
      '{\\"apiKey\\": \\"k-123\\"}': "k-123",
      "https://ada:pa55word@host.example/": "pa55word",
      "http://127.0.0.1:1/console/?key=abcdefgh1234": "abcdefgh1234",
      "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----": "MIIE",
    };
    for (const [text, secret] of Object.entries(texts)) expect(redacted(`before ${text} after`)).toMatch(new RegExp(`^before (?!.*${secret})[^]* after$`, "s"));
    const raised: Entry = { pos: 2, seq: 0, at: 2, kind: "Raised", data: { traceback: "File secret.py" } };
    expect(JSON.stringify(framesOf([entryOf(1, "hello"), raised]))).not.toContain("secret.py");
  });

  it("has no credential that a stream cut in two", () => {
    const piece = (pos: number, text: string): Entry => ({
      pos,
      seq: pos,
      at: pos,
      kind: "ArtifactAdded",
      event: { artifactUpdate: { taskId: "1", contextId: "1", artifact: { artifactId: "a", parts: [{ text }] }, append: pos > 1 } },
    });
    const frames = framesOf(["call with Bea", "rer abcdefgh", "ijklmnop and s", "k-ABCDEFGHIJ", "KLMNOPQRST, then go on"].map((text, i) => piece(i + 1, text)));
    expect(frames.map((frame) => frame.text)).toEqual(["call with Bearer [removed]", "", " and [key removed]", "", ", then go on"]);
  });

  it("can't be left by a text that ends the script", () => {
    const summary = { id: "1", skill: "s", state: "completed" } as Summary;
    const file = replayOf(summary, [entryOf(1, "</script><script>alert(1)</script>")]);
    expect(file).not.toContain("</script><script>alert(1)");
    const data = /id="data">(.*?)<\/script>/.exec(file)![1]!;
    expect(JSON.parse(data).frames[0].text).toBe("</script><script>alert(1)</script>");
  });
});

describe("what an admin types", () => {
  it("becomes what the interface takes", () => {
    const fields = [{ name: "name" }, { name: "teams", kind: "list" as const }, { name: "limit", kind: "number" as const }, { name: "role", kind: ["user", "admin"] as const }];
    expect(valuesOf(fields, { name: " ci ", teams: "hr, ops,", limit: "" })).toEqual({ name: "ci", teams: ["hr", "ops"], role: "user" });
  });
});

describe("a call that is tried", () => {
  const form = (path: string) => ({
    path,
    headers: { "Content-Type": "application/json" },
    body: { text: '{"id":"%id%","text":"%text%","skill":"%skill%"}', data: '{"id":"%id%","data":{"%data%":true},"skill":"%skill%"}' },
  });
  const forms = { "9.9": { JSONRPC: { send: form("/send"), stream: form("/stream") } } };
  const wish = { skill: "%text%", version: "9.9", binding: "JSONRPC", isStream: false };
  it("has what was typed in its places, and nothing else there", () => {
    const { path, body } = callOf(forms, { ...wish, text: 'say "%id%" $& {"%data%":true}' });
    expect([path, JSON.parse(body)]).toEqual(["/send", { id: expect.stringMatching(/^\w{32}$/), text: 'say "%id%" $& {"%data%":true}', skill: "%text%" }]);
  });
  it("sends numbers digit by digit", () => {
    const { path, body } = callOf(forms, { ...wish, isStream: true, json: "[12345678901234567890, 1.0]" });
    expect(path).toBe("/stream");
    expect(body).toContain('"data":[12345678901234567890, 1.0],');
  });
});
