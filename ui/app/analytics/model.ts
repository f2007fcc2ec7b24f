//! Converts the data of a graph to its presentation: the figure, and the list next to it.

import { columnAt, figure as inUnit, isRange, rateOf, values, type Column, type Data } from "./data";
import { ROWS } from "./exports";
import { LETTERS, heatFigure, nameOf, rangeText, seriesFigure, type Figure } from "./figure";
import { HeatMap, inBuckets, type Cells, type Look } from "./heatmap";
import { axisOf, parse, type Axis } from "./name";
import { css, type Theme } from "./paint";
import type { Scale } from "./rank";
import { buckets, schemeOf } from "./scheme";
import { series, SPECIAL } from "./series";
import type { Extent } from "./time";
import { readable } from "./words";
import type { View } from "./worksheet";
import type { Row } from "./Breakdown.svelte";

export interface Shown {
  readonly figure: Figure;
  readonly axis: Axis | null;
  readonly rows: readonly Row[];
  /** Total of the visible data, per second. */
  readonly average: number;
  /** The share of the selected values. */
  readonly chosen: string;
  readonly legend: readonly { count: number; colour: string }[];
}

/** Builds the successive pictures of one graph, and reuses parts of the previous one. */
export class Model {
  #map: HeatMap | null = null;
  #scheme = "";
  #columns: readonly Column[] = [];
  #extent: Extent | null = null;
  #look: Look | null = null;
  #scale: Scale | null = null;
  readonly #known = new Map<number, number>();

  show(data: Data, extent: Extent, view: View, theme: Theme, height: number, pinned: number | null): Shown {
    const name = parse(data.name);
    const axis = axisOf(name?.breakdown ?? null);
    return axis
      ? this.#heat(data, extent, view, theme, height, pinned, axis, name!.breakdown!)
      : this.#series(data, extent, view, theme, pinned);
  }

