//! The data of a graph: columns of equal width, ascending, and the meaning of the keys of their
//! cells.
//!
//! A time without a column was not recorded, which is not zero. Columns arrive as a whole range,
//! and then one by one at the end.

import type { Schemas } from "../api/client";

export type Answer = Schemas["StatisticData"];
export type Column = Schemas["StatisticColumn"];
export type Key = Schemas["CellKey"];

export interface Data {
  readonly name: string;
  readonly title: string;
  readonly unit: string;
  /** Whether values are levels, averaged over time, and not rates. */
  readonly level: boolean;
  readonly step: number;
  readonly columns: readonly Column[];
  readonly keys: ReadonlyMap<number, Key>;
}

export function data(answer: Answer): Data {
  return { ...answer, keys: new Map(Object.entries(answer.keys).map(([key, value]) => [Number(key), value])) };
}

/** The last complete second of a live answer. */
export function newest({ closed, columns, step }: Answer): number {
  return (closed ?? (columns.at(-1)?.start ?? Math.floor(Date.now() / 1000) - step) + step) - 1;
}

export function isRange(key: Key | undefined): key is { from: number; to?: number } {
  return typeof key === "object";
}

/** Merges columns: those of `newer` replace those with the same start; columns that start before `oldest` are dropped. */
export function extended(old: Data, newer: Data, oldest: number): Data {
  if (old.step !== newer.step) return newer;
  // Columns before `oldest` are dropped even if no new ones arrived.
  const first = newer.columns[0]?.start ?? Infinity;
  const kept = old.columns.filter((column) => column.start >= oldest && column.start < first);
  const columns = [...kept, ...newer.columns.filter((column) => column.start >= oldest)];
  const keys = new Map(old.keys);
  for (const [key, value] of newer.keys) keys.set(key, value);
  return { ...newer, columns, keys };
}

/** The value that a column shows for a count: a rate per second, or for levels the average of the recorded seconds. */
export function rateOf(count: number, column: Column, data: Data): number {
  return count / (data.level ? Math.max(1, column.seconds) : data.step);
}

/** Start times of the columns between `from` and `to`, by total (`most`: descending), then by age. */
export function extremes(data: Data, from: number, to: number, most: boolean): number[] {
  const seen = data.columns
    .filter(({ start }) => start >= from && start < to)
    .map((column) => ({ start: column.start, value: rateOf(column.total, column, data) }));
  return seen
    .sort((a, b) => (most ? b.value - a.value : a.value - b.value) || a.start - b.start)
    .map(({ start }) => start);
}

export interface Value {
  key: number;
  label: Key;
  total: number;
  average: number;
}

/** The sum of each key between `from` and `to`, and its average over the recorded seconds. Largest first. */
export function values(
  data: Data,
  from: number,
  to: number,
): { values: Value[]; total: number; average: number; seconds: number } {
  const sums = new Map<number, number>();
  let [total, seconds] = [0, 0];
  for (const column of data.columns) {
    if (column.start < from || column.start >= to) continue;
    total += column.total;
    seconds += column.seconds;
    for (let at = 0; at + 1 < column.cells.length; at += 2) {
      const key = column.cells[at]!;
      sums.set(key, (sums.get(key) ?? 0) + column.cells[at + 1]!);
    }
  }
  const over = Math.max(1, seconds);
  const list = [...sums].map(([key, sum]): Value => ({
    key,
    label: data.keys.get(key) ?? `#${key}`,
    total: sum,
    average: sum / over,
  }));
  list.sort((a, b) => b.total - a.total || a.key - b.key);
  return { values: list, total, average: total / over, seconds };
}

/** The column that contains a second, if it was recorded. */
export function columnAt(data: Data, second: number): Column | undefined {
  let [low, high] = [0, data.columns.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (data.columns[middle]!.start + data.step <= second) low = middle + 1;
    else high = middle;
  }
  const column = data.columns[low];
  return column && column.start <= second ? column : undefined;
}

/** A figure with its unit: "1,777 ops/s", "602M/s", "91 %". */
export function figure(value: number, unit: string, level: boolean): string {
  const per = level ? "" : "/s";
  if (unit === "bytes") return `${binary(value)}${per}`;
  if (unit === "percent") return `${number(value)} %`;
  return `${number(value)} ${unit}${per}`;
}

/** Whole numbers from a hundred up, three significant digits below. */
export function number(value: number): string {
  if (value === 0) return "0";
  const places = Math.abs(value) >= 99.95 ? 0 : Math.abs(value) >= 9.995 ? 1 : Math.abs(value) >= 0.995 ? 2 : 3;
  return Number(value.toFixed(places)).toLocaleString("en-US", { maximumFractionDigits: places });
}

function binary(value: number): string {
  for (const [unit, factor] of [
    ["TiB", 1024 ** 4],
    ["GiB", 1024 ** 3],
    ["MiB", 1024 ** 2],
    ["KiB", 1024],
  ] as const)
    if (value >= factor) return `${number(value / factor)} ${unit}`;
  return `${number(value)} B`;
}
