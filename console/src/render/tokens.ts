/** Program text cut into tokens: comments, strings, numbers and the words that most languages share. */

export type Token = { kind: "" | "comment" | "string" | "number" | "word"; text: string };

const LONGEST = 100_000; // beyond it text is shown without colours
const WORDS = new Set(
  (
    "and as assert async await bool break case catch class const continue def defer del do elif else enum except export extends " +
    "extern false False final finally fn for from func function global go if impl implements import in interface is lambda let " +
    "loop match mod module mut new nil None not null or package pass private protected pub public raise range return select self " +
    "static struct super switch this throw trait true True try type typeof union use var void where while with yield " +
    "SELECT FROM WHERE INSERT INTO VALUES UPDATE SET DELETE CREATE TABLE JOIN LEFT ON GROUP BY ORDER LIMIT AND OR NOT NULL AS"
  ).split(" "),
);
const HASH = /^(py|python|sh|bash|shell|zsh|ruby|rb|yaml|yml|toml|r|perl|pl|make|makefile|dockerfile|ini|conf)$/;
const DASHES = /^(sql|lua|haskell|hs|ada)$/;

/** Each alternative is linear: none can be matched in two ways. */
function patternOf(language: string): RegExp {
  const line = HASH.test(language) ? "#[^\\n]*" : DASHES.test(language) ? "--[^\\n]*" : "\\/\\/[^\\n]*|\\/\\*[^*]*(?:\\*(?!\\/)[^*]*)*(?:\\*\\/)?";
  const quoted = ['"', "'", "`"].map((mark) => `${mark}(?:[^${mark}\\\\${mark === "`" ? "" : "\\n"}]|\\\\[^])*${mark}?`);
  return new RegExp(`(${line})|(${quoted.join("|")})|(\\b\\d[\\w.]*)|([A-Za-z_]\\w*)`, "g");
}

export function tokensOf(text: string, language: string): Token[] {
  if (text.length > LONGEST) return [{ kind: "", text }];
  const found: Token[] = [];
  const plain = (more: string) => {
    const last = found[found.length - 1];
    if (!more) return;
    if (last?.kind === "") last.text += more;
    else found.push({ kind: "", text: more });
  };
  let at = 0;
  for (const match of text.matchAll(patternOf(language.toLowerCase()))) {
    const [whole, comment, quoted, amount] = match;
    plain(text.slice(at, match.index));
    const kind = comment !== undefined ? "comment" : quoted !== undefined ? "string" : amount !== undefined ? "number" : WORDS.has(whole) ? "word" : "";
    if (kind) found.push({ kind, text: whole });
    else plain(whole);
    at = match.index + whole.length;
  }
  plain(text.slice(at));
  return found;
}
