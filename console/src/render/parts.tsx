/** What agents send, by media type. It is shown as what it is, and nothing of it is run. */

import { lazy, Suspense } from "preact/compat";
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { download, isOurs } from "../api/files";
import type { Artifact, Json, Part } from "../api/types";
import { previewAddress, type Address } from "../api/http";
import { joined } from "../fold";
import { bytes, t } from "../i18n";
import { Copy, Icon, Trouble } from "../ui/elements";
import { JsonTree } from "../ui/json";
import { visible } from "../ui/text";
import { ProgressBar } from "../ui/time";
import { csvOf, parseCsv, tableOf } from "./csv";
import { chartOf } from "./vega";

const Markdown = lazy(() => import("./markdown"));
const Code = lazy(() => import("./code"));
const ChartView = lazy(() => import("./chart"));
const Diagram = lazy(() => import("./diagram"));

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
function Text({ text, isMarkdown, hasSwitch }: { text: string; isMarkdown: boolean; hasSwitch: boolean }) {
  const [isRaw, setRaw] = useState(false);
  if (!isMarkdown) return <pre class="plain" dir="auto">{text}</pre>;
  return (
    <div class="switched">
      {hasSwitch && SIGNS.test(text) && (
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

type Place = { at: Address; artifact: string; n: number };

/** A part of a message or an artifact. Words that a person typed are no Markdown, unless they say so. */
export function PartView(props: {
  part: Part;
  address?: Place;
  isUsers?: boolean;
  head?: ComponentChildren; // stands in one line with the buttons
}) {
  const { part, address } = props;
  const [isRaw, setRaw] = useState(false);
  const isBytes = part.raw !== undefined || (part.text === undefined && part.data === undefined);
  if (!address || isBytes) {
    return (
      <>
        {props.head && <div class="row">{props.head}</div>}
        <Drawn {...props} hasSwitch />
      </>
    );
  }
  // What an agent made can be saved, and seen as it was sent.
  const raw = part.text ?? JSON.stringify(part.data, null, 2);
  const name = visible(part.filename || `${address.artifact}-${address.n}${extensionOf(part)}`);
  return (
    <div class="tooled">
      <div class="row tools">
        {props.head ?? <span class="fill" />}
        {!isPlain(part) && (
          <button type="button" class="quiet" aria-pressed={isRaw} onClick={() => setRaw(!isRaw)}>
            {t("common.raw")}
          </button>
        )}
        <button type="button" class="quiet" data-saves={name} onClick={() => save(new Blob([raw], { type: part.mediaType || "text/plain" }), name)}>
          {t("part.save")}
        </button>
      </div>
      {isRaw ? (
        <pre class="plain" dir="auto" tabIndex={0}>
          {raw}
        </pre>
      ) : (
        <Drawn {...props} />
      )}
    </div>
  );
}

/** Whether there is nothing to switch to: the text is drawn as it was sent. */
function isPlain({ text, mediaType = "" }: Part): boolean {
  if (text === undefined) return false;
  return mediaType === "text/plain" || (["", "text/markdown"].includes(mediaType) && !SIGNS.test(text));
}

const EXTENSIONS: { [type: string]: string } = { "text/csv": ".csv", "text/markdown": ".md", "text/html": ".html", "image/svg+xml": ".svg" };
const extensionOf = (part: Part): string => (part.text === undefined ? ".json" : (EXTENSIONS[part.mediaType ?? ""] ?? ".txt"));

/** The language of program text, by its media type; empty if it is none. */
function languageOf(type: string): string {
  const found = /^(?:text|application)\/(?:x-|vnd\.)?(python|javascript|typescript|json|sql|yaml|toml|xml|css|shellscript|sh|ruby|rust|go|java|c|c\+\+|diff|mermaid|graphviz|java-source|ecmascript)$/.exec(type);
  return found ? found[1]! : "";
}

const VEGA = /^application\/vnd\.vegalite(\.v\d+)?\+json$/;

/** A Vega-Lite specification, if a part is one. */
function specOf(part: Part, type: string): Json | null {
  const named = VEGA.test(type);
  const schema = (part.data as { $schema?: Json } | undefined)?.$schema;
  if (part.data !== undefined && part.data !== null) return named || (typeof schema === "string" && schema.includes("/vega-lite/")) ? part.data : null;
  if (!named || part.text === undefined) return null;
  try {
    return JSON.parse(part.text) as Json;
  } catch {
    return null;
  }
}

function Drawn({ part, address, isUsers, hasSwitch = false }: { part: Part; address?: Place; isUsers?: boolean; hasSwitch?: boolean }) {
  const type = (part.mediaType ?? "").split(";")[0] ?? "";
  const spec = specOf(part, type);
  if (spec !== null) return <Vega spec={spec} />;
  if (part.text !== undefined) {
    if (type === "text/html" || type === "image/svg+xml") {
      return <Source text={part.text} address={address} />;
    }
    if (type === "text/csv") return <Csv text={part.text} />;
    const language = languageOf(type);
    if (language) {
      return (
        <Suspense fallback={<pre class="part">{part.text}</pre>}>
          {language === "mermaid" ? <Diagram text={part.text} language={language} /> : <Code text={part.text} language={language} />}
        </Suspense>
      );
    }
    const isMarkdown = type === "text/markdown" || (type === "" && !isUsers);
    return (
      <div class="part">
        <Text text={part.text} isMarkdown={isMarkdown} hasSwitch={hasSwitch} />
      </div>
    );
  }
  if (part.data !== undefined) {
    return (
      <div class="part">
        <Data value={part.data} />
      </div>
    );
  }
  if (part.raw !== undefined) return <Bytes part={part} type={type} address={address} />;
  return <Elsewhere url={part.url ?? ""} name={part.filename} type={type} />;
}

/** A chart, or the specification with a word on why there is none. */
function Vega({ spec }: { spec: Json }) {
  const chart = useMemo(() => chartOf(spec), [spec]);
  if (chart) {
    return (
      <Suspense fallback={null}>
        <ChartView chart={chart} />
      </Suspense>
    );
  }
  return (
    <div class="part">
      <p class="soft small">{t("part.chart.none")}</p>
      <JsonTree value={spec} />
    </div>
  );
}

function Data({ value }: { value: Json }) {
  const table = useMemo(() => tableOf(value), [value]);
  return table ? <Rows {...table} /> : <JsonTree value={value} />;
}

function Rows({ names, rows }: { names: string[]; rows: (Json | undefined)[][] }) {
  const [shown, setShown] = useState(100);
  return (
    <div class="scroll" tabIndex={0}>
      <table>
        <thead>
          <tr>
            {names.map((name, i) => (
              <th key={i} scope="col">
                {visible(name)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, shown).map((row, i) => (
            <tr key={i}>
              {row.map((cell, n) => (
                <td key={n}>{typeof cell === "string" ? cell : JSON.stringify(cell)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      <button type="button" class="quiet" data-saves-table onClick={() => save(new Blob([csvOf(names, rows)], { type: "text/csv" }), "table.csv")}>
        {t("part.table.save")}
      </button>
      {rows.length > shown && (
        <button type="button" onClick={() => setShown(shown + 100)}>
          {t("json.more", { count: rows.length - shown })}
        </button>
      )}
    </div>
  );
}

function Csv({ text }: { text: string }) {
  const [head = [], ...rows] = useMemo(() => parseCsv(text), [text]);
  // A row may be longer than the first, or shorter.
  const width = rows.reduce((most, row) => Math.max(most, row.length), head.length);
  const whole = (row: string[]) => Array.from({ length: width }, (_, i) => row[i] ?? "");
  return <Rows names={whole(head)} rows={rows.map(whole)} />;
}

/** HTML and SVG: as text, or in a frame without any rights. */
function Source({ text, address }: { text: string; address?: Place }) {
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

const IMAGE = /^image\/(png|jpeg|gif|webp)$/;

/** What can be shown of a file. Nothing of it is run: a PDF is opened in a tab of its own, with the browser's viewer. */
function Shown({ blob, type, name }: { blob: Blob; type: string; name: string }) {
  const [url, setUrl] = useState("");
  useEffect(() => {
    const made = URL.createObjectURL(blob);
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [blob]);
  if (!url) return null;
  if (IMAGE.test(type)) return <img src={url} alt={name} />;
  if (type.startsWith("audio/")) return <audio controls src={url} />;
  if (type.startsWith("video/")) return <video controls src={url} />;
  if (type !== "application/pdf") return null;
  return (
    <a class="button" href={url} target="_blank" rel="noopener">
      {t("part.open")}
    </a>
  );
}

const canShow = (type: string): boolean => IMAGE.test(type) || /^(audio|video)\//.test(type) || type === "application/pdf";

function FileLine({ name, type, size, children }: { name: string; type: string; size?: number; children: ComponentChildren }) {
  return (
    <div class="row">
      <Icon name="file" />
      <span>
        {name} <span class="soft">{`${type} ${size === undefined ? "" : bytes(size)}`}</span>
      </span>
      {children}
    </div>
  );
}

function Bytes({ part, type, address }: { part: Part; type: string; address?: Place }) {
  const name = visible(part.filename || type || "file");
  const blob = useMemo(() => blobOf(part, type), [part.raw]);
  return (
    <div class="part">
      {canShow(type) && <Shown blob={blob} type={type} name={name} />}
      <FileLine name={name} type={type} size={blob.size}>
        <button type="button" onClick={() => save(blob, name)}>
          {t("part.download", { name })}
        </button>
      </FileLine>
      {type === "image/svg+xml" && address && <Source text={atobText(part.raw ?? "")} address={address} />}
    </div>
  );
}

/** A file that our server keeps: read when somebody asks for it, with how far that is. */
function Stored({ url, name, type }: { url: string; name: string; type: string }) {
  const [share, setShare] = useState<number | null | undefined>(undefined); // undefined: nothing is read now
  const [blob, setBlob] = useState<Blob | null>(null);
  const [error, setError] = useState<unknown>(null);
  const stop = useRef(new AbortController());
  useEffect(() => () => stop.current.abort(), []);
  const read = async (then: (found: Blob) => void) => {
    if (blob) return then(blob);
    setShare(0);
    setError(null);
    try {
      const found = await download(url, type || "application/octet-stream", stop.current.signal, setShare);
      setBlob(found);
      then(found);
    } catch (wrong) {
      if (!stop.current.signal.aborted) setError(wrong);
    } finally {
      setShare(undefined);
    }
  };
  return (
    <div class="part" data-stored={name}>
      {blob && canShow(type) && <Shown blob={blob} type={type} name={name} />}
      <FileLine name={name} type={type} size={blob?.size}>
        {share !== undefined && <ProgressBar progress={share === null ? { done: 0, total: null } : { done: share, total: 1 }} />}
        {!blob && canShow(type) && (
          <button type="button" disabled={share !== undefined} onClick={() => void read(() => undefined)}>
            {t("part.preview")}
          </button>
        )}
        <button type="button" disabled={share !== undefined} onClick={() => void read((found) => save(found, name))}>
          {t("part.download", { name })}
        </button>
      </FileLine>
      {error !== null && <Trouble error={error} />}
    </div>
  );
}

function atobText(raw: string): string {
  return new TextDecoder().decode(Uint8Array.from(atob(raw), (char) => char.charCodeAt(0)));
}

function blobOf(part: Part, type: string): Blob {
  return new Blob([Uint8Array.from(atob(part.raw ?? ""), (char) => char.charCodeAt(0))], { type: type || "application/octet-stream" });
}

function save(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function Elsewhere({ url, name, type }: { url: string; name?: string; type: string }) {
  let host = "";
  try {
    const parsed = new URL(url);
    if (parsed.protocol === "https:" || parsed.protocol === "http:") host = parsed.host;
  } catch {
    // shown as the text it is
  }
  if (host && isOurs(url)) return <Stored url={url} name={visible(name || type || "file")} type={type} />;
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
  const head = (
    <>
      <strong class="fill">
        {name} {artifact.description && <span class="soft small">{visible(artifact.description)}</span>}
      </strong>
      {text && <Copy text={() => text} isQuiet />}
    </>
  );
  return (
    <section class="card" aria-label={name}>
      {inRuns(artifact.parts).map(([part, n], i) => (
        <PartView key={n} part={part} address={at && { at, artifact: artifact.artifactId, n }} head={i ? undefined : head} />
      ))}
      {!artifact.parts.length && <div class="row">{head}</div>}
    </section>
  );
}
