/** What is read again and again. One reading that fails leaves what was read before; the next that works clears it. */

import { useEffect, useRef, useState } from "preact/hooks";

export interface Polled<T> {
  value: T | null;
  error: unknown; // of the last reading; null if it worked
  load: () => void;
}

export function usePolled<T>(read: () => Promise<T>, everyMs: number, dependencies: unknown[] = []): Polled<T> {
  const [value, setValue] = useState<T | null>(null);
  const [error, setError] = useState<unknown>(null);
  const current = useRef(0); // an answer that comes late must not replace a newer one
  const load = () => {
    const own = ++current.current;
    const isCurrent = () => own === current.current;
    read()
      .then((found) => {
        if (!isCurrent()) return;
        setValue(found);
        setError(null);
      })
      .catch((wrong: unknown) => isCurrent() && setError(wrong));
  };
  useEffect(() => {
    setValue(null);
    load();
    const timer = setInterval(load, everyMs);
    return () => {
      current.current++;
      clearInterval(timer);
    };
  }, dependencies);
  return { value, error, load };
}
