//! A tree as a list of rows, for tables that draw only the visible ones.

export interface TreeRow<T> {
  id: string;
  value: T;
  level: number;
  /** Has children, visible or not. */
  parent: boolean;
  open: boolean;
  /** Position among its siblings, from 1, and their number, for screen readers. */
  position: number;
  siblings: number;
}

/** Builds a forest from names with slashes: "a/b" is a child of "a" if "a" exists, otherwise a root. Siblings keep their order. */
export class Forest<T> {
  readonly #children = new Map<string, string[]>();
  readonly #values = new Map<string, T>();
  readonly roots: string[] = [];

  constructor(items: readonly T[], id: (item: T) => string, parentOf: (item: T) => string | null) {
    for (const item of items) this.#values.set(id(item), item);
    for (const item of items) {
      const own = id(item);
      const parent = parentOf(item);
      if (parent !== null && parent !== own && this.#values.has(parent)) {
        const siblings = this.#children.get(parent);
        if (siblings) siblings.push(own);
        else this.#children.set(parent, [own]);
      } else this.roots.push(own);
    }
  }

  get size(): number {
    return this.#values.size;
  }

  children(id: string): readonly string[] {
    return this.#children.get(id) ?? [];
  }

  /** The rows in display order. `closed` names the folded ones; with `keep`, only those rows and their ancestors, all unfolded. */
  rows(closed: ReadonlySet<string>, keep?: (item: T) => boolean): TreeRow<T>[] {
    const kept = keep ? this.#kept(keep) : null;
    const rows: TreeRow<T>[] = [];
    // An explicit stack: trees may be deeper than the call stack allows.
    const stack: { ids: readonly string[]; next: number; level: number }[] = [
      { ids: this.#only(this.roots, kept), next: 0, level: 1 },
    ];
    while (stack.length > 0) {
      const top = stack[stack.length - 1]!;
      if (top.next >= top.ids.length) {
        stack.pop();
        continue;
      }
      const id = top.ids[top.next++]!;
      const children = this.#only(this.children(id), kept);
      const open = children.length > 0 && (kept !== null || !closed.has(id));
      rows.push({
        id,
        value: this.#values.get(id)!,
        level: top.level,
        parent: children.length > 0,
        open,
        position: top.next,
        siblings: top.ids.length,
      });
      if (open) stack.push({ ids: children, next: 0, level: top.level + 1 });
    }
    return rows;
  }

  #only(ids: readonly string[], kept: ReadonlySet<string> | null): readonly string[] {
    return kept ? ids.filter((id) => kept.has(id)) : ids;
  }

  #kept(keep: (item: T) => boolean): Set<string> {
    const up = new Map<string, string>();
    for (const [parent, children] of this.#children) for (const child of children) up.set(child, parent);
    const kept = new Set<string>();
    for (const [id, value] of this.#values) {
      if (!keep(value)) continue;
      for (let at: string | undefined = id; at !== undefined && !kept.has(at); at = up.get(at)) kept.add(at);
    }
    return kept;
  }
}

/** The rows to draw: the visible ones and some more on each side, so that scrolling shows no gap. */
export function window(
  total: number,
  rowHeight: number,
  scrollTop: number,
  viewHeight: number,
  spare = 12,
): { first: number; last: number } {
  const first = Math.max(0, Math.floor(scrollTop / rowHeight) - spare);
  const last = Math.min(total, Math.ceil((scrollTop + viewHeight) / rowHeight) + spare);
  return { first: Math.min(first, last), last };
}
