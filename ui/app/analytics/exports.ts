//! Parameters with which the server draws the current view.

import { axisOf, parse } from "./name";
import type { Theme } from "./paint";
import type { Extent } from "./time";
import type { Graph } from "./worksheet";

/** The finest vertical resolution of heat maps. */
export const ROWS = 100;

/** Parameters of `/v1/analytics/picture`. Pinned colours and selected values exist only on the page. */
export function pictureQuery(
  { name, view }: Pick<Graph, "name" | "view">,
  extent: Extent,
  theme: Theme,
  width: number,
  height: number,
): Record<string, string | number | undefined> {
  const all = {
    name,
    from: extent.from,
    to: extent.to,
    step: extent.step,
    width: Math.round(width),
    height: Math.round(height),
    theme,
  };
  if (axisOf(parse(name)?.breakdown ?? null) === null)
    return { ...all, shape: view.kind === "line" ? "lines" : "stacked" };
  const { palette, coloring, scale, outliers, band } = view;
  return {
    ...all,
    rows: Math.min(ROWS, Math.round(height)),
    palette,
    coloring,
    scale,
    outliers,
    low: band?.[0],
    high: band?.[1],
  };
}
