/** Markdown drawn as nodes: no HTML is made, links are http(s) only and show their host. */

import type { ComponentChildren } from "preact";
import { lazy, Suspense } from "preact/compat";
import { useMemo } from "preact/hooks";
import { t } from "../i18n";
import { type Block, type Inline, parse } from "./blocks";

const Code = lazy(() => import("./code"));
const Diagram = lazy(() => import("./diagram"));

export default function Markdown({ text }: { text: string }) {
  const blocks = useMemo(() => parse(text), [text]);
  return <div class="markdown">{blocks.map(draw)}</div>;
}

function draw(block: Block, at: number): ComponentChildren {
  switch (block.kind) {
    case "paragraph":
      return <p key={at}>{block.inside.map(words)}</p>;
    case "heading":
      // A heading of an agent's text is no heading of our page.
      return (
        <p key={at}>
          <strong>{block.inside.map(words)}</strong>
        </p>
      );
    case "code": {
      const plain = (
        <pre key={at} tabIndex={0}>
          <code>{block.text}</code>
        </pre>
      );
      if (!block.language) return plain;
      return (
        <Suspense key={at} fallback={plain}>
          {block.language === "mermaid" ? (
            <Diagram text={block.text} language={block.language} />
          ) : (
            <Code text={block.text} language={block.language} />
          )}
        </Suspense>
      );
    }
    case "rule":
      return <hr key={at} />;
    case "quote":
      return <blockquote key={at}>{block.inside.map(draw)}</blockquote>;
    case "list": {
      const items = block.items.map((item, i) => <li key={i}>{item.map(draw)}</li>);
      return block.start === null ? (
        <ul key={at}>{items}</ul>
      ) : (
        <ol key={at} start={block.start}>
          {items}
        </ol>
      );
    }
    case "table":
      return (
        <div class="scroll" key={at} tabIndex={0}>
          <table>
            <tbody>
              {block.rows.map((row, r) => (
                <tr key={r}>
                  {row.map((cell, c) => (r ? <td key={c}>{cell.map(words)}</td> : <th key={c}>{cell.map(words)}</th>))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      );
  }
}

function words(one: Inline, at: number): ComponentChildren {
  switch (one.kind) {
    case "text":
      return one.text;
    case "code":
      return <code key={at}>{one.text}</code>;
    case "break":
      return <br key={at} />; // agents write lines to be lines
    case "strong":
      return <strong key={at}>{one.inside.map(words)}</strong>;
    case "emphasis":
      return <em key={at}>{one.inside.map(words)}</em>;
    case "deleted":
      return <del key={at}>{one.inside.map(words)}</del>;
    case "link":
      return <ExternalLink key={at} to={one.to} words={one.inside.map(words)} />;
  }
}

/** A link to another host, if that is what it is; else the words alone. */
export function ExternalLink({ to, words: said }: { to: string; words: ComponentChildren }) {
  let url: URL;
  try {
    url = new URL(to);
  } catch {
    return <>{said}</>;
  }
  if (url.protocol !== "https:" && url.protocol !== "http:") return <>{said}</>;
  return (
    <a href={url.href} target="_blank" rel="noopener noreferrer nofollow" title={t("part.link", { host: url.host })}>
      {said} <span class="soft">({url.host})</span>
    </a>
  );
}
