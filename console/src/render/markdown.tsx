/** Markdown drawn as nodes: no HTML is made, links are http(s) only and show their host. */

import type { ComponentChildren } from "preact";
import type { Nodes, Root, RootContent } from "mdast";
import { fromMarkdown } from "mdast-util-from-markdown";
import { gfmFromMarkdown } from "mdast-util-gfm";
import { gfm } from "micromark-extension-gfm";
import { t } from "../i18n";

export default function Markdown({ text }: { text: string }) {
  const root: Root = fromMarkdown(text, { extensions: [gfm()], mdastExtensions: [gfmFromMarkdown()] });
  return <div class="markdown">{root.children.map(draw)}</div>;
}

function inside(node: Nodes): ComponentChildren {
  return "children" in node ? (node.children as RootContent[]).map(draw) : null;
}

/** Agents write lines to be lines. */
function lines(text: string): ComponentChildren {
  return text.split("\n").map((line, at) => (at ? [<br key={at} />, line] : line));
}

function draw(node: RootContent, at: number): ComponentChildren {
  switch (node.type) {
    case "text":
      return lines(node.value);
    case "paragraph":
      return <p key={at}>{inside(node)}</p>;
    case "heading":
      // A heading of an agent's text is no heading of our page.
      return (
        <p key={at}>
          <strong>{inside(node)}</strong>
        </p>
      );
    case "strong":
      return <strong key={at}>{inside(node)}</strong>;
    case "emphasis":
      return <em key={at}>{inside(node)}</em>;
    case "delete":
      return <del key={at}>{inside(node)}</del>;
    case "inlineCode":
      return <code key={at}>{node.value}</code>;
    case "code":
      return (
        <pre key={at} tabIndex={0}>
          <code>{node.value}</code>
        </pre>
      );
    case "break":
      return <br key={at} />;
    case "thematicBreak":
      return <hr key={at} />;
    case "blockquote":
      return <blockquote key={at}>{inside(node)}</blockquote>;
    case "list":
      return node.ordered ? (
        <ol key={at} start={node.start ?? 1}>
          {inside(node)}
        </ol>
      ) : (
        <ul key={at}>{inside(node)}</ul>
      );
    case "listItem":
      return <li key={at}>{inside(node)}</li>;
    case "link":
      return <ExternalLink key={at} to={node.url} words={inside(node)} />;
    case "image":
      return <ExternalLink key={at} to={node.url} words={node.alt || node.url} />;
    case "table":
      return (
        <div class="scroll" key={at} tabIndex={0}>
          <table>
            <tbody>
              {node.children.map((row, r) => (
                <tr key={r}>
                  {row.children.map((cell, c) =>
                    r === 0 ? <th key={c}>{inside(cell)}</th> : <td key={c}>{inside(cell)}</td>,
                  )}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      );
    case "html":
      return node.value; // as the text it is
    default:
      return "value" in node ? String(node.value) : inside(node);
  }
}

/** A link to another host, if that is what it is; else the words alone. */
export function ExternalLink({ to, words }: { to: string; words: ComponentChildren }) {
  let url: URL;
  try {
    url = new URL(to);
  } catch {
    return <>{words}</>;
  }
  if (url.protocol !== "https:" && url.protocol !== "http:") return <>{words}</>;
  return (
    <a href={url.href} target="_blank" rel="noopener noreferrer nofollow" title={t("part.link", { host: url.host })}>
      {words} <span class="soft">({url.host})</span>
    </a>
  );
}
