//! The buckets that numbers are counted in: the same at all times and everywhere, never split, known without asking.
//!
//! docs/operating/analytics-pictures.md has the table; `appliance/analytics/src/scheme.rs` is its twin.

import type { Axis } from "./name";

export interface Buckets {
  /** The first number of each, ascending. */
  readonly from: Float64Array;
  /** The first number that is not in it any more; Infinity for the last. */
  readonly to: Float64Array;
  /** The same, but for the last, which is taken as a tenth wider than its first number. */
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

/** The bucket that a number is in. */
export function bucketOf({ from }: Buckets, value: number): number {
  let [low, high] = [0, from.length];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (from[middle]! <= value) low = middle;
    else high = middle;
  }
  return low;
}
