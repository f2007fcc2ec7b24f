//! Snapshots of the mock: the operations of `zfs`, applied to lists in memory.

import type { Schemas } from "../app/api/client";
import type { State } from "./data";

type Dataset = Schemas["Dataset"];

/** An error with the message of `zfs`. */
export class Refusal extends Error {
  constructor(
    readonly code: "conflict" | "not_found",
    message: string,
  ) {
    super(message);
  }
}

const part = (name: string) => name.slice(name.indexOf("@") + 1);
const headOf = (name: string) => name.split("@")[0]!;
const of = (state: State, head: string) =>
  state.datasets.filter((one) => one.kind === "snapshot" && headOf(one.name) === head);
const find = (state: State, name: string) => {
  const found = state.datasets.find((one) => one.name === name);
  if (!found) throw new Refusal("not_found", `cannot open '${name}': dataset does not exist`);
  return found;
};
const heads = (state: State, root: string, recursive: boolean) =>
  state.datasets.filter(
    (one) => !one.name.includes("@") && (one.name === root || (recursive && one.name.startsWith(`${root}/`))),
  );

export function take(state: State, { names, recursive }: Schemas["CreateSnapshots"]): Dataset[] {
  const made: Dataset[] = [];
  for (const name of names) {
    find(state, headOf(name));
    for (const head of heads(state, headOf(name), recursive ?? false)) {
      const full = `${head.name}@${part(name)}`;
      if (state.datasets.some((one) => one.name === full))
        throw new Refusal("conflict", `cannot create snapshot '${full}': dataset already exists`);
      made.push({
        ...head,
        name: full,
        kind: "snapshot",
        guid: String(6_000_000 + state.datasets.length + made.length),
        created: Math.floor(Date.now() / 1000),
        used_bytes: 0,
        available_bytes: undefined,
        quota_bytes: undefined,
        volume_bytes: undefined,
        mountpoint: undefined,
        mounted: undefined,
        origin: undefined,
        children: 0,
        snapshots: 0,
        holds: 0,
        clones: 0,
      });
      head.snapshots += 1;
    }
  }
  state.datasets.push(...made);
  return made.filter((one) => names.includes(one.name));
}

/** The snapshots that `head@a,b%c` specifies. */
export function meant(state: State, name: string, recursive: boolean): Dataset[] {
  if (!name.includes("@"))
    return [
      find(state, name),
      ...state.datasets.filter((one) => one.name.startsWith(`${name}/`) || one.name.startsWith(`${name}@`)),
    ];
  return heads(state, headOf(name), recursive).flatMap((head) => {
    const all = of(state, head.name);
    const at = (short: string) => all.findIndex((one) => part(one.name) === short);
    return part(name)
      .split(",")
      .flatMap((piece) => {
        const [first, last] = piece.split("%");
        if (last === undefined) return all.filter((one) => part(one.name) === piece);
        const [from, to] = [first ? at(first) : 0, last ? at(last) : all.length - 1];
        return from < 0 || to < 0 ? [] : all.slice(from, to + 1);
      });
  });
}

export function destroySnapshots(
  state: State,
  name: string,
  { recursive, clones, deferred }: Schemas["DestroyDataset"],
): void {
  const gone = meant(state, name, recursive ?? false);
  if (gone.length === 0)
    throw new Refusal("not_found", "could not find any snapshots to destroy; check snapshot names.");
  for (const one of gone) {
    if (deferred) continue;
    if (one.holds)
      throw new Refusal(
        "conflict",
        `cannot destroy snapshot ${one.name}: it's being held. Run 'zfs holds -r ${one.name}' to see holders.`,
      );
    const clone = state.datasets.find((other) => other.origin === one.name);
    if (clone && !clones)
      throw new Refusal(
        "conflict",
        `cannot destroy '${one.name}': snapshot has dependent clones\nuse '-R' to destroy the following datasets:\n${clone.name}`,
      );
  }
  const names = new Set(gone.map((one) => one.name));
  for (const one of gone) find(state, headOf(one.name)).snapshots -= 1;
  state.datasets = state.datasets.filter(
    (one) => !names.has(one.name) && !(clones && one.origin && names.has(one.origin)),
  );
}

export function rollBack(state: State, name: string, { recursive, clones }: Schemas["RollBack"]): Dataset {
  const all = of(state, headOf(name));
  const newer = all.slice(all.findIndex((one) => one.name === name) + 1);
  if (newer.length > 0 && !recursive)
    throw new Refusal(
      "conflict",
      `cannot rollback to '${name}': more recent snapshots or bookmarks exist\nuse '-r' to force deletion of the following snapshots and bookmarks:\n${newer.map((one) => one.name).join("\n")}`,
    );
  for (const one of newer)
    destroySnapshots(state, one.name, { confirm: one.name, recursive: false, clones, deferred: false, force: false });
  return find(state, headOf(name));
}

export function clone(state: State, name: string, { to }: Schemas["CloneSnapshot"]): Dataset {
  const origin = find(state, name);
  if (state.datasets.some((one) => one.name === to))
    throw new Refusal("conflict", `cannot create '${to}': dataset already exists`);
  const made: Dataset = {
    ...find(state, headOf(name)),
    name: to,
    origin: name,
    guid: String(5_500_000 + state.datasets.length),
    used_bytes: 0,
    children: 0,
    snapshots: 0,
    mountpoint: `/${to}`,
  };
  origin.clones = (origin.clones ?? 0) + 1;
  state.datasets.push(made);
  return made;
}

export function promote(state: State, name: string): Dataset {
  const dataset = find(state, name);
  if (!dataset.origin) throw new Refusal("conflict", `cannot promote '${name}': not a cloned filesystem`);
  const [origin, from] = [find(state, dataset.origin), find(state, headOf(dataset.origin))];
  const all = of(state, from.name);
  const moved = all.slice(0, all.indexOf(origin) + 1);
  for (const one of moved) one.name = `${name}@${part(one.name)}`;
  dataset.snapshots += moved.length;
  from.snapshots -= moved.length;
  dataset.origin = undefined;
  from.origin = origin.name;
  return dataset;
}

export function hold(state: State, name: string, tag: string): Schemas["Hold"][] {
  const snapshot = find(state, name);
  if (state.holds.some((one) => one.snapshot === name && one.tag === tag))
    throw new Refusal("conflict", `cannot hold snapshot '${name}': tag already exists on this dataset`);
  state.holds.push({ snapshot: name, tag, created: Math.floor(Date.now() / 1000) });
  snapshot.holds = (snapshot.holds ?? 0) + 1;
  return state.holds.filter((one) => one.snapshot === name);
}

export function release(state: State, name: string, tag: string): void {
  const at = state.holds.findIndex((one) => one.snapshot === name && one.tag === tag);
  if (at < 0)
    throw new Refusal("not_found", `cannot release hold from snapshot '${name}': no such tag on this dataset`);
  state.holds.splice(at, 1);
  const snapshot = find(state, name);
  snapshot.holds = (snapshot.holds ?? 1) - 1;
}
