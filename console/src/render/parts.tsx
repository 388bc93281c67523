/** What agents send, by media type. It is shown as what it is, and nothing of it is run. */

import { lazy, Suspense } from "preact/compat";
import { useEffect, useState } from "preact/hooks";
import type { Artifact, Json, Part } from "../api/types";
import { previewAddress, type Address } from "../api/http";
import { joined } from "../fold";
import { bytes, t } from "../i18n";
import { Copy, Icon } from "../ui/elements";
import { JsonTree } from "../ui/json";
import { visible } from "../ui/text";
import { parseCsv } from "./csv";

const Markdown = lazy(() => import("./markdown"));

/** The media types this page can show, for agents that ask. */
export const SHOWN = [
  "text/plain",
  "text/markdown",
  "text/csv",
  "application/json",
  "image/png",
  "image/jpeg",
  "image/gif",
  "image/webp",
  "image/svg+xml",
  "audio/*",
  "video/*",
];

/** Signs that Markdown may draw as something else. */
const SIGNS = /[*_~`#>[\]|\\]|^ *([-+]|\d+[.)]) |^ {4}|-{3}|https?:/m;

/** A text as it is, or drawn as Markdown with a switch to see it as it is. */
function Text({ text, isMarkdown }: { text: string; isMarkdown: boolean }) {
  const [isRaw, setRaw] = useState(false);
  if (!isMarkdown) return <pre class="plain" dir="auto">{text}</pre>;
  return (
    <div class="switched">
      {SIGNS.test(text) && (
        <button type="button" class="quiet" aria-pressed={isRaw} onClick={() => setRaw(!isRaw)}>
          {t("common.raw")}
        </button>
      )}
      {isRaw ? (
        <pre class="plain" dir="auto">{text}</pre>
      ) : (
        <Suspense fallback={<pre class="plain" dir="auto">{text}</pre>}>
          <Markdown text={text} />
        </Suspense>
      )}
    </div>
  );
}

/** A part of a message or an artifact. Words that a person typed are no Markdown, unless they say so. */
export function PartView(props: {
  part: Part;
  address?: { at: Address; artifact: string; n: number };
  isUsers?: boolean;
}) {
  const { part, address } = props;
  const type = (part.mediaType ?? "").split(";")[0] ?? "";
  if (part.text !== undefined) {
    if (type === "text/html" || type === "image/svg+xml") {
      return <Source text={part.text} address={address} />;
    }
    if (type === "text/csv") return <Csv text={part.text} />;
    const isMarkdown = type === "text/markdown" || (type === "" && !props.isUsers);
    return (
      <div class="part">
        <Text text={part.text} isMarkdown={isMarkdown} />
      </div>
    );
  }
  if (part.data !== undefined) {
    return (
      <div class="part">
        {isTable(part.data) ? <Rows rows={part.data} /> : <JsonTree value={part.data} />}
      </div>
    );
  }
  if (part.raw !== undefined) return <Bytes part={part} type={type} address={address} />;
  return <Elsewhere url={part.url ?? ""} name={part.filename} type={type} />;
}

function isTable(value: Json): value is { [key: string]: Json }[] {
  return (
    Array.isArray(value) &&
    value.length > 1 &&
    value.every((row) => row !== null && typeof row === "object" && !Array.isArray(row)) &&
    Object.keys(value[0] as object).length <= 12
  );
}

function Rows({ rows }: { rows: { [key: string]: Json }[] }) {
  const names = Object.keys(rows[0] ?? {});
  const [shown, setShown] = useState(100);
  return (
    <div class="scroll" tabIndex={0}>
      <table>
        <thead>
          <tr>
            {names.map((name) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, shown).map((row, i) => (
            <tr key={i}>
              {names.map((name) => (
                <td key={name}>
                  {typeof row[name] === "string" ? (row[name] as string) : JSON.stringify(row[name] ?? null)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > shown && (
        <button type="button" onClick={() => setShown(shown + 100)}>
          {t("json.more", { count: rows.length - shown })}
        </button>
      )}
    </div>
  );
}

function Csv({ text }: { text: string }) {
  const [head = [], ...rows] = parseCsv(text);
  return <Rows rows={rows.map((row) => Object.fromEntries(head.map((name, i) => [name || String(i), row[i] ?? ""])))} />;
}

function Source({ text, address }: { text: string; address?: { at: Address; artifact: string; n: number } }) {
  const [preview, setPreview] = useState("");
  const toggle = async () =>
    setPreview(preview || !address ? "" : await previewAddress(address.at, address.artifact, address.n));
  return (
    <div class="part">
      {address && (
        <button type="button" onClick={() => void toggle()}>
          {preview ? t("part.source") : t("part.preview")}
        </button>
      )}
      {preview ? (
        <iframe class="preview" sandbox="" title={t("part.preview")} src={preview} />
      ) : (
        <pre tabIndex={0}>{text}</pre>
      )}
    </div>
  );
}

function Bytes({ part, type, address }: { part: Part; type: string; address?: { at: Address; artifact: string; n: number } }) {
  const size = Math.floor(((part.raw ?? "").length * 3) / 4);
  const name = visible(part.filename || type || "file");
  const [url, setUrl] = useState("");
  const isImage = /^image\/(png|jpeg|gif|webp)$/.test(type);
  const isMedia = /^(audio|video)\//.test(type);
  useEffect(() => {
    if (!isImage && !isMedia) return undefined;
    const made = URL.createObjectURL(blobOf(part, type));
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [part.raw]);
  return (
    <div class="part">
      {url && isImage && <img src={url} alt={name} />}
      {url && type.startsWith("audio/") && <audio controls src={url} />}
      {url && type.startsWith("video/") && <video controls src={url} />}
      <div class="row">
        <Icon name="file" />
        <span>
          {name} <span class="soft">{`${type} ${bytes(size)}`}</span>
        </span>
        <button type="button" onClick={() => save(part, type, name)}>
          {t("part.download", { name })}
        </button>
        {type === "image/svg+xml" && address && <Source text={atobText(part.raw ?? "")} address={address} />}
      </div>
    </div>
  );
}

function atobText(raw: string): string {
  return new TextDecoder().decode(Uint8Array.from(atob(raw), (char) => char.charCodeAt(0)));
}

function blobOf(part: Part, type: string): Blob {
  return new Blob([Uint8Array.from(atob(part.raw ?? ""), (char) => char.charCodeAt(0))], { type });
}

function save(part: Part, type: string, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blobOf(part, type || "application/octet-stream"));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function Elsewhere({ url, name, type }: { url: string; name?: string; type: string }) {
  let host = "";
  try {
    const parsed = new URL(url);
    if (parsed.protocol === "https:" || parsed.protocol === "http:") host = parsed.host;
  } catch {
    // shown as the text it is
  }
  return (
    <div class="part row">
      <Icon name="file" />
      <span>
        {visible(name || url)} <span class="soft">{type}</span>
      </span>
      {host && (
        <a href={url} target="_blank" rel="noopener noreferrer nofollow">
          {t("part.load", { host })}
        </a>
      )}
    </div>
  );
}

/** Parts with the place of each; texts that follow each other are drawn as one. */
function inRuns(parts: Part[]): [Part, number][] {
  const found: [Part, number][] = [];
  parts.forEach((part, n) => {
    const last = found[found.length - 1];
    const [merged, ...more] = last ? joined([last[0]], [part]) : [part];
    if (last && merged && !more.length) last[0] = merged;
    else found.push([part, n]);
  });
  return found;
}

export function ArtifactView({ artifact, at }: { artifact: Artifact; at?: Address }) {
  const text = artifact.parts.map((part) => part.text ?? "").join("");
  const name = visible(artifact.name || artifact.artifactId);
  return (
    <section class="card" aria-label={name}>
      <div class="row">
        <strong class="grow">{name}</strong>
        {text && <Copy text={() => text} />}
      </div>
      {artifact.description && <p class="soft">{artifact.description}</p>}
      {inRuns(artifact.parts).map(([part, n]) => (
        <PartView key={n} part={part} address={at && { at, artifact: artifact.artifactId, n }} />
      ))}
    </section>
  );
}
