/** The time axis of a task: long times without anything are folded away. */

export interface Fold {
  from: number;
  to: number;
}

export interface Axis {
  folds: Fold[];
  place: (at: number) => number; // between 0 and 1
}

const SHARE = 0.05; // of the axis: what a longer pause is folded to

export function axisOf(times: number[]): Axis {
  const sorted = [...times].sort((a, b) => a - b);
  const first = sorted[0] ?? 0;
  const last = sorted[sorted.length - 1] ?? first;
  const whole = Math.max(last - first, 1);
  const gaps: Fold[] = [];
  for (let i = 1; i < sorted.length; i++) {
    const from = sorted[i - 1]!;
    const to = sorted[i]!;
    if (to - from > 10_000) gaps.push({ from, to });
  }
  const busy = whole - gaps.reduce((sum, gap) => sum + gap.to - gap.from, 0);
  // A pause is folded if it is long beside the time in which something happened.
  const folds = gaps.filter((gap) => gap.to - gap.from > busy * SHARE);
  const drawn = whole - folds.reduce((sum, gap) => sum + gap.to - gap.from, 0);
  const foldWidth = folds.length ? Math.min(SHARE, 0.5 / folds.length) : 0;
  const scale = (1 - foldWidth * folds.length) / Math.max(drawn, 1);
  return {
    folds,
    place: (at) => {
      let x = 0;
      let passed = first;
      for (const fold of folds) {
        if (at <= fold.from) break;
        x += (fold.from - passed) * scale;
        if (at < fold.to) return x + (foldWidth * (at - fold.from)) / (fold.to - fold.from);
        x += foldWidth;
        passed = fold.to;
      }
      return Math.min(1, x + (Math.max(at, passed) - passed) * scale);
    },
  };
}
