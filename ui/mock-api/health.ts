//! The verdict on the pools of the mock, and its built-in alerts.

import type { Schemas } from "../app/api/client";
import { catalogue } from "./analytics";
import type { State } from "./data";
import { seconds } from "./route";

type Reason = Schemas["HealthReason"];
type Alert = Schemas["Alert"];

const bad = (device: Schemas["Device"]): Schemas["Device"][] =>
  device.children.length > 0
    ? device.children.flatMap(bad)
    : ["ONLINE", "AVAIL", "INUSE"].includes(device.state)
      ? []
      : [device];

export function healthOf(state: State, alerts: readonly Alert[]): Schemas["SystemHealth"] {
  const devices = state.pools.flatMap((pool) =>
    bad(pool.devices).map((device): Reason => ({
      severity: "serious",
      kind: "device",
      subject: `${pool.name}: ${device.name}`,
      what: `The device is ${device.state}${device.reason ? ` (${device.reason})` : ""}. mirror-0 has no redundancy left: the loss of another device loses data.`,
      action: pool.health.action,
      link: `/pools/${pool.name}`,
    })),
  );
  const space = state.pools.flatMap((pool): Reason[] => {
    const percent = Math.floor((pool.used_bytes / (pool.used_bytes + pool.available_bytes)) * 100);
    if (percent <= 80) return [];
    return [
      {
        severity: percent > 90 ? "serious" : "attention",
        kind: "space",
        subject: pool.name,
        what: `${percent} % of the usable space is used. Writes become slower as a pool fills.`,
        action: "Destroy snapshots or data that are not needed, or add devices.",
        link: `/pools/${pool.name}`,
      },
    ];
  });
  const firing = alerts
    .filter(({ rule }) => !rule.suspended && (rule.silent_until ?? 0) <= seconds())
    .filter(({ builtin }) => ![...devices, ...space].some(({ kind }) => kind === builtin))
    .flatMap(({ rule, firing_since, last_value, unit }): Reason[] =>
      firing_since
        ? [
            {
              severity: "attention",
              kind: "alert",
              subject: rule.title,
              what: `The alert fires: ${last_value} ${unit}, ${rule.side} ${rule.limit} ${unit}.`,
              since: firing_since,
              link: "/analytics/alerts",
            },
          ]
        : [],
    );
  const reasons = [...devices, ...space, ...firing].sort((a, b) => rank(b) - rank(a));
  return { verdict: reasons[0]?.severity ?? "good", reasons };
}

const rank = ({ severity }: Reason) => (severity === "serious" ? 2 : 1);

/** The unit of a rule's limit. */
export function unitOf({ statistic, reduction }: Schemas["AlertRule"]): string {
  const found = catalogue.find(({ name }) => statistic.startsWith(name));
  if (reduction === "average" || reduction === "percentile") return statistic.endsWith("[latency]") ? "ns" : "bytes";
  return found ? `${found.unit}${found.level ? "" : "/s"}` : "";
}

const rule = (title: string, statistic: string, limit: number, more: Partial<Schemas["AlertRule"]> = {}) => ({
  title,
  statistic,
  reduction: "total" as const,
  side: "above" as const,
  limit,
  for_seconds: 60,
  clear_seconds: 60,
  suspended: false,
  actions: [],
  ...more,
});

/** Some of the daemon's built-in alerts. */
export function builtIn(): Alert[] {
  const alert = (id: number, builtin: Schemas["HealthKind"], of: Schemas["AlertRule"]): Alert => ({
    id,
    rule: of,
    owner: "weir",
    builtin,
    unit: unitOf(of),
    waiting: 0,
  });
  return [
    alert(1, "device", rule("Devices need attention", "health.devices", 0)),
    alert(2, "space", rule("A pool is more than 80 % full", "cap.percentfull[pool]", 80, { reduction: "largest" })),
    alert(3, "certificate", rule("The certificate expires", "health.certificatedays", 14, { side: "below" })),
  ];
}
