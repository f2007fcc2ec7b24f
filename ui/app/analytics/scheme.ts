//! The buckets that numbers are counted in: fixed, never split, and known in advance.
//!
//! The table is in docs/operating/analytics-pictures.md; `appliance/analytics/src/scheme.rs`
//! implements the same.

import type { Axis } from "./name";

export interface Buckets {
  /** Lower bound of each bucket, ascending. */
  readonly from: Float64Array;
  /** Upper bound (exclusive); Infinity for the last. */
  readonly to: Float64Array;
  /** Upper bound for drawing: the last bucket is taken as a tenth wider than its lower bound. */
  readonly end: Float64Array;
  readonly percent: boolean;
}

export type Scheme = "latency" | "size" | "offset" | "percent";

export function schemeOf(field: string | null, axis: Axis): Scheme {
  return axis === "ns" ? "latency" : axis === "percent" ? "percent" : field === "size" ? "size" : "offset";
}

const made = new Map<Scheme, Buckets>();

export function buckets(scheme: Scheme): Buckets {
  const known = made.get(scheme) ?? make(scheme);
  made.set(scheme, known);
  return known;
}

function make(scheme: Scheme): Buckets {
  const from: number[] = scheme === "percent" ? Array.from({ length: 101 }, (_, nth) => nth) : [0];
  const powers = { latency: [10, 3, 11, 100], size: [2, 0, 26, 32], offset: [10, 0, 13, 100], percent: null }[scheme];
  if (powers) {
    const [base, low, high, parts] = powers as [number, number, number, number];
    for (let power = low; power < high; power += 1) {
      const [first, next] = [base ** power, base ** (power + 1)];
      const step = Math.max(1, Math.floor(next / parts));
      for (let at = first; at < next; at += step) from.push(at);
    }
    from.push(base ** high);
  }
  const last = from.at(-1)!;
  const to = [...from.slice(1), Infinity];
  return {
    from: Float64Array.from(from),
    to: Float64Array.from(to),
    end: Float64Array.from([...from.slice(1), scheme === "percent" ? 101 : last + Math.floor(last / 10)]),
    percent: scheme === "percent",
  };
}

/** The bucket of a number. */
export function bucketOf({ from }: Buckets, value: number): number {
  let [low, high] = [0, from.length];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (from[middle]! <= value) low = middle;
    else high = middle;
  }
  return low;
}
