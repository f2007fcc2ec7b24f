//! Properties of vdev layouts, for choosing one.

import type { Schemas } from "../api/client";

type Layout = Schemas["Layout"];
const PARITY: Record<Layout, number> = { single: 0, mirror: 0, raidz1: 1, raidz2: 2, raidz3: 3 };

export interface LayoutFacts {
  /** Minimum number of devices. */
  least: number;
  /** Number of devices that may fail without data loss. */
  mayFail: number;
  /** Usable bytes, roughly: without padding and the space that ZFS reserves (1/32). */
  usable: number | null;
  sentence: string;
}

export function layoutFacts(layout: Layout, devices: number, eachBytes: number | null): LayoutFacts {
  const parity = PARITY[layout];
  const least = layout === "single" ? 1 : layout === "mirror" ? 2 : parity + 1;
  const holding = layout === "mirror" ? 1 : Math.max(0, devices - parity);
  const mayFail = layout === "mirror" ? Math.max(0, devices - 1) : parity;
  const enough = devices >= least;
  const usable = enough && eachBytes !== null ? holding * eachBytes : null;
  const share = devices > 0 ? Math.round((holding / devices) * 100) : 0;
  const failure =
    mayFail === 0
      ? "No redundancy: the loss of one device is the loss of the pool."
      : `Any ${mayFail === 1 ? "one device" : `${mayFail} devices`} may fail.`;
  return {
    least,
    mayFail,
    usable,
    sentence: enough
      ? `${failure} ${share}% of the space holds data.`
      : `Needs at least ${least} ${least === 1 ? "device" : "devices"}.`,
  };
}
