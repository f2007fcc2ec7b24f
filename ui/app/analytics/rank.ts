//! Maps counts to colours, exactly, while cells are added and removed: the frequency of each count,
//! and its colour.
//!
//! Adding or removing a cell takes one step. The table is only rebuilt when colours are requested,
//! from the distinct counts, of which there are some hundreds even for 360,000 cells.

import { ln } from "./axis";
import type { Coloring } from "./worksheet";

/** Counts below this are array indexes, others are in a map. */
const DENSE = 65_536;

/** Frequencies of counts at some time: a pinned scale, so that colours of a live picture do not flicker. */
export interface Scale {
  readonly counts: Float64Array;
  readonly upTo: Float64Array;
  readonly cells: number;
  readonly max: number;
}

export class Ranks {
  readonly #dense = new Int32Array(DENSE);
  readonly #sparse = new Map<number, number>();
  readonly #table = new Uint8Array(DENSE);
  readonly #large = new Map<number, number>();
  /** The present counts, unsorted; may include some that have since been removed. */
  #there = new Set<number>();
  /** Number of cells that are not zero. */
  cells = 0;

  clear(): void {
    this.#dense.fill(0);
    this.#sparse.clear();
    this.#there.clear();
    this.cells = 0;
  }

  add(count: number): void {
    if (count === 0) return;
    this.cells += 1;
    if (count < DENSE) {
      if (this.#dense[count]!++ === 0) this.#there.add(count);
    } else {
      this.#sparse.set(count, (this.#sparse.get(count) ?? 0) + 1);
      this.#there.add(count);
    }
  }

  remove(count: number): void {
    if (count === 0) return;
    this.cells -= 1;
    const left = count < DENSE ? --this.#dense[count]! : (this.#sparse.get(count) ?? 1) - 1;
    if (count >= DENSE) {
      if (left > 0) this.#sparse.set(count, left);
      else this.#sparse.delete(count);
    }
    if (left === 0) this.#there.delete(count);
  }

  /** The scale of the present counts. */
  scale(): Scale {
    const counts = Float64Array.from(this.#there).sort();
    const upTo = new Float64Array(counts.length);
    let sum = 0;
    counts.forEach((count, nth) => {
      sum += count < DENSE ? this.#dense[count]! : this.#sparse.get(count)!;
      upTo[nth] = sum;
    });
    return { counts, upTo, cells: this.cells, max: counts.at(-1) ?? 0 };
  }

  /** Rebuilds the table of colours, from the present counts or from a pinned scale. */
  settle(coloring: Coloring, pinned: Scale | null = null): void {
    const own = this.scale();
    const { counts, upTo, cells, max } = pinned ?? own;
    this.#large.clear();
    let at = 0;
    for (const count of own.counts) {
      while (at < counts.length && counts[at]! <= count) at += 1;
      const t =
        coloring === "rank"
          ? at > 0
            ? upTo[at - 1]! / cells
            : 0
          : coloring === "linear"
            ? count / max
            : ln(1 + count) / ln(1 + max);
      const index = Math.floor(Math.min(1, t) * 255 + 0.5);
      if (count < DENSE) this.#table[count] = index;
      else this.#large.set(count, index);
    }
  }

  /** The colour of a count, from 0 to 255, for counts that were present at the last `settle`. */
  index(count: number): number {
    return count < DENSE ? this.#table[count]! : (this.#large.get(count) ?? 255);
  }

  /** Counts at even distances of colour, with their colours, for the legend. */
  legend(steps: number): { count: number; index: number }[] {
    const counts = Float64Array.from(this.#there).sort();
    const list: { count: number; index: number }[] = [];
    for (let step = 0; step < steps; step += 1) {
      const wanted = ((step + 1) / steps) * 255;
      let [low, high] = [0, counts.length - 1];
      while (low < high) {
        const middle = (low + high) >> 1;
        if (this.index(counts[middle]!) < wanted - 0.5) low = middle + 1;
        else high = middle;
      }
      const count = counts[low];
      if (count !== undefined && list.at(-1)?.count !== count) list.push({ count, index: this.index(count) });
    }
    return list;
  }
}
