//! Rules for snapshots in the syntax of properties: `weir:snapshot-hourly=24`, `24,only`, `0`.

export const LABELS = [
  { name: "frequent", every: "each quarter of an hour", usual: 4 },
  { name: "hourly", every: "each hour", usual: 24 },
  { name: "daily", every: "each day", usual: 31 },
  { name: "weekly", every: "each week, on Monday", usual: 8 },
  { name: "monthly", every: "each month, on the first", usual: 12 },
] as const;
export type Label = (typeof LABELS)[number]["name"];

export const propertyOf = (label: Label) => `weir:snapshot-${label}`;

export interface Rule {
  keep: number;
  only: boolean;
  /** Set on this dataset itself. */ here: boolean;
  from: string;
  /** Why it takes none. */ refused: boolean;
}
interface Property {
  name: string;
  value: string;
  source: string;
  inherited_from?: string | null;
}

/** Parses "24,only": 24 snapshots of this dataset only. Null if it is not a rule. */
export function parseRule(value: string): { keep: number; only: boolean } | null {
  const match = /^(\d{1,6}|none|off)(,only)?$/.exec(value);
  if (!match) return null;
  const keep = match[1] === "none" || match[1] === "off" ? 0 : Number(match[1]);
  return keep > 100_000 ? null : { keep, only: match[2] !== undefined };
}

/** The rule that applies to a dataset. Received properties do not count, and `only` is not inherited. */
export function ruleOf(properties: readonly Property[], dataset: string, label: Label): Rule | null {
  const found = properties.find((property) => property.name === propertyOf(label));
  const rule = found && (found.source === "local" || found.source === "inherited") ? parseRule(found.value) : null;
  if (!found || !rule || (rule.only && found.source !== "local")) return null;
  const no = (name: string) =>
    properties.some((property) => property.name === name && property.value.toLowerCase() === "false");
  return {
    ...rule,
    here: found.source === "local",
    from: found.inherited_from ?? dataset,
    refused: no("com.sun:auto-snapshot") || no(`com.sun:auto-snapshot:${label}`),
  };
}

/** "24 hourly, 31 daily"; "" if no snapshots are taken. */
export function summary(properties: readonly Property[], dataset: string): string {
  const parts = LABELS.map(({ name }) => ({ name, rule: ruleOf(properties, dataset, name) })).filter(
    ({ rule }) => rule && rule.keep > 0 && !rule.refused,
  );
  return parts.map(({ name, rule }) => `${rule!.keep} ${name}`).join(", ");
}
