//! Formats alerts as text, and parses them.

import type { Schemas } from "../api/client";
import { axisOf, parse } from "./name";

type Rule = Schemas["AlertRule"];

const TIMES = { ns: 1, us: 1000, ms: 1_000_000, s: 1_000_000_000 } as const;

/** Parses `20ms`, `1.5s`, `5000`, `-1` to the number that the API takes; null if invalid. */
export function limitOf(text: string): number | null {
  const found = /^\s*(-?\d+(?:\.\d+)?)\s*(ns|us|ms|s)?\s*$/.exec(text);
  if (!found) return null;
  return Number(found[1]) * TIMES[(found[2] ?? "ns") as keyof typeof TIMES];
}

/** Formats a limit; a time in the largest unit that divides it. */
export function limitText({ statistic, reduction, limit }: Pick<Rule, "statistic" | "reduction" | "limit">): string {
  if (reduction === "total" || axisOf(parse(statistic)?.breakdown ?? null) !== "ns" || limit <= 0) return String(limit);
  const unit = (Object.keys(TIMES) as (keyof typeof TIMES)[]).findLast((name) => limit % TIMES[name] === 0) ?? "ns";
  return `${limit / TIMES[unit]} ${unit}`;
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
