//! Pixels. Pictures are built as integers (a colour's index, a series, nothing, hatched), as in the
//! tests and on the server, and then looked up in a table of colours.

import { HATCH, NOTHING, type HeatMap } from "./heatmap";
import tables from "./palettes.json";
import type { PaletteName } from "./worksheet";

export type Theme = "light" | "dark";

/** Red, green, blue, opaque, in the byte order of image data. */
const rgba = (hex: string): number => {
  const value = parseInt(hex, 16);
  return ((255 << 24) | ((value & 0xff) << 16) | (value & 0xff00) | (value >> 16)) >>> 0;
};

/** Colours by number; the last two are the background and the hatch. */
export function colours(palette: PaletteName | "series", theme: Theme): Uint32Array {
  const table = new Uint32Array(258);
  const list: readonly string[] = palette === "series" ? tables.series[theme] : tables.palettes[palette];
  for (let index = 0; index < 256; index += 1) {
    const entry =
      palette === "series" ? list[Math.min(index, list.length - 1)]! : list[theme === "light" ? 255 - index : index]!;
    table[index] = rgba(entry);
  }
  table[NOTHING] = rgba(tables.themes[theme].background);
  table[HATCH] = rgba(tables.themes[theme].hatch);
  return table;
}

/** In CSS syntax, for the legend and the list next to a graph. */
export function css(palette: PaletteName | "series", theme: Theme, index: number): string {
  if (palette === "series") return `#${tables.series[theme][Math.min(index, tables.series[theme].length - 1)]}`;
  return `#${tables.palettes[palette][theme === "light" ? 255 - index : index]}`;
}

/** The picture of a heat map, line by line from the top. */
export function pixels(
  map: HeatMap,
  width: number,
  height: number,
  into: Uint16Array = new Uint16Array(width * height),
): Uint16Array {
  const { cols, rows } = map;
  into.fill(NOTHING);
  if (cols === 0) return hatch(into, width, 0, width, height);
  const edges = edgesOf(cols, width);
  const cells = new Uint16Array(cols);
  const slots = map.layout.rows;
  for (let row = 0; row < rows; row += 1) {
    const bottom = Math.floor((map.layout.first[row]! * height) / slots);
    const top = Math.floor((map.layout.end[row]! * height) / slots);
    if (bottom === top) continue;
    map.row(row, cells);
    const line = (height - top) * width;
    for (let column = 0; column < cols; column += 1) {
      const index = cells[column]!;
      if (index !== NOTHING)
        for (let x = edges[column]!, end = edges[column + 1]!; x < end; x += 1) into[line + x] = index;
    }
    // The other lines of the row are identical.
    for (let y = height - top + 1; y < height - bottom; y += 1) into.copyWithin(y * width, line, line + width);
  }
  hatchMissing(into, width, height, cols, edges, (column) => map.recorded(column));
  return into;
}

/** Pixel at which each column starts, and the end of the last one. */
export function edgesOf(cols: number, width: number): Int32Array {
  return Int32Array.from({ length: cols + 1 }, (_, column) => Math.floor((column * width) / cols));
}

export function hatchMissing(
  into: Uint16Array,
  width: number,
  height: number,
  cols: number,
  edges: Int32Array,
  recorded: (column: number) => boolean,
): void {
  for (let column = 0; column < cols; column += 1)
    if (!recorded(column)) hatch(into, width, edges[column]!, edges[column + 1]!, height);
}

function hatch(into: Uint16Array, width: number, from: number, to: number, height: number): Uint16Array {
  for (let y = 0; y < height; y += 1)
    for (let x = from; x < to; x += 1) into[y * width + x] = (x + y) % 6 === 0 ? HATCH : NOTHING;
  return into;
}

/** Converts integers to image data with a table of colours. */
export function coloured(numbers: Uint16Array, table: Uint32Array, into: Uint32Array): void {
  for (let at = 0; at < numbers.length; at += 1) into[at] = table[numbers[at]!]!;
}

/** A canvas that caches its picture, so that scrolling and dragging only move it. */
export class Plate {
  readonly canvas = new OffscreenCanvas(1, 1);
  readonly #context = this.canvas.getContext("2d", { alpha: false })!;
  #image: ImageData | null = null;
  #numbers = new Uint16Array(0);

  /** Buffer for the integers of a picture of this size. */
  numbers(width: number, height: number): Uint16Array {
    if (this.#image?.width !== width || this.#image.height !== height) {
      this.canvas.width = width;
      this.canvas.height = height;
      this.#image = new ImageData(width, height);
      this.#numbers = new Uint16Array(width * height);
    }
    return this.#numbers;
  }

  show(table: Uint32Array): void {
    if (!this.#image) return;
    coloured(this.#numbers, table, new Uint32Array(this.#image.data.buffer));
    this.#context.putImageData(this.#image, 0, 0);
  }
}
