//! Files of a breakdown as a tree of directories, each with the sum of its contents.

import type { TreeRow } from "../table/tree";

export interface Folder {
  readonly path: string;
  readonly name: string;
  total: number;
  readonly children: Map<string, Folder>;
}

export function tree(files: readonly { name: string; total: number }[]): Folder {
  const all: Folder = { path: "", name: "", total: 0, children: new Map() };
  for (const { name, total } of files) {
    all.total += total;
    let at = all;
    // Values without a path (`<other>`, `<object 7>`) are shown next to the top-level directories:
    // the server puts them in angle brackets.
    const root = name.startsWith("/") ? "/" : "";
    const parts = /^<[^/]*>$/.test(name) ? [name] : name.slice(root.length).split("/");
    parts.forEach((part, nth) => {
      const path = root + parts.slice(0, nth + 1).join("/");
      let next = at.children.get(part);
      if (!next) at.children.set(part, (next = { path, name: part, total: 0, children: new Map() }));
      next.total += total;
      at = next;
    });
  }
  return all;
}

/** Rows of unfolded directories, the largest first. */
export function rows(root: Folder, open: ReadonlySet<string>): TreeRow<Folder>[] {
  const list: TreeRow<Folder>[] = [];
  const visit = (folder: Folder, level: number) => {
    const children = [...folder.children.values()].sort((a, b) => b.total - a.total || a.name.localeCompare(b.name));
    children.forEach((value, nth) => {
      const parent = value.children.size > 0;
      list.push({
        id: value.path,
        value,
        level,
        parent,
        open: parent && open.has(value.path),
        position: nth + 1,
        siblings: children.length,
      });
      if (open.has(value.path)) visit(value, level + 1);
    });
  };
  visit(root, 1);
  return list;
}
