//! Lines and stacks: the largest values of a breakdown over time, the others combined; see
//! docs/operating/analytics-pictures.md.

import { rateOf, values, type Data, type Key } from "./data";
import { NOTHING } from "./heatmap";
import { edgesOf, hatchMissing } from "./paint";

/** Number of values with their own colour. */
export const SERIES = 7;

export interface Series {
  readonly key: number | null;
  readonly label: Key | null;
  /** One value per column; NaN where nothing was recorded. */ readonly values: Float64Array;
}
export interface Drawing {
  readonly series: readonly Series[];
  readonly top: number;
  readonly cols: number;
  readonly recorded: (column: number) => boolean;
}

/** Keys from here on are not values: the remainder of a full column, and operations counted without details. */
export const SPECIAL = 2 ** 32 - 2;

/** `chosen`: restricts the series to these keys. */
export function series(
  data: Data,
  from: number,
  to: number,
  stacked: boolean,
  chosen: ReadonlySet<number> | null,
): Drawing {
  const cols = Math.max(1, Math.ceil((to - from) / data.step));
  const all = values(data, from, to).values;
  const own = all.filter(({ key }) => key < SPECIAL && (!chosen || chosen.has(key)));
  const line = (key: number | null, label: Key | null): Series => ({
    key,
    label,
    values: new Float64Array(cols).fill(NaN),
  });
  const list = own.slice(0, SERIES).map(({ key, label }) => line(key, label));
  const rest = chosen
    ? own.length > SERIES || all.some(({ key }) => key >= SPECIAL && chosen.has(key))
    : all.length > list.length;
  if (all.length === 0) list.push(line(null, null));
  else if (rest || list.length === 0) list.push(line(null, "<other>"));
  const place = new Map(list.flatMap(({ key }, nth) => (key === null ? [] : [[key, nth] as const])));
  for (const column of data.columns) {
    const at = (column.start - from) / data.step;
    if (at < 0 || at >= cols || !Number.isInteger(at)) continue;
    for (const one of list) one.values[at] = 0;
    // The remainder of the total, or of the selected values.
    let left = chosen ? 0 : column.total;
    for (let cell = 0; cell + 1 < column.cells.length; cell += 2) {
      const [key, count] = [column.cells[cell]!, column.cells[cell + 1]!];
      const nth = place.get(key);
      if (nth !== undefined) list[nth]!.values[at] = rateOf(count, column, data);
      if (chosen ? nth === undefined && chosen.has(key) : nth !== undefined) left += chosen ? count : -count;
    }
    const last = list.at(-1)!;
    if (last.key === null) last.values[at] = rateOf(Math.max(0, left), column, data);
  }
  let largest = 0;
  for (let column = 0; column < cols; column += 1) {
    let sum = 0;
    for (const one of list) {
      const value = one.values[column]!;
      if (Number.isNaN(value)) continue;
      sum += value;
      if (!stacked) largest = Math.max(largest, value);
    }
    if (stacked) largest = Math.max(largest, sum);
  }
  return { series: list, top: round(largest), cols, recorded: (column) => !Number.isNaN(list[0]!.values[column]!) };
}

/** Rounds up to 1, 2 or 5 times a power of ten; 1 if there is nothing. */
export function round(value: number): number {
  if (!(value > 0)) return 1;
  let p = 1;
  while (p < value) p *= 10;
  while (p / 10 >= value) p /= 10;
  return [p / 5, p / 2, p].find((candidate) => candidate >= value) ?? p;
}

/** Series as integers, line by line from the top. */
export function seriesPixels(
  { series, top, cols, recorded }: Drawing,
  stacked: boolean,
  width: number,
  height: number,
  into: Uint16Array = new Uint16Array(width * height),
): Uint16Array {
  into.fill(NOTHING);
  const edges = edgesOf(cols, width);
  hatchMissing(into, width, height, cols, edges, recorded);
  const tall = (value: number) => Math.floor((value * height) / top + 0.5);
  const fill = (number: number, from: number, to: number, bottom: number, end: number) => {
    for (let line = Math.max(0, bottom); line < Math.min(end, height); line += 1)
      into.fill(number, (height - 1 - line) * width + from, (height - 1 - line) * width + to);
  };
  if (stacked) {
    for (let column = 0; column < cols; column += 1) {
      if (!recorded(column)) continue;
      let sum = 0;
      series.forEach((one, number) => {
        const bottom = tall(sum);
        sum += one.values[column]!;
        fill(number, edges[column]!, edges[column + 1]!, bottom, tall(sum));
      });
    }
    return into;
  }
  for (let number = series.length - 1; number >= 0; number -= 1) {
    const line = (column: number) => Math.min(tall(series[number]!.values[column]!), height - 1);
    for (let column = 0; column < cols; column += 1) {
      if (!recorded(column)) continue;
      const [from, to, at] = [edges[column]!, edges[column + 1]!, line(column)];
      fill(number, from, to, at, at + 1);
      if (column > 0 && recorded(column - 1) && from < to)
        fill(number, from, from + 1, Math.min(at, line(column - 1)), Math.max(at, line(column - 1)) + 1);
    }
  }
  return into;
}
