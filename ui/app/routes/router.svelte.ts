//! The current location. The address contains all of it: the path selects the page and its object,
//! the query holds selection, filter and sorting, so that every view can be linked, reloaded and
//! returned to.

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

  /** Changes parts of the query and keeps the rest; null removes. Typing replaces the history entry, choosing adds one. */
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

  /** Replaces the whole query, for pages whose state repeats parameters. */
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

/** The target of `?next=`: a page of this origin, or the first page. */
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

/** Handles plain links without reloading the page; the browser handles modified clicks. */
export function followLinks(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)
    return;
  const link = (event.target as Element | null)?.closest?.("a[href]");
  if (!(link instanceof HTMLAnchorElement) || link.target || link.hasAttribute("download")) return;
  const url = new URL(link.href);
  if (
    url.origin !== location.origin ||
    url.pathname.startsWith("/v1/") ||
    url.pathname === "/metrics" ||
    (url.hash && url.pathname === location.pathname)
  )
    return;
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
