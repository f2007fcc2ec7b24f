//! Names of statistics, as parsed by `appliance/analytics`: `nfs3.ops[op=write][client]`.
//!
//! Brackets with `=` are filters; the last one without is the breakdown. In values, `]` and `\` are
//! escaped with `\`.

export interface Predicate {
  readonly field: string;
  readonly value: string;
}
export interface Name {
  readonly raw: string;
  readonly predicates: readonly Predicate[];
  readonly breakdown: string | null;
}

/** The parts of a name; null if it is invalid. The server knows which fields exist. */
export function parse(text: string): Name | null {
  const head = /^[a-z0-9_-]+\.[a-z0-9_-]+/.exec(text)?.[0];
  if (!head) return null;
  const predicates: Predicate[] = [];
  let breakdown: string | null = null;
  let at = head.length;
  while (at < text.length) {
    if (text[at] !== "[" || breakdown !== null) return null;
    let inner = "";
    at += 1;
    while (at < text.length && text[at] !== "]") {
      if (text[at] === "\\") at += 1;
      if (at < text.length) inner += text[at];
      at += 1;
    }
    if (at >= text.length) return null;
    at += 1;
    const equals = inner.indexOf("=");
    if (equals < 0) breakdown = inner;
    else predicates.push({ field: inner.slice(0, equals), value: inner.slice(equals + 1) });
  }
  return { raw: head, predicates, breakdown };
}

export function text({ raw, predicates, breakdown }: Name): string {
  const narrowed = predicates.map(({ field, value }) => `[${field}=${value.replace(/[\\\]]/g, "\\$&")}]`);
  return raw + narrowed.join("") + (breakdown === null ? "" : `[${breakdown}]`);
}

/** Adds a filter and the breakdown `by`. A second value for a field replaces the first. */
export function drill(name: Name, field: string, value: string, by: string | null): Name {
  return {
    raw: name.raw,
    predicates: [...name.predicates.filter((predicate) => predicate.field !== field), { field, value }],
    breakdown: by,
  };
}

/** The unit of a field's numbers. Fields with names have none. */
export type Axis = "ns" | "bytes" | "percent";

export function axisOf(field: string | null): Axis | null {
  switch (field) {
    case "latency":
    case "queuewait":
    case "logwait":
    case "txgwait":
    case "diskwait":
      return "ns";
    case "size":
    case "offset":
      return "bytes";
    case "utilization":
      return "percent";
    default:
      return null;
  }
}

const FACTORS: Record<Axis, readonly (readonly [string, number])[]> = {
  ns: [
    ["s", 1e9],
    ["ms", 1e6],
    ["us", 1e3],
    ["ns", 1],
  ],
  bytes: [
    ["T", 1024 ** 4],
    ["G", 1024 ** 3],
    ["M", 1024 ** 2],
    ["K", 1024],
    ["", 1],
  ],
  percent: [["", 1]],
};

/** The shortest exact notation of a number of an axis, in the syntax of names. */
export function exactly(value: number, axis: Axis): string {
  for (const [unit, factor] of FACTORS[axis])
    if (value !== 0 && value % factor === 0) return `${value / factor}${unit}`;
  return String(value);
}

/** The value of a filter for numbers from `low` to `high` (exclusive; null: open-ended). */
export function range(low: number, high: number | null, axis: Axis): string {
  return `${exactly(low, axis)}..${high === null ? "" : exactly(high, axis)}`;
}

/** A number of an axis for display: at most three digits. */
export function shown(value: number, axis: Axis): string {
  if (axis === "percent") return `${digits(value)} %`;
  if (value === 0) return axis === "ns" ? "0" : "0 B";
  if (axis === "ns") {
    for (const [unit, factor] of [
      ["s", 1e9],
      ["ms", 1e6],
      ["µs", 1e3],
    ] as const)
      if (value >= factor) return `${digits(value / factor)} ${unit}`;
    return `${digits(value)} ns`;
  }
  for (const [unit, factor] of [
    ["TiB", 1024 ** 4],
    ["GiB", 1024 ** 3],
    ["MiB", 1024 ** 2],
    ["KiB", 1024],
  ] as const)
    if (value >= factor) return `${digits(value / factor)} ${unit}`;
  return `${digits(value)} B`;
}

function digits(value: number): string {
  const places = value >= 99.95 || Number.isInteger(value) ? 0 : value >= 9.995 ? 1 : 2;
  return String(Number(value.toFixed(places)));
}