  #heat(
    data: Data,
    extent: Extent,
    view: View,
    theme: Theme,
    height: number,
    pinned: number | null,
    axis: Axis,
    field: string,
  ): Shown {
    const scheme = schemeOf(field, axis);
    if (!this.#map || this.#scheme !== data.name) {
      this.#map = null;
      this.#scheme = data.name;
      this.#known.clear();
      this.#scale = null;
    }
    const look: Look = {
      log: view.scale === "log",
      outliers: view.outliers,
      band: view.band,
      coloring: view.coloring,
      rows: Math.min(ROWS, height),
      pin: view.pin ? this.#scale : null,
    };
    const map = (this.#map ??= new HeatMap(buckets(scheme), look));
    this.#take(map, data, extent, look);
    if (view.pin && !this.#scale) {
      this.#scale = map.ranks.scale();
      this.#look = { ...look, pin: this.#scale };
      map.look(this.#look);
    } else if (!view.pin) this.#scale = null;

    const chosen = new Set(view.selected);
    const column = pinned === null ? undefined : columnAt(data, pinned);
    const sums = this.#sums(
      map,
      column ? [column] : data.columns.filter(({ start }) => start >= extent.from && start < extent.to),
      data,
    );
    const largest = Math.max(1e-9, ...sums.counts);
    const rows: Row[] = [];
    const bands: [number, number][] = [];
    let picked = 0;
    for (let row = map.rows - 1; row >= 0; row -= 1) {
      const count = sums.counts[row]!;
      const { from, to } = map.range(row);
      const id = String(from);
      if (chosen.has(id)) {
        picked += count;
        bands.push([from, Number.isFinite(to) ? to : map.layout.high]);
      }
      if (count > 0 || chosen.has(id))
        rows.push({
          id,
          name: rangeText(from, to, axis),
          value: inUnit(count, data.unit, data.level),
          share: count / largest,
        });
    }
    return {
      axis,
      rows,
      average: sums.total,
      figure: heatFigure(map, axis, data, extent, { palette: view.palette, theme, bands }),
      chosen:
        chosen.size > 0
          ? `Chosen: ${inUnit(picked, data.unit, data.level)} of ${inUnit(sums.total, data.unit, data.level)}${sums.total > 0 ? ` (${((picked / sums.total) * 100).toFixed(2)} %)` : ""}`
          : `All: ${inUnit(sums.total, data.unit, data.level)}`,
      legend: map.ranks.legend(8).map(({ count, index }) => ({ count, colour: css(view.palette, theme, index) })),
    };
  }

  /** Updates the map; appends one column if nothing else is new. */
  #take(map: HeatMap, data: Data, extent: Extent, look: Look): void {
    const before = this.#extent;
    const cols = Math.max(1, Math.round((extent.to - extent.from) / extent.step));
    const sameLook =
      this.#look !== null &&
      JSON.stringify({ ...this.#look, pin: null }) === JSON.stringify({ ...look, pin: null }) &&
      this.#look.pin === look.pin;
    const moved =
      before && before.step === extent.step && before.to - before.from === extent.to - extent.from
        ? (extent.to - before.to) / extent.step
        : NaN;
    const newest = this.#columns.at(-1);
    // Only columns after the newest one of the map: columns are never changed in place.
    const later = newest ? data.columns.filter(({ start }) => start > newest.start) : [];
    const untouched = data.columns.at(-1 - later.length) === newest;
    if (sameLook && moved === 0 && later.length === 0 && untouched && map.cols === cols) return;
    if (
      sameLook &&
      moved > 0 &&
      moved < 16 &&
      later.length === moved &&
      untouched &&
      map.cols === cols &&
      later[0]!.start === before!.to
    ) {
      for (const column of later) map.push(inBuckets(column.cells, data.keys, map.buckets, this.#known));
    } else {
      const columns = new Array<Cells>(cols).fill(null);
      for (const column of data.columns) {
        const at = (column.start - extent.from) / extent.step;
        if (at >= 0 && at < cols)
          columns[Math.floor(at)] = inBuckets(column.cells, data.keys, map.buckets, this.#known);
      }
      map.set(columns, look);
    }
    this.#extent = extent;
    this.#columns = data.columns;
    this.#look = look;
  }

  #sums(map: HeatMap, columns: readonly Column[], data: Data): { counts: Float64Array; total: number } {
    const counts = new Float64Array(map.rows);
    let [total, seconds] = [0, 0];
    for (const column of columns) {
      seconds += column.seconds;
      total += column.total;
      const cells = inBuckets(column.cells, data.keys, map.buckets, this.#known);
      for (let at = 0; at + 1 < cells.length; at += 2) {
        const row = map.layout.row[cells[at]!]!;
        if (row >= 0) counts[row]! += cells[at + 1]!;
      }
    }
    const over = Math.max(1, seconds);
    return { counts: counts.map((count) => count / over), total: total / over };
  }

  #series(data: Data, extent: Extent, view: View, theme: Theme, pinned: number | null): Shown {
    const all = values(data, extent.from, extent.to);
    const ids = new Map(all.values.map(({ key, label }) => [labelId(label, key), key]));
    const chosen = new Set(view.selected.flatMap((id) => (ids.has(id) ? [ids.get(id)!] : [])));
    const stacked = view.kind === "stacked";
    const drawing = series(data, extent.from, extent.to, stacked, chosen.size > 0 ? chosen : null);
    const place = new Map(drawing.series.map(({ key }, nth) => [key, nth]));
    const column = pinned === null ? undefined : columnAt(data, pinned);
    const now = new Map<number, number>();
    if (column)
      for (let at = 0; at + 1 < column.cells.length; at += 2) now.set(column.cells[at]!, column.cells[at + 1]!);
    const figureOf = (key: number, average: number) => (column ? rateOf(now.get(key) ?? 0, column, data) : average);
    const largest = Math.max(1e-9, ...all.values.map(({ key, average }) => figureOf(key, average)));
    let picked = 0;
    const rows = all.values.map(({ key, label, average }): Row => {
      const figure = figureOf(key, average);
      if (chosen.has(key)) picked += figure;
      const nth = place.get(key);
      return {
        id: labelId(label, key),
        name: key >= SPECIAL ? nameOf("<other>") : typeof label === "string" ? readable(label) : "",
        value: inUnit(figure, data.unit, data.level),
        share: figure / largest,
        ...(nth === undefined ? {} : { letter: LETTERS[nth] ?? "", colour: css("series", theme, nth) }),
      };
    });
    const average = column ? rateOf(column.total, column, data) : all.average;
    return {
      axis: null,
      rows,
      average,
      legend: [],
      figure: seriesFigure(drawing, stacked, data, extent, theme),
      chosen:
        chosen.size > 0
          ? `Chosen: ${inUnit(picked, data.unit, data.level)} of ${inUnit(average, data.unit, data.level)}`
          : `All: ${inUnit(average, data.unit, data.level)}`,
    };
  }
}

const labelId = (label: unknown, key: number): string => (typeof label === "string" ? label : `#${key}`);

/** Percentiles of a column, each rounded up to the end of its bucket: the table view of a heat map. */
export function percentiles(data: Data, column: Column, parts: readonly number[]): (number | null)[] {
  const cells: [number, number][] = [];
  let total = 0;
  for (let at = 0; at + 1 < column.cells.length; at += 2) {
    const key = data.keys.get(column.cells[at]!);
    if (!isRange(key)) continue;
    cells.push([key.to ?? key.from, column.cells[at + 1]!]);
    total += column.cells[at + 1]!;
  }
  cells.sort(([a], [b]) => a - b);
  return parts.map((part) => {
    let sum = 0;
    for (const [to, count] of cells) {
      sum += count;
      if (sum >= part * total) return to;
    }
    return null;
  });
}
