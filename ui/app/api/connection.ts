//! A tab's connection to the shared streams (`hub.ts`). It is closed while the page is kept for the
//! back button or frozen, and opened again when the page is shown.
//!
//! Where there is no shared worker, each tab has streams of its own, which are closed while the tab
//! is hidden. Chrome on Android has none, and browsers may refuse to load one over HTTPS with a
//! certificate that they do not trust.

import type { Column, Keys, OnSecond } from "../analytics/streaming";
import type { Schemas } from "./client";
import { Hub, type FromHub, type ToHub } from "./hub";
import type { Link } from "./stream";

export interface Heard {
  link(link: Link, heard: number): void;
  opened(): void;
  message(message: Schemas["LiveMessage"]): void;
}

interface Follow {
  readonly name: string;
  readonly token: string | null;
  readonly on: OnSecond;
  after: number;
}

export class Connection {
  readonly #follows = new Map<number, Follow>();
  #heard: Heard | null = null;
  #send: ((message: ToHub) => void) | null = null;
  #hangUp: () => void = () => undefined;
  #last = 0;
  #prepared = false;
  #sharing = typeof SharedWorker !== "undefined";

  /** Receives events until the returned function is called. */
  listen(heard: Heard): () => void {
    this.#heard = heard;
    if (this.#send) this.#send({ type: "events" });
    else this.#open();
    return () => {
      this.#heard = null;
      // Statistics that are still followed are requested again.
      this.#close();
      if (this.#follows.size > 0) this.#open();
    };
  }

  follow(name: string, after: number, token: string | null, on: OnSecond): () => void {
    const id = (this.#last += 1);
    this.#follows.set(id, { name, after, token, on });
    if (this.#send) this.#send({ type: "follow", id, name, after, token });
    else this.#open();
    return () => {
      this.#follows.delete(id);
      this.#send?.({ type: "unfollow", id });
    };
  }

  #open(): void {
    this.#prepare();
    if (this.#send) return;
    const receive = (message: FromHub) => this.#take(message);
    if (!this.#sharing) {
      if (document.hidden) return;
      this.#send = new Hub().connect(receive);
    } else {
      const worker = new SharedWorker(new URL("./hub-worker.ts", import.meta.url), { type: "module" });
      worker.onerror = () => this.#stopSharing();
      worker.port.onmessage = ({ data }: MessageEvent<FromHub>) => receive(data);
      this.#send = (message) => worker.port.postMessage(message);
      this.#hangUp = () => {
        worker.onerror = worker.port.onmessage = null;
        worker.port.close();
      };
    }
    if (this.#heard) this.#send({ type: "events" });
    for (const [id, { name, after, token }] of this.#follows) this.#send({ type: "follow", id, name, after, token });
  }

  #close(): void {
    this.#send?.({ type: "close" });
    this.#send = null;
    this.#hangUp();
    this.#hangUp = () => undefined;
  }

  /** The worker cannot be loaded: this tab has its own streams. */
  #stopSharing(): void {
    this.#sharing = false;
    this.#close();
    this.#open();
  }

  #take(message: FromHub): void {
    switch (message.type) {
      case "link":
        this.#heard?.link(message.link, message.heard);
        break;
      case "opened":
        this.#heard?.opened();
        break;
      case "message":
        this.#heard?.message(message.message);
        break;
      case "second":
        this.#second(message.id, message.second, message.column, message.keys);
    }
  }

  #second(id: number, second: number, column: Column | null, keys: Keys): void {
    const follow = this.#follows.get(id);
    if (!follow || second <= follow.after) return;
    follow.after = second;
    follow.on(second, column, keys);
  }

  #prepare(): void {
    if (this.#prepared) return;
    this.#prepared = true;
    const close = () => this.#close();
    const open = () => {
      if (this.#send || (!this.#heard && this.#follows.size === 0)) return;
      this.#open();
      // What happened meanwhile was missed.
      if (this.#send) this.#heard?.opened();
    };
    globalThis.addEventListener("pagehide", close);
    globalThis.addEventListener("pageshow", open);
    document.addEventListener("freeze", close);
    document.addEventListener("resume", open);
    document.addEventListener("visibilitychange", () => {
      if (!this.#sharing) (document.hidden ? close : open)();
    });
  }
}

export const connection = new Connection();
