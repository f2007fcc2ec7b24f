//! From counts to colours, exactly and as cells come and go: how often each count is there, and for each the number of its colour.
//!
//! Adding or removing a cell is one step. The table is made anew only when colours are asked for, from the counts that differ,
//! which are some hundreds even when there are 360,000 cells.

import { ln } from "./axis";
import type { Coloring } from "./worksheet";

/** Counts below this are looked up by their number, others in a map. */
const DENSE = 65_536;

/** How often each count was there at some time: a scale that stays, so that a picture that goes on does not shimmer. */
export interface Scale { readonly counts: Float64Array; readonly upTo: Float64Array; readonly cells: number; readonly max: number }

export class Ranks {
  readonly #dense = new Int32Array(DENSE);
  readonly #sparse = new Map<number, number>();
  readonly #table = new Uint8Array(DENSE);
  readonly #large = new Map<number, number>();
  /** The counts that are there, unsorted; some may be gone by now. */
  #there = new Set<number>();
  /** Cells that are not zero. */
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

  /** The scale of what is there. */
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

  /** Makes the table of colours, after the scale of what is there or after one that was pinned. */
  settle(coloring: Coloring, pinned: Scale | null = null): void {
    const own = this.scale();
    const { counts, upTo, cells, max } = pinned ?? own;
    this.#large.clear();
    let at = 0;
    for (const count of own.counts) {
      while (at < counts.length && counts[at]! <= count) at += 1;
      const t = coloring === "rank" ? (at > 0 ? upTo[at - 1]! / cells : 0) : coloring === "linear" ? count / max : ln(1 + count) / ln(1 + max);
      const index = Math.floor(Math.min(1, t) * 255 + 0.5);
      if (count < DENSE) this.#table[count] = index;
      else this.#large.set(count, index);
    }
  }

  /** The number of a count's colour, from 0 to 255: of counts that are there, since the last `settle`. */
  index(count: number): number {
    return count < DENSE ? this.#table[count]! : (this.#large.get(count) ?? 255);
  }

  /** Counts at even distances of colour, with their colours: what the legend shows. */
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
