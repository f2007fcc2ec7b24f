//! Formats alerts as text, and parses them.

import type { Schemas } from "../api/client";
import { bytes, parseBytes } from "../ui/format";
import type { Statistic } from "./catalogue.svelte";
import { axisOf, parse } from "./name";

type Rule = Schemas["AlertRule"];
type Reduction = Schemas["AlertReduction"];

const TIMES = { ns: 1, us: 1000, ms: 1_000_000, s: 1_000_000_000 } as const;

/** What can be compared of a statistic: averages and percentiles of heat maps, the largest of other breakdowns. */
export function reductionsOf(statistic: string): Reduction[] {
  const breakdown = parse(statistic)?.breakdown ?? null;
  if (breakdown === null) return ["total"];
  return axisOf(breakdown) ? ["total", "average", "percentile"] : ["total", "largest"];
}

/** The unit of a rule's limit, as the server determines it; empty if the statistic is not known. */
export function unitOf(
  { statistic, reduction }: Pick<Rule, "statistic" | "reduction">,
  known: Statistic | undefined,
): string {
  const axis = axisOf(parse(statistic)?.breakdown ?? null);
  if (axis && (reduction === "average" || reduction === "percentile")) return axis;
  return known ? `${known.unit}${known.level ? "" : "/s"}` : "";
}

/** Parses `20ms`, `1.5s` (unit ns), `8K` (bytes), `80 %` or `5000` to the number that the API takes; null if invalid. */
export function limitOf(text: string, unit: string): number | null {
  if (unit === "bytes" || unit === "bytes/s") {
    const found = parseBytes(text);
    if (found !== null) return found;
  }
  const found = /^\s*(-?\d+(?:\.\d+)?)\s*(ns|us|ms|s|%)?\s*$/.exec(text);
  if (!found) return null;
  const suffix = found[2];
  if (suffix === undefined) return Number(found[1]);
  if (suffix === "%") return unit === "percent" ? Number(found[1]) : null;
  return unit === "ns" ? Number(found[1]) * TIMES[suffix as keyof typeof TIMES] : null;
}

/** A hint for the field of the limit. */
export function limitHint(unit: string): string {
  if (unit === "ns") return "A time such as 20ms or 1.5s.";
  if (unit === "bytes" || unit === "bytes/s") return `In ${unit}; K, M, G and T are accepted.`;
  if (unit === "percent") return "In percent.";
  return unit ? `In ${unit}.` : "A number in the unit of the statistic.";
}

/** A limit for editing, exactly: a time in the largest unit that divides it. */
export function limitInput(limit: number, unit: string): string {
  if (unit !== "ns" || limit <= 0) return String(limit);
  const found = (Object.keys(TIMES) as (keyof typeof TIMES)[]).findLast((name) => limit % TIMES[name] === 0) ?? "ns";
  return `${limit / TIMES[found]}${found}`;
}

/** A limit or value with its unit: `20 ms`, `80 %`, `1.50G/s`, `5 ops/s`. */
export function valueText(value: number, unit: string): string {
  if (unit === "ns" && value > 0) return limitInput(Math.round(value), unit).replace(/([a-z]+)$/, " $1");
  if (unit === "bytes") return bytes(value);
  if (unit === "bytes/s") return `${bytes(value)}/s`;
  const digits = Number(value.toFixed(3));
  return unit === "percent" ? `${digits} %` : `${digits} ${unit}`.trimEnd();
}

export function reductionText({ reduction, percentile }: Pick<Rule, "reduction" | "percentile">): string {
  return reduction === "percentile" ? `p${percentile ?? ""}` : reduction;
}

/** The receivers of an alert. */
export function actionsOf({
  webhooks,
  mail,
  syslog,
}: {
  webhooks: string;
  mail: string;
  syslog: boolean;
}): Schemas["AlertAction"][] {
  const words = (text: string) => text.split(/[\s,]+/).filter((word) => word !== "");
  const to = words(mail);
  return [
    ...words(webhooks).map((url) => ({ kind: "webhook", url }) as const),
    ...(to.length > 0 ? [{ kind: "mail", to } as const] : []),
    ...(syslog ? [{ kind: "syslog" } as const] : []),
  ];
}

/** The fields of the form for these receivers. */
export function receiversOf(actions: readonly Schemas["AlertAction"][]): {
  webhooks: string;
  mail: string;
  syslog: boolean;
} {
  return {
    webhooks: actions.flatMap((action) => (action.kind === "webhook" ? [action.url] : [])).join("\n"),
    mail: actions.flatMap((action) => (action.kind === "mail" ? action.to : [])).join(" "),
    syslog: actions.some(({ kind }) => kind === "syslog"),
  };
}
