//! The contents of a worksheet, and their encoding in an address:
//! `/analytics?span=60&g=nfs3.ops[latency]&v=&g=nfs3.ops[client]&v=kind%3Dline`.
//!
//! Each graph is a `g` (its statistic) and a `v` (its view, as a query string; only what differs
//! from the default). A saved worksheet stores the same two.

import type { Schemas } from "../api/client";
import { isLive, LONGEST, SHORTEST, type Span } from "./time";

export const COLORINGS = ["rank", "linear", "log"] as const;
export const PALETTES = ["cividis", "viridis", "inferno", "grey", "classic"] as const;
export const OUTLIERS = ["5", "1", "0.1", "0.01", "none"] as const;
export type Coloring = (typeof COLORINGS)[number];
export type PaletteName = (typeof PALETTES)[number];
export type Outliers = (typeof OUTLIERS)[number];

export interface View {
  /** For a breakdown by names. */
  kind: "stacked" | "line";
  scale: "linear" | "log";
  coloring: Coloring;
  palette: PaletteName;
  outliers: Outliers;
  /** For a heat map: the only visible range, as selected. */
  band: readonly [low: number, high: number] | null;
  /** Selected values, or lower bounds of ranges. */
  selected: readonly string[];
  /** The graph's own time range, if it does not follow the worksheet's. */
  own: Span | null;
  /** Whether colours keep the scale that they had when it was pinned. */
  pin: boolean;
  table: boolean;
  tree: boolean;
}

export interface Graph {
  readonly id: number;
  readonly name: string;
  readonly view: View;
}
export interface Worksheet {
  readonly span: Span;
  readonly graphs: readonly Graph[];
}

export const VIEW: View = {
  kind: "stacked",
  scale: "linear",
  coloring: "rank",
  palette: "cividis",
  outliers: "0.1",
  band: null,
  selected: [],
  own: null,
  pin: false,
  table: false,
  tree: false,
};
export const SPAN: Span = { last: 60 };
/** More graphs could neither be read nor updated each second. */
export const MOST_GRAPHS = 24;
const MOST_SELECTED = 200;

const oneOf = <T extends string>(value: string | null, all: readonly T[], usual: T): T =>
  all.includes(value as T) ? (value as T) : usual;
const whole = (value: string | null): number | null =>
  value !== null && /^\d{1,16}$/.test(value) ? Number(value) : null;

export function spanText(span: Span): Record<string, string> {
  return isLive(span) ? { span: String(span.last) } : { from: String(span.from), to: String(span.to) };
}

export function spanOf(query: URLSearchParams): Span | null {
  const [last, from, to] = [whole(query.get("span")), whole(query.get("from")), whole(query.get("to"))];
  if (from !== null && to !== null && to > from && to - from <= LONGEST) return { from, to };
  return last === null ? null : { last: Math.min(LONGEST, Math.max(SHORTEST, last)) };
}

export function viewText(view: View): string {
  const query = new URLSearchParams();
  for (const name of ["kind", "scale", "coloring", "palette", "outliers"] as const)
    if (view[name] !== VIEW[name]) query.set(name, view[name]);
  if (view.band) query.set("band", view.band.join("-"));
  for (const name of ["pin", "table", "tree"] as const) if (view[name]) query.set(name, "1");
  if (view.own) for (const [name, value] of Object.entries(spanText(view.own))) query.set(name, value);
  for (const value of view.selected) query.append("s", value);
  return query.toString();
}

export function viewOf(text: string): View {
  const query = new URLSearchParams(text);
  const [low, high] = (query.get("band") ?? "").split("-").map((part) => whole(part));
  return {
    kind: oneOf(query.get("kind"), ["stacked", "line"], VIEW.kind),
    scale: oneOf(query.get("scale"), ["linear", "log"], VIEW.scale),
    coloring: oneOf(query.get("coloring"), COLORINGS, VIEW.coloring),
    palette: oneOf(query.get("palette"), PALETTES, VIEW.palette),
    outliers: oneOf(query.get("outliers"), OUTLIERS, VIEW.outliers),
    band: low != null && high != null && high > low ? [low, high] : null,
    selected: query.getAll("s").slice(0, MOST_SELECTED),
    own: spanOf(query),
    pin: query.get("pin") === "1",
    table: query.get("table") === "1",
    tree: query.get("tree") === "1",
  };
}

/** Decodes a worksheet from an address. Graphs are numbered by position. */
export function read(query: URLSearchParams): Worksheet {
  const views = query.getAll("v");
  const graphs = query
    .getAll("g")
    .slice(0, MOST_GRAPHS)
    .map((name, id): Graph => ({ id, name, view: viewOf(views[id] ?? "") }));
  return { span: spanOf(query) ?? SPAN, graphs };
}

export function write({ span, graphs }: Worksheet): URLSearchParams {
  const query = new URLSearchParams(spanText(span));
  for (const { name, view } of graphs) {
    query.append("g", name);
    query.append("v", viewText(view));
  }
  return query;
}

/** The stored form of a worksheet: the same values as in the address. */
export function toSaved({ span, graphs }: Worksheet): Pick<Schemas["SaveWorksheet"], "span" | "graphs"> {
  return {
    span: isLive(span) ? { seconds: span.last } : { from: span.from, to: span.to },
    graphs: graphs.map(({ name, view }) => ({ name, view: { v: viewText(view) } })),
  };
}

export function fromSaved({ span, graphs }: Pick<Schemas["Worksheet"], "span" | "graphs">): Worksheet {
  const { seconds, from, to } = span;
  const text = (value: unknown) => (typeof value === "string" ? value : "");
  return {
    span:
      from != null && to != null && to > from
        ? { from, to }
        : { last: Math.min(LONGEST, Math.max(SHORTEST, seconds ?? 60)) },
    graphs: graphs.slice(0, MOST_GRAPHS).map(({ name, view }, id) => ({ id, name, view: viewOf(text(view?.v)) })),
  };
}
