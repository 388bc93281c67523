/** Two lists beside each other. */

export interface Pair<T> {
  left: T | null;
  right: T | null;
}

/** Put what says the same into one row: the longest such sequence, in the order of both lists. */
export function aligned<T>(left: T[], right: T[], wordsOf: (one: T) => string): Pair<T>[] {
  const a = left.map(wordsOf);
  const b = right.map(wordsOf);
  const length: number[][] = Array.from({ length: a.length + 1 }, () => new Array<number>(b.length + 1).fill(0));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      length[i]![j] = a[i] === b[j] ? length[i + 1]![j + 1]! + 1 : Math.max(length[i + 1]![j]!, length[i]![j + 1]!);
    }
  }
  const pairs: Pair<T>[] = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) pairs.push({ left: left[i++]!, right: right[j++]! });
    else if (j >= b.length || (i < a.length && length[i + 1]![j]! >= length[i]![j + 1]!)) pairs.push({ left: left[i++]!, right: null });
    else pairs.push({ left: null, right: right[j++]! });
  }
  return pairs;
}
