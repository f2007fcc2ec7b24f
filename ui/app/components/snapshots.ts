//! Snapshots of a dataset: search, and short specifications of many of them.

import { parentName } from "./names";

/** The part after the '@'. */
export function shortName(snapshot: string): string {
  return snapshot.slice((parentName(snapshot)?.length ?? -1) + 1);
}

/** Snapshots whose names contain all words. */
export function findSnapshots<T extends { name: string }>(all: readonly T[], find: string): readonly T[] {
  const words = find.toLowerCase().split(/\s+/).filter(Boolean);
  return words.length === 0
    ? all
    : all.filter((one) => words.every((word) => shortName(one.name).toLowerCase().includes(word)));
}

/** `chosen` as `zfs destroy` takes them after the '@': neighbours in `all` (oldest first) become ranges, "a%d". */
export function specOf(all: readonly { name: string }[], chosen: readonly { name: string }[]): string {
  const wanted = new Set(chosen.map((one) => one.name));
  const parts: string[] = [];
  for (let at = 0; at < all.length; at += 1) {
    if (!wanted.has(all[at]!.name)) continue;
    const first = at;
    while (at + 1 < all.length && wanted.has(all[at + 1]!.name)) at += 1;
    parts.push(first === at ? shortName(all[at]!.name) : `${shortName(all[first]!.name)}%${shortName(all[at]!.name)}`);
  }
  return parts.join(",");
}

/** Maximum length of a specification in bytes that the server accepts. */
export const SPEC_BYTES = 8192;
