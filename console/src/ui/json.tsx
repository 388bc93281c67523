/** A JSON value as a tree. Long lists are drawn piece by piece. */

import { useState } from "preact/hooks";
import type { Json } from "../api/types";
import { t } from "../i18n";

const STEP = 100;

export function JsonTree({ value, name, isOpen = true }: { value: Json; name?: string; isOpen?: boolean }) {
  return (
    <div class="json mono">
      <Node value={value} name={name} isOpen={isOpen} />
    </div>
  );
}

function Node({ value, name, isOpen }: { value: Json; name?: string; isOpen: boolean }) {
  const [shown, setShown] = useState(STEP);
  const label = name === undefined ? null : <span class="key">{name}: </span>;
  if (value === null || typeof value !== "object") {
    return (
      <div>
        {label}
        {JSON.stringify(value)}
      </div>
    );
  }
  const members: [string, Json][] = Array.isArray(value)
    ? value.map((item, i) => [String(i), item])
    : Object.entries(value);
  const size = Array.isArray(value) ? `[${members.length}]` : `{${members.length}}`;
  return (
    <details open={isOpen}>
      <summary>
        {label}
        {size}
      </summary>
      {members.slice(0, shown).map(([key, item]) => (
        <Node key={key} name={key} value={item} isOpen={isOpen && members.length < 20} />
      ))}
      {members.length > shown && (
        <button type="button" onClick={() => setShown(shown + STEP)}>
          {t("json.more", { count: members.length - shown })}
        </button>
      )}
    </details>
  );
}
