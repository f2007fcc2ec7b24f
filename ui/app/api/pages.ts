//! Loads paginated lists completely.

import { get, type Schemas } from "./client";

/** All datasets of some kinds, passed on as they arrive: 100,000 take 100 requests, and the first thousand is shown immediately. */
export async function allDatasets(
  query: { root?: string; kind?: string; depth?: number; search?: string },
  signal: AbortSignal,
  onpage: (sofar: Schemas["Dataset"][], complete: boolean) => void,
): Promise<Schemas["Dataset"][]> {
  const all: Schemas["Dataset"][] = [];
  let cursor: string | undefined;
  do {
    const page: Schemas["DatasetList"] = await get("/v1/datasets", {
      query: { ...query, limit: 1000, cursor },
      signal,
    });
    for (const dataset of page.items) all.push(dataset);
    cursor = page.next ?? undefined;
    onpage(all, cursor === undefined);
  } while (cursor !== undefined);
  return all;
}
