/** Keys of the page. Single letters can be switched off, and never fire in fields. */

import { useEffect, useRef, useState } from "preact/hooks";
import { hasKeys } from "../state";

export function isTyping(event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement | null;
  return !!target?.closest("input, textarea, select, [contenteditable], dialog");
}

/** Enter and Space do what the focused button or link does, and nothing else. */
function isOfControl(event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement | null;
  const isOperated = event.key === "Enter" || event.key === " ";
  return isOperated && !!target?.closest("a[href], button, summary, [role=button], [role=tab]");
}

export function useKeys(keys: { [key: string]: () => void }, dependencies: unknown[]): void {
  useEffect(() => {
    const on = (event: KeyboardEvent) => {
      if (!hasKeys.value || event.defaultPrevented || isTyping(event) || isOfControl(event)) return;
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const run = keys[event.shiftKey && event.key.startsWith("Arrow") ? `Shift-${event.key}` : event.key];
      if (run) {
        event.preventDefault();
        run();
      }
    };
    addEventListener("keydown", on);
    return () => removeEventListener("keydown", on);
  }, dependencies);
}

/** A row that j and k move, and Enter opens. */
export function useRows(count: number, onOpen: (row: number) => void): number {
  const [row, setRow] = useState(-1);
  const now = useRef(-1); // keys may come faster than the page is drawn
  const move = (to: number) => {
    now.current = Math.max(0, Math.min(count - 1, to));
    setRow(now.current);
  };
  useKeys(
    {
      j: () => move(now.current + 1),
      k: () => move(now.current - 1),
      Enter: () => now.current >= 0 && onOpen(now.current),
    },
    [count, row],
  );
  return row;
}
