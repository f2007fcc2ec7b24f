//! What a plot draws, independent of the statistic: a heat map or series as pixels, marks and
//! labels.

import type { Data } from "./data";
import { columnAt, figure as inUnit, number, rateOf } from "./data";
import { HeatMap } from "./heatmap";
import { shown as inAxis, type Axis } from "./name";
import { colours, pixels, type Theme } from "./paint";
import { seriesPixels, type Drawing } from "./series";
import { slotOf } from "./axis";
import type { Extent } from "./time";
import { readable, shortened } from "./words";
import type { PaletteName } from "./worksheet";

/** A part of a graph: a time range, and on a heat map values from `low` to `high` (exclusive; null: open-ended). */
export interface Rectangle {
  readonly from: number;
  readonly to: number;
  readonly low: number | null;
  readonly high: number | null;
}

export interface Line {
  readonly of: string;
  readonly is: string;
}

export interface Figure {
  draw(into: Uint16Array, width: number, height: number): void;
  readonly colours: Uint32Array;
  /** From 0, the bottom, to 1. */
  readonly ticks: readonly { at: number; text: string }[];
  readonly bands: readonly (readonly [number, number])[];
  readonly labels: readonly { x: number; y: number; text: string }[];
  /** Text about values above and below the picture. */
  readonly above: string;
  readonly below: string;
  /** 0: there are none. */
  readonly rows: number;
  rowAt(fraction: number): number;
  middle(row: number): number;
  between(first: number, last: number): { low: number; high: number | null };
  fraction(value: number): number;
  describe(column: number, row: number | null): Line[];
}

/** Letters of breakdown values in the list and in the graph, shown next to the colour. */
export const LETTERS = "ABCDEFG";

const UNTIL = (to: number, axis: Axis) => (Number.isFinite(to) ? inAxis(to, axis) : "and more");

export function rangeText(from: number, to: number | null | undefined, axis: Axis): string {
  if (to == null || !Number.isFinite(to)) return `${inAxis(from, axis)} and more`;
  return axis === "percent" && to === from + 1 ? inAxis(from, axis) : `${inAxis(from, axis)} – ${UNTIL(to, axis)}`;
}

/** A heat map as a figure. The map is changed in place, so each change needs a new figure. */
export function heatFigure(
  map: HeatMap,
  axis: Axis,
  data: Data,
  extent: Extent,
  look: { palette: PaletteName; theme: Theme; bands: readonly (readonly [number, number])[] },
): Figure {
  const { layout } = map;
  const slots = layout.rows;
  const fraction = (value: number) =>
    layout.log
      ? Math.min(1, Math.max(0, Math.log(Math.max(1, value) / layout.low) / Math.log(layout.high / layout.low)))
      : Math.min(1, Math.max(0, (value - layout.low) / (layout.high - layout.low)));
  const hidden = map.hidden();
  const largest = data.columns.reduce(
    (most, column) =>
      column.start >= extent.from && column.start < extent.to ? Math.max(most, column.max ?? 0) : most,
    0,
  );
  const what = data.unit === "bytes" ? "bytes" : data.unit;
  return {
    draw: (into, width, height) => void pixels(map, width, height, into),
    colours: colours(look.palette, look.theme),
    ticks: axisTicks(layout.low, layout.high, layout.log, axis).map((value) => ({
      at: fraction(value),
      text: inAxis(value, axis),
    })),
    bands: look.bands.map(([low, high]) => [fraction(low), fraction(high)] as const),
    labels: [],
    above:
      hidden.above > 0
        ? `${number(hidden.above)} ${what} above ${inAxis(layout.high, axis)}${largest > 0 ? `, largest ${inAxis(largest, axis)}` : ""}`
        : "",
    below: hidden.below > 0 ? `${number(hidden.below)} ${what} below ${inAxis(layout.low, axis)}` : "",
    rows: map.rows,
    rowAt: (part) => Math.max(0, map.rowAt(Math.min(slots - 1, Math.floor(part * slots)))),
    middle: (row) => ((layout.first[row] ?? 0) + (layout.end[row] ?? 1)) / 2 / slots,
    between: (first, last) => {
      const to = map.range(last).to;
      return { low: map.range(first).from, high: Number.isFinite(to) ? to : null };
    },
    fraction: (value) => slotOf(value, layout) / slots,
    describe: (column, row) => {
      if (!map.recorded(column)) return [{ of: "", is: "not recorded" }];
      const { from, to } = map.range(row ?? 0);
      const cell = map.share(column, row ?? 0);
      const part = (count: number) => (cell.total > 0 ? `${((count / cell.total) * 100).toFixed(2)} %` : "–");
      return [
        { of: "range", is: rangeText(from, to, axis) },
        { of: "count", is: `${number(cell.count)} ${what}` },
        { of: "of the column", is: part(cell.count) },
        { of: "accumulated", is: part(cell.below + cell.count) },
      ];
    },
  };
}

