import { describe, expect, it } from "vitest";
import { type Block, type Inline, parse } from "../src/render/blocks";

/** A tree as a short text, with every kind named. */
function inline(one: Inline): string {
  if (one.kind === "break") return "<br>";
  if ("text" in one) return one.kind === "code" ? `<code>${one.text}</code>` : one.text;
  const inner = one.inside.map(inline).join("");
  return one.kind === "link" ? `<a ${one.to}>${inner}</a>` : `<${one.kind}>${inner}</${one.kind}>`;
}

function block(one: Block): string {
  switch (one.kind) {
    case "paragraph":
      return `<p>${one.inside.map(inline).join("")}</p>`;
    case "heading":
      return `<h>${one.inside.map(inline).join("")}</h>`;
    case "code":
      return `<pre>${one.text}</pre>`;
    case "rule":
      return "<hr>";
    case "quote":
      return `<quote>${one.inside.map(block).join("")}</quote>`;
    case "list":
      return `<list ${one.start}>${one.items.map((item) => `<li>${item.map(block).join("")}</li>`).join("")}</list>`;
    case "table":
      return `<table>${one.rows.map((row) => row.map((cell) => cell.map(inline).join("")).join("|")).join("/")}</table>`;
  }
}

const drawn = (text: string) => parse(text).map(block).join("");

const CASES: [string, string][] = [
  ["a **b** *c* ~~d~~ `e`", "<p>a <strong>b</strong> <emphasis>c</emphasis> <deleted>d</deleted> <code>e</code></p>"],
  ["***a*** and __b__ and _c_", "<p><strong><emphasis>a</emphasis></strong> and <strong>b</strong> and <emphasis>c</emphasis></p>"],
  ["snake_case_name 2 * 3 * 4", "<p>snake_case_name 2 * 3 * 4</p>"],
  ["\\*no\\* ``a ` b``", "<p>*no* <code>a ` b</code></p>"],
  ["one\ntwo\n\nthree", "<p>one<br>two</p><p>three</p>"],
  ["# A title #\ntext", "<h>A title</h><p>text</p>"],
  ["#hashtag", "<p>#hashtag</p>"],
  ["- a\n- b\n  - c\n\n  d\n- e", "<list null><li><p>a</p></li><li><p>b</p><list null><li><p>c</p></li></list><p>d</p></li><li><p>e</p></li></list>"],
  ["3. a\n4. b", "<list 3><li><p>a</p></li><li><p>b</p></li></list>"],
  ["- a\nlazy\n\nafter", "<list null><li><p>a<br>lazy</p></li></list><p>after</p>"],
  ["> a\n> > b\n\nc", "<quote><p>a</p><quote><p>b</p></quote></quote><p>c</p>"],
  ["```py\na = 1\n\n# b\n```\nc", "<pre>a = 1\n\n# b</pre><p>c</p>"],
  ["```\nnot closed", "<pre>not closed</pre>"],
  ["    four", "<pre>four</pre>"],
  ["a\n\n---\n\nb", "<p>a</p><hr><p>b</p>"],
  ["| a | b |\n|---|:-:|\n| 1 | **2** |\n| x \\| y |", "<table>a|b/1|<strong>2</strong>/x | y</table>"],
  ["a | b", "<p>a | b</p>"],
  ["[w *x*](https://a.b/c \"t\") ![i](http://d)", "<p><a https://a.b/c>w <emphasis>x</emphasis></a> <a http://d>i</a></p>"],
  ["see https://a.b/c?d=1. <https://e.f>", "<p>see <a https://a.b/c?d=1>https://a.b/c?d=1</a>. <a https://e.f>https://e.f</a></p>"],
  ["<b>html</b> &amp; [x] [y](z", "<p><b>html</b> &amp; [x] [y](z</p>"],
  ["1986\\. A year", "<p>1986. A year</p>"],
];

describe("markdown", () => {
  it.each(CASES)("reads %j", (text, expected) => {
    expect(drawn(text)).toBe(expected);
  });

  const hostile: { [name: string]: (n: number) => string } = {
    "lists in lists": (n) => `${"- ".repeat(n / 2)}x`,
    stairs: (n) => Array.from({ length: Math.floor(Math.sqrt(n)) }, (_, i) => `${"  ".repeat(i)}- a`).join("\n"),
    quotations: (n) => `${">".repeat(n)}x`,
    "numbers in numbers": (n) => `${"1. ".repeat(n / 3)}x`,
    brackets: (n) => "[".repeat(n),
    "brackets apart": (n) => "[ ".repeat(n / 2),
    "open links": (n) => "[a](".repeat(n / 4),
    stars: (n) => "*a ".repeat(n / 3),
    "stars and lines": (n) => "*a_ ".repeat(n / 4),
    "two kinds of stars": (n) => "**a ".repeat(n / 8) + "b** ".repeat(n / 8),
    ticks: (n) => Array.from({ length: Math.floor(Math.sqrt(n)) }, (_, i) => "`".repeat(i + 1)).join(" "),
    angles: (n) => "<a ".repeat(n / 3),
    strokes: (n) => `${"|a".repeat(n / 4)}\n${"|-".repeat(n / 4)}`,
    spaces: (n) => `# a${" ".repeat(n)}b`,
    addresses: (n) => "http://a.".repeat(n / 9),
  };
  // Work that grows with the square of this would not end before the test is given up.
  it.each(Object.keys(hostile))("reads 100 KB of %s", (name) => {
    expect(drawn(hostile[name]!(100_000)).length).toBeGreaterThan(0);
  });
});
