//! Where the reader is. The address holds all of it: path for the page and its object, query for selection, filter and sorting,
//! so that every view can be linked, reloaded and walked back to.

class Location {
  path = $state(decodeSafely(globalThis.location?.pathname ?? "/"));
  query = $state(new URLSearchParams(globalThis.location?.search ?? ""));

  constructor() {
    globalThis.addEventListener?.("popstate", () => this.#read());
  }

  go(href: string, { replace = false }: { replace?: boolean } = {}): void {
    if (replace) history.replaceState(null, "", href);
    else history.pushState(null, "", href);
    this.#read();
    if (!replace) scrollTo(0, 0);
  }

  /** Changes some of the query and leaves the rest; null removes. Typing replaces, choosing adds to the history. */
  set(change: Record<string, string | null>, { replace = true } = {}): void {
    const query = new URLSearchParams(this.query);
    for (const [name, value] of Object.entries(change)) {
      if (value === null || value === "") query.delete(name);
      else query.set(name, value);
    }
    const text = query.toString();
    const href = globalThis.location.pathname + (text ? `?${text}` : "");
    if (replace) history.replaceState(null, "", href);
    else history.pushState(null, "", href);
    this.#read();
  }

  /** Another query altogether, for pages whose state does not fit names that each stand once. */
  put(query: URLSearchParams, { replace = true } = {}): void {
    const text = query.toString();
    const href = globalThis.location.pathname + (text ? `?${text}` : "");
    if (replace) history.replaceState(null, "", href);
    else history.pushState(null, "", href);
    this.#read();
  }

  #read(): void {
    this.path = decodeSafely(globalThis.location.pathname);
    this.query = new URLSearchParams(globalThis.location.search);
  }
}

export const here = new Location();

/** Where `?next=` leads: a page of this origin, or the first one. */
export function placeBehind(query: URLSearchParams): string {
  const next = query.get("next") ?? "/";
  return /^\/(?![/\\])/.test(next) ? next : "/";
}

/** Pool and dataset names keep their slashes in the address; everything else is escaped. */
export function href(page: string, name?: string, query?: Record<string, string>): string {
  const path = `/${page}${name ? `/${name.split("/").map(encodeURIComponent).join("/")}` : ""}`;
  const text = query ? new URLSearchParams(query).toString() : "";
  return text ? `${path}?${text}` : path;
}

/** Lets plain links change the page without loading it anew; modified clicks stay the browser's. */
export function followLinks(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = (event.target as Element | null)?.closest?.("a[href]");
  if (!(link instanceof HTMLAnchorElement) || link.target || link.hasAttribute("download")) return;
  const url = new URL(link.href);
  if (url.origin !== location.origin || url.pathname.startsWith("/v1/") || url.pathname === "/metrics" || (url.hash && url.pathname === location.pathname)) return;
  event.preventDefault();
  here.go(url.pathname + url.search);
}

function decodeSafely(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}
