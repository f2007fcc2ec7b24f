//! The vertical axis of a heat map: its range, and which buckets form a row.
//!
//! Rows are unions of whole buckets, so every count is a whole number and nothing is interpolated.
//! The arithmetic is that of docs/operating/analytics-pictures.md, to the last bit, so that the
//! server draws the same picture.

import type { Buckets } from "./scheme";
import type { Outliers } from "./worksheet";

export interface Axes {
  readonly low: number;
  readonly high: number;
  readonly log: boolean;
  readonly rows: number;
}

/** The row of a bucket, or one of these. */
export const BELOW = -1;
export const ABOVE = -2;

export interface Layout extends Axes {
  /** Row of each bucket, from the bottom, or `BELOW`, `ABOVE`. */
  readonly row: Int32Array;
  /** Slots that each row covers: first, and end (exclusive). */
  readonly first: Int32Array;
  readonly end: Int32Array;
}

/** Natural logarithm, identical on all machines: the implementations of languages differ in the last digit. `x` is at least 1. */
export function ln(x: number): number {
  let [e, m] = [0, x];
  while (m >= 2) {
    m /= 2;
    e += 1;
  }
  const s = (m - 1) / (m + 1);
  const z = s * s;
  let t = 0;
  for (let k = 41; k >= 1; k -= 2) t = t * z + 1 / k;
  return e * 0.6931471805599453 + 2 * s * t;
}

const SPARED: Record<Outliers, number | null> = { "5": 500, "1": 100, "0.1": 10, "0.01": 1, none: null };

/** `totals`: events of each bucket, over all columns. */
export function reach(
  buckets: Buckets,
  totals: Float64Array,
  { log, outliers, band }: { log: boolean; outliers: Outliers; band: readonly [number | null, number | null] | null },
): { low: number; high: number } {
  const used: number[] = [];
  let events = 0;
  for (let at = 0; at < totals.length; at += 1)
    if (totals[at]! > 0) {
      used.push(at);
      events += totals[at]!;
    }
  let low = 0;
  if (band && band[0] !== null) low = band[0];
  else if (log) {
    const lowest = used[0];
    low =
      lowest === undefined
        ? 1
        : buckets.from[lowest]! > 0
          ? buckets.from[lowest]!
          : Math.max(1, Math.floor(buckets.to[lowest]! / 10));
  }
  if (log) low = Math.max(1, low);
  let high = low + 1;
  if (band && band[1] !== null) high = band[1];
  else if (buckets.percent) high = 101;
  else if (used.length > 0) {
    const spare = SPARED[outliers] === null ? 0 : Math.floor((events * SPARED[outliers]) / 10_000);
    let at = used.length - 1;
    let above = totals[used[at]!]!;
    while (at > 0 && above <= spare) {
      at -= 1;
      above += totals[used[at]!]!;
    }
    // `above` now includes this bucket: the events above it are at most `spare`.
    high = buckets.end[used[at]!]!;
  }
  return { low, high: high <= low ? low + 1 : high };
}

/** The slot of a number, from the bottom. */
export function slotOf(value: number, { low, high, log, rows }: Axes): number {
  const p = log
    ? ((ln(Math.max(value, 1)) - ln(low)) * rows) / (ln(high) - ln(low))
    : ((value - low) * rows) / (high - low);
  return Math.min(Math.max(Math.floor(p), 0), rows);
}

export function layout(buckets: Buckets, axes: Axes): Layout {
  const { low, high, log, rows } = axes;
  const row = new Int32Array(buckets.from.length);
  const firsts: number[] = [];
  for (let at = 0; at < row.length; at += 1) {
    const from = buckets.from[at]!;
    const last = log ? Math.max(1, buckets.to[at]! - 1) : buckets.to[at]! - 1;
    if (last < low) row[at] = BELOW;
    else if (from >= high) row[at] = ABOVE;
    else {
      const slot = Math.min(slotOf(from, axes), rows - 1);
      if (firsts.at(-1) !== slot) firsts.push(slot);
      row[at] = firsts.length - 1;
    }
  }
  return { ...axes, row, first: Int32Array.from(firsts), end: Int32Array.from([...firsts.slice(1), rows]) };
}
