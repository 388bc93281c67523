/** What was typed and is not sent yet. It is kept over other pages and reloads, in this tab alone. */

import { useState } from "preact/hooks";

const PREFIX = "accord.draft.";

export function draftOf(key: string): string {
  return sessionStorage.getItem(PREFIX + key) ?? "";
}

export function keepDraft(key: string, text: string): void {
  try {
    if (text) sessionStorage.setItem(PREFIX + key, text);
    else sessionStorage.removeItem(PREFIX + key);
  } catch {
    // There is no room: it is still in the field.
  }
}

/** The text of a field, as it was left. */
export function useDraft(key: string): [string, (text: string) => void] {
  const [text, setText] = useState(() => draftOf(key));
  const set = (now: string) => {
    setText(now);
    keepDraft(key, now);
  };
  return [text, set];
}
