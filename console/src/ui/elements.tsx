/** Small elements that every page uses. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { go, href } from "../state";
import { stateWord, t } from "../i18n";

const SHAPES: { [word: string]: ComponentChildren } = {
  submitted: <circle cx="12" cy="12" r="8" />,
  working: (
    <>
      <circle cx="12" cy="12" r="8" />
      <path d="M12 4a8 8 0 0 0 0 16z" fill="currentColor" />
    </>
  ),
  "input-required": <path d="M12 3 21 12 12 21 3 12z" fill="currentColor" />,
  "auth-required": <path d="M12 4 21 20H3z" fill="currentColor" />,
  completed: <circle cx="12" cy="12" r="8" fill="currentColor" />,
  failed: <path d="M5 5 19 19M19 5 5 19" stroke-width="3" />,
  canceled: (
    <>
      <circle cx="12" cy="12" r="8" />
      <path d="M6 18 18 6" />
    </>
  ),
  rejected: (
    <>
      <circle cx="12" cy="12" r="8" />
      <path d="M7 12h10" />
    </>
  ),
};

export function State({ word }: { word: string }) {
  return (
    <span class={`state ${word}`} data-state={word}>
      <svg class="icon" viewBox="0 0 24 24" aria-hidden="true">
        {SHAPES[word] ?? SHAPES["submitted"]}
      </svg>
      {stateWord(word)}
    </span>
  );
}

const PATHS: { [name: string]: string } = {
  chat: "M4 5h16v11H9l-5 4z",
  tasks: "M5 6h14M5 12h14M5 18h14",
  agent: "M12 3a4 4 0 0 1 4 4v2a4 4 0 0 1-8 0V7a4 4 0 0 1 4-4zM4 21c0-4 4-6 8-6s8 2 8 6",
  live: "M3 12h4l3-8 4 16 3-8h4",
  pushes: "M6 9a6 6 0 0 1 12 0v5l2 3H4l2-3zM10 20h4",
  settings: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v3M12 19v3M2 12h3M19 12h3M5 5l2 2M17 17l2 2M5 19l2-2M17 7l2-2",
  inbox: "M4 4h16v16H4zM4 14h5l1 2h4l1-2h5",
  agents: "M4 4h7v7H4zM13 4h7v7h-7zM4 13h7v7H4zM13 13h7v7h-7z",
  trace: "M5 5h6M9 5v14M9 12h8M9 19h10",
  file: "M6 3h8l4 4v14H6zM14 3v4h4",
  now: "M4 14a8 8 0 1 1 16 0M12 14l4-5M4 19h16",
  more: "M5 12h.01M12 12h.01M19 12h.01",
  find: "M10.5 4a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13zM15.5 15.5 20 20",
  admin: "M12 3 4 6v6c0 5 3.5 8 8 9 4.5-1 8-4 8-9V6z",
};

export function Icon({ name }: { name: string }) {
  return (
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}

/** A link within the console: no page is loaded. */
export function Link(props: {
  to: string;
  query?: Record<string, string>;
  current?: boolean;
  class?: string;
  children: ComponentChildren;
}) {
  return (
    <a
      href={href(props.to, props.query)}
      class={props.class}
      aria-current={props.current ? "page" : undefined}
      onClick={(event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return;
        event.preventDefault();
        go(props.to, props.query);
      }}
    >
      {props.children}
    </a>
  );
}

async function copy(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  // There is no clipboard at a host without TLS, but what is selected can be copied.
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}

export function Copy({ text, label, isQuiet }: { text: () => string; label?: string; isQuiet?: boolean }) {
  const [isDone, setDone] = useState(false);
  return (
    <button
      type="button"
      class={isQuiet ? "quiet" : ""}
      data-copies={text()}
      onClick={() =>
        void copy(text()).then(() => {
          setDone(true);
          setTimeout(() => setDone(false), 1500);
        })
      }
    >
      {isDone ? t("common.copied") : (label ?? t("common.copy"))}
    </button>
  );
}

export function Dialog(props: {
  title: string;
  isOpen: boolean;
  onClose: () => void;
  children: ComponentChildren;
}) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = element.current!;
    if (props.isOpen && !dialog.open) dialog.showModal();
    if (!props.isOpen && dialog.open) dialog.close();
  }, [props.isOpen]);
  return (
    <dialog ref={element} onClose={props.onClose} aria-label={props.title}>
      {props.isOpen && (
        <>
          <h2>{props.title}</h2>
          {props.children}
        </>
      )}
    </dialog>
  );
}

export function Trouble({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const text = error instanceof Error ? error.message : String(error);
  return (
    <div class="card bad" role="alert">
      <strong>{t("common.error")}</strong>
      <p>{text}</p>
      {onRetry && (
        <button type="button" onClick={onRetry}>
          {t("common.retry")}
        </button>
      )}
    </div>
  );
}

/** What stands in a page's place while it is read. */
export function Skeleton() {
  return (
    <div class="skeleton" role="status">
      <span class="hidden">{t("common.loading")}</span>
      <i />
      <i />
      <i />
      <i />
    </div>
  );
}

/** Tabs of a page. The chosen one is in the address where the page says so. */
export function Tabs(props: { names: string[]; active: string; label: (name: string) => ComponentChildren; onChoose: (name: string) => void; of: string }) {
  return (
    <div class="tabs" role="tablist" aria-label={props.of}>
      {props.names.map((name) => (
        <button
          type="button"
          key={name}
          role="tab"
          data-name={name}
          aria-selected={name === props.active}
          onClick={() => props.onChoose(name)}
        >
          {props.label(name)}
        </button>
      ))}
    </div>
  );
}

/** A choice of few, all in view. */
export function Segments(props: { names: readonly string[]; active: string; label: (name: string) => string; onChoose: (name: string) => void; of: string }) {
  return (
    <div class="segments" role="group" aria-label={props.of}>
      {props.names.map((name) => (
        <button type="button" key={name} aria-pressed={name === props.active} onClick={() => props.onChoose(name)}>
          {props.label(name)}
        </button>
      ))}
    </div>
  );
}
