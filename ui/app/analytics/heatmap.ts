//! A heat map as integers: columns of time by rows of buckets, and a colour for each count.
//!
//! Columns arrive all together or one per second, which replaces the oldest. Values that depend on
//! all cells (range of the axis, ranks) are maintained incrementally; rows are only recomputed when
//! the axis changes.
//!
//! Above: `paint`, which converts them to pixels. The arithmetic:
//! docs/operating/analytics-pictures.md.

import { ABOVE, BELOW, layout, reach, type Layout } from "./axis";
import { Ranks, type Scale } from "./rank";
import { bucketOf, type Buckets } from "./scheme";
import type { Coloring, Outliers } from "./worksheet";

/** Bucket and count alternately, or null: not recorded. */
export type Cells = readonly number[] | null;
export interface Look {
  readonly log: boolean;
  readonly outliers: Outliers;
  readonly band: readonly [number | null, number | null] | null;
  readonly coloring: Coloring;
  readonly rows: number;
  readonly pin: Scale | null;
}

export class HeatMap {
  readonly buckets: Buckets;
  /** Oldest first. */
  #columns: Cells[] = [];
  #look: Look;
  #totals: Float64Array;
  #layout!: Layout;
  /** Counts, column by column, rows from the bottom. A ring buffer: `#at` is the oldest column. */
  #grid = new Float64Array(0);
  #at = 0;
  readonly ranks = new Ranks();

  constructor(buckets: Buckets, look: Look) {
    this.buckets = buckets;
    this.#look = look;
    this.#totals = new Float64Array(buckets.from.length);
    this.set([], look);
  }

  get layout(): Layout {
    return this.#layout;
  }
  get cols(): number {
    return this.#columns.length;
  }
  get rows(): number {
    return this.#layout.first.length;
  }

  /** Replaces all columns. */
  set(columns: readonly Cells[], look: Look = this.#look): void {
    this.#columns = [...columns];
    this.#look = look;
    this.#totals.fill(0);
    for (const cells of columns) this.#sum(cells, 1);
    this.#arrange();
  }

  /** Changes the view of the same columns. */
  look(look: Look): void {
    this.#look = look;
    this.#arrange();
  }

  /** Appends a column and drops the oldest. */
  push(cells: Cells): void {
    if (this.#columns.length === 0) return;
    const gone = this.#columns.shift()!;
    this.#columns.push(cells);
    this.#sum(gone, -1);
    this.#sum(cells, 1);
    const { low, high } = reach(this.buckets, this.#totals, this.#look);
    if (low !== this.#layout.low || high !== this.#layout.high) return this.#arrange();
    const from = this.#at * this.rows;
    for (let row = 0; row < this.rows; row += 1) this.ranks.remove(this.#grid[from + row]!);
    this.#fill(this.#at, cells);
    this.#at = (this.#at + 1) % this.cols;
    this.ranks.settle(this.#look.coloring, this.#look.pin);
  }

  /** The count of a cell. */
  count(column: number, row: number): number {
    return this.#grid[((this.#at + column) % this.cols) * this.rows + row] ?? 0;
  }

  recorded(column: number): boolean {
    return this.#columns[column] != null;
  }

  /** Colours of a row, from the oldest column on: 256 where there is nothing. */
  row(row: number, into: Uint16Array): void {
    const [cols, rows] = [this.cols, this.rows];
    let at = this.#at * rows + row;
    for (let column = 0; column < cols; column += 1) {
      const count = this.#grid[at]!;
      into[column] = count === 0 ? NOTHING : this.ranks.index(count);
      at += rows;
      if (at >= cols * rows) at -= cols * rows;
    }
  }

  /** Events outside the visible range, over all columns. */
  hidden(): { above: number; below: number; events: number } {
    let [above, below, events] = [0, 0, 0];
    for (let bucket = 0; bucket < this.#totals.length; bucket += 1) {
      const total = this.#totals[bucket]!;
      events += total;
      if (this.#layout.row[bucket] === ABOVE) above += total;
      else if (this.#layout.row[bucket] === BELOW) below += total;
    }
    return { above, below, events };
  }

  /** Events of a column: below a row, in it, and in total, including those outside the visible range. */
  share(column: number, row: number): { below: number; count: number; total: number } {
    let [below, count, total] = [0, 0, 0];
    const cells = this.#columns[column] ?? [];
    for (let at = 0; at + 1 < cells.length; at += 2) {
      const of = this.#layout.row[cells[at]!]!;
      total += cells[at + 1]!;
      if (of === row) count += cells[at + 1]!;
      else if (of === BELOW || (of >= 0 && of < row)) below += cells[at + 1]!;
    }
    return { below, count, total };
  }

  /** Values that a row contains: from, and to (exclusive); Infinity if it is open-ended. */
  range(row: number): { from: number; to: number } {
    const first = this.#layout.row.indexOf(row);
    const last = this.#layout.row.lastIndexOf(row);
    return { from: this.buckets.from[first] ?? 0, to: this.buckets.to[last] ?? Infinity };
  }

  /** The row that contains a slot, or -1. */
  rowAt(slot: number): number {
    const { first, end } = this.#layout;
    let [low, high] = [0, first.length];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (first[middle]! <= slot) low = middle;
      else high = middle;
    }
    return low < first.length && first[low]! <= slot && slot < end[low]! ? low : -1;
  }

  #sum(cells: Cells, sign: 1 | -1): void {
    if (cells) for (let at = 0; at + 1 < cells.length; at += 2) this.#totals[cells[at]!]! += sign * cells[at + 1]!;
  }

  #arrange(): void {
    const axes = { ...reach(this.buckets, this.#totals, this.#look), log: this.#look.log, rows: this.#look.rows };
    this.#layout = layout(this.buckets, axes);
    this.#grid = new Float64Array(this.cols * this.rows);
    this.#at = 0;
    this.ranks.clear();
    this.#columns.forEach((cells, column) => this.#fill(column, cells));
    this.ranks.settle(this.#look.coloring, this.#look.pin);
  }

  #fill(column: number, cells: Cells): void {
    const from = column * this.rows;
    this.#grid.fill(0, from, from + this.rows);
    if (!cells) return;
    for (let at = 0; at + 1 < cells.length; at += 2) {
      const row = this.#layout.row[cells[at]!]!;
      if (row >= 0) this.#grid[from + row]! += cells[at + 1]!;
    }
    for (let row = 0; row < this.rows; row += 1) this.ranks.add(this.#grid[from + row]!);
  }
}

/** Instead of a colour: the background, a line of the hatch. */
export const NOTHING = 256;
export const HATCH = 257;

/** Converts cells from keys to buckets, whatever numbers the keys have. */
export function inBuckets(
  cells: readonly number[],
  keys: ReadonlyMap<number, unknown>,
  buckets: Buckets,
  known: Map<number, number>,
): number[] {
  const list: number[] = [];
  for (let at = 0; at + 1 < cells.length; at += 2) {
    const key = cells[at]!;
    let bucket = known.get(key);
    if (bucket === undefined) {
      const range = keys.get(key) as { from?: number } | undefined;
      if (range?.from === undefined) continue;
      bucket = bucketOf(buckets, range.from);
      known.set(key, bucket);
    }
    list.push(bucket, cells[at + 1]!);
  }
  return list;
}
