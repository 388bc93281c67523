/** A JSON value as a tree. What is closed is not drawn, and long lists are drawn piece by piece. */

import { useState } from "preact/hooks";
import type { Json } from "../api/types";
import { t } from "../i18n";
import { visible } from "./text";

const STEP = 100;
const OPEN = 6; // levels that are open at first

export function JsonTree({ value, name, isOpen = true }: { value: Json; name?: string; isOpen?: boolean }) {
  return (
    <div class="json mono">
      <Node value={value} name={name} depth={isOpen ? 0 : OPEN} />
    </div>
  );
}

function Node({ value, name, depth }: { value: Json; name?: string; depth: number }) {
  const [shown, setShown] = useState(STEP);
  const [isOpen, setOpen] = useState(depth < OPEN);
  const label = name === undefined ? null : <span class="key">{visible(name)}: </span>;
  if (value === null || typeof value !== "object") {
    return (
      <div>
        {label}
        {visible(JSON.stringify(value))}
      </div>
    );
  }
  const members: [string, Json][] = Array.isArray(value)
    ? value.map((item, i) => [String(i), item])
    : Object.entries(value);
  const size = Array.isArray(value) ? `[${members.length}]` : `{${members.length}}`;
  return (
    <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        {label}
        {size}
      </summary>
      {isOpen &&
        members
          .slice(0, shown)
          .map(([key, item]) => <Node key={key} name={key} value={item} depth={members.length < 20 ? depth + 1 : OPEN} />)}
      {isOpen && members.length > shown && (
        <button type="button" onClick={() => setShown(shown + STEP)}>
          {t("json.more", { count: members.length - shown })}
        </button>
      )}
    </details>
  );
}