/** A few round numbers in a range: powers of ten on a logarithmic axis, of two for bytes. */
export function axisTicks(low: number, high: number, log: boolean, axis: Axis): number[] {
  if (log) {
    const base = axis === "bytes" ? 2 : 10;
    const first = Math.ceil(Math.log(low) / Math.log(base) - 1e-9);
    const last = Math.floor(Math.log(high) / Math.log(base) + 1e-9);
    const every = Math.max(1, Math.ceil((last - first + 1) / 7));
    const powers = Array.from(
      { length: Math.max(0, Math.floor((last - first) / every) + 1) },
      (_, nth) => base ** (first + nth * every),
    );
    if (powers.length > 2 || base === 2) return powers;
    // Fewer than three powers: adds values in between.
    return [1, 2, 3, 5]
      .flatMap((factor) => Array.from({ length: last - first + 2 }, (_, nth) => factor * base ** (first - 1 + nth)))
      .filter((value) => value >= low && value <= high)
      .sort((a, b) => a - b);
  }
  const rough = (high - low) / 5;
  let step: number;
  if (axis === "bytes" && high > 2048) step = 2 ** Math.ceil(Math.log2(rough));
  else {
    const power = 10 ** Math.floor(Math.log10(rough));
    step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough) ?? rough;
  }
  const list: number[] = [];
  for (let at = Math.ceil(low / step) * step; at <= high; at += step) list.push(at);
  return list;
}

export function seriesFigure(drawing: Drawing, stacked: boolean, data: Data, extent: Extent, theme: Theme): Figure {
  const { series, top } = drawing;
  const several = series.length > 1 || series[0]?.key !== null;
  return {
    draw: (into, width, height) => void seriesPixels(drawing, stacked, width, height, into),
    colours: colours("series", theme),
    ticks: [0, 0.25, 0.5, 0.75, 1].map((part) => ({
      at: part,
      text: inUnit(top * part, data.unit, true).replace(` ${data.unit}`, ""),
    })),
    bands: [],
    labels: several ? labels(drawing, stacked) : [],
    above: "",
    below: "",
    rows: 0,
    rowAt: () => 0,
    middle: () => 0,
    between: () => ({ low: 0, high: null }),
    fraction: () => 0,
    describe: (column) => {
      if (!drawing.recorded(column)) return [{ of: "", is: "not recorded" }];
      const of = columnAt(data, extent.from + column * extent.step);
      const lines = series.map((one, nth): Line => ({
        of: several ? `${one.key === null ? "" : `${LETTERS[nth]} `}${shortened(nameOf(one.label), 38)}` : "",
        is: inUnit(one.values[column]!, data.unit, data.level),
      }));
      return of && several && stacked
        ? [{ of: "all", is: inUnit(rateOf(of.total, of, data), data.unit, data.level) }, ...lines]
        : lines;
    },
  };
}

export function nameOf(label: unknown): string {
  return typeof label === "string" ? (label === "<other>" ? "others" : readable(label)) : "";
}

/** Positions of letters where series can be distinguished: for lines side by side, so that letters do not overlap; in a stack where a series is thickest. */
function labels({ series, top, cols, recorded }: Drawing, stacked: boolean): { x: number; y: number; text: string }[] {
  const own = series.filter(({ key }) => key !== null);
  return own.flatMap((one, nth) => {
    let [best, at] = [-1, -1];
    for (let column = 0; column < cols; column += 1) {
      if (!recorded(column)) continue;
      const x = (column + 0.5) / cols;
      const weight = stacked
        ? one.values[column]! * (x > 0.04 && x < 0.96 ? 1 : 0.5)
        : 2 - Math.abs(x - (nth + 0.5) / own.length);
      if (weight > best) [best, at] = [weight, column];
    }
    if (at < 0) return [];
    const below = stacked ? own.slice(0, nth).reduce((sum, other) => sum + other.values[at]!, 0) : 0;
    const value = one.values[at]!;
    if (stacked && value / top < 0.05) return [];
    return [
      {
        x: (at + 0.5) / cols,
        y: stacked ? (below + value / 2) / top - 0.018 : value / top + 0.02,
        text: LETTERS[nth] ?? "",
      },
    ];
  });
}
