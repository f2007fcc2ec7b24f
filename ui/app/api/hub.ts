//! The streams of a browser: one for events, and one for each set of statistics, shared by all tabs.
//!
//! ```text
//!   tab ── port ─┐                ┌─ EventStream ── /v1/events/stream
//!   tab ── port ─┼─ Hub (worker) ─┤
//!   tab ── port ─┘                └─ Streaming ──── /v1/analytics/stream
//! ```
//!
//! Browsers open at most six connections to a server over HTTP/1.1. With streams of its own for each
//! tab, the fifth tab would wait for ever.
//!
//! Invariant: a stream is open only while a tab needs it. There is one exception: Chrome freezes the
//! worker together with its last page when it keeps that page for the back button, often before the
//! worker has read the page's `close`. The stream then stays open until the page is shown again or
//! discarded.

import { Streaming, type Column, type Keys } from "../analytics/streaming";
import type { Schemas } from "./client";
import { EventStream, type Link } from "./stream";

/** What a tab asks for. `token` instead of the session is for embedded pages. */
export type ToHub =
  | { type: "events" }
  | { type: "follow"; id: number; name: string; after: number; token: string | null }
  | { type: "unfollow"; id: number }
  | { type: "close" };

export type FromHub =
  | { type: "link"; link: Link; heard: number }
  | { type: "opened" }
  | { type: "message"; message: Schemas["LiveMessage"] }
  | { type: "second"; id: number; second: number; column: Column | null; keys: Keys };

interface Tab {
  readonly post: (message: FromHub) => void;
  readonly follows: Map<number, () => void>;
}

export class Hub {
  readonly #listening = new Set<Tab>();
  readonly #streaming = new Map<string | null, Streaming>();
  readonly #events = new EventStream({
    link: (link, heard) => this.#all({ type: "link", link, heard }),
    opened: () => this.#all({ type: "opened" }),
    message: (data) => this.#all({ type: "message", message: JSON.parse(data) as Schemas["LiveMessage"] }),
  });

  /** A tab that receives through `post`. Returns the function that takes its requests. */
  connect(post: (message: FromHub) => void): (message: ToHub) => void {
    const tab: Tab = { post, follows: new Map() };
    return (message) => this.#take(tab, message);
  }

  #take(tab: Tab, message: ToHub): void {
    switch (message.type) {
      case "events":
        if (this.#listening.size === 0 || this.#events.link === "refused") this.#events.start();
        else tab.post({ type: "link", link: this.#events.link, heard: this.#events.heard });
        this.#listening.add(tab);
        break;
      case "follow": {
        const { id, name, after, token } = message;
        let streaming = this.#streaming.get(token);
        if (!streaming) this.#streaming.set(token, (streaming = new Streaming(token)));
        tab.follows.get(id)?.();
        const on = (second: number, column: Column | null, keys: Keys) =>
          tab.post({ type: "second", id, second, column, keys });
        tab.follows.set(id, streaming.follow(name, after, on));
        break;
      }
      case "unfollow":
        tab.follows.get(message.id)?.();
        tab.follows.delete(message.id);
        break;
      case "close":
        for (const stop of tab.follows.values()) stop();
        tab.follows.clear();
        this.#listening.delete(tab);
        if (this.#listening.size === 0) this.#events.stop();
    }
  }

  #all(message: FromHub): void {
    for (const tab of this.#listening) tab.post(message);
  }
}
