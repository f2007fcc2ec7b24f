//! A stream of the daemon that is kept open: read, watched for silence, and reopened.
//!
//! The daemon sends something at least every 2 s, a comment if nothing happened. So silence means
//! that it does not answer: the process is stopped, or the network loses packets.

import { ApiError, listen } from "./client";
import { events, type ServerEvent } from "./events";

/**
 * `starting` until the first answer; `silent`: connected or connecting, but no answer arrives;
 * `offline`: refused or disconnected; `refused`: no user is logged in.
 */
export type Link = "starting" | "live" | "silent" | "offline" | "refused";

/** Silence after which the server counts as not answering: two keep-alive messages are missing. */
const SILENT_MS = 4000;
/** Silence after which the connection is replaced. Guessed: a stopped process resumes with it. */
const GIVE_UP_MS = 15_000;
const RETRY_MS = 1000;
const CHECK_MS = 250;

/** Yields the events of one stream. It ends with an error when nothing arrives for `GIVE_UP_MS`. */
export async function* read(
  path: string,
  signal: AbortSignal,
  options: { token?: string | null; heard?: () => void; opened?: () => void } = {},
): AsyncGenerator<ServerEvent> {
  const silence = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(() => silence.abort(), GIVE_UP_MS);
    options.heard?.();
  };
  timer = setTimeout(() => silence.abort(), GIVE_UP_MS);
  try {
    const body = await listen(path, AbortSignal.any([signal, silence.signal]), options.token);
    options.opened?.();
    heard();
    yield* events(body, heard);
  } finally {
    clearTimeout(timer);
    silence.abort();
  }
}

export interface Listener {
  /** Another state of the connection, or a later time at which the server was heard. */
  link(link: Link, heard: number): void;
  /** A connection was made: messages may have been missed before it. */
  opened(): void;
  message(data: string): void;
}

/** The stream of events, from `start` to `stop`. */
export class EventStream {
  readonly #listener: Listener;
  #link: Link = "starting";
  #heard = 0;
  #begun = 0;
  #abort: AbortController | null = null;
  #timer: ReturnType<typeof setInterval> | undefined;

  constructor(listener: Listener) {
    this.#listener = listener;
  }

  get link(): Link {
    return this.#link;
  }

  /** When the server was last heard, in ms since 1970; 0: never. */
  get heard(): number {
    return this.#heard;
  }

  start(): void {
    this.stop();
    this.#abort = new AbortController();
    this.#begun = Date.now();
    this.#timer = setInterval(() => this.#check(), CHECK_MS);
    void this.#run(this.#abort.signal);
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#abort?.abort();
    this.#abort = null;
    this.#link = "starting";
  }

  async #run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        const options = { heard: () => this.#alive(signal), opened: () => this.#listener.opened() };
        for await (const { data } of read("/v1/events/stream", signal, options)) this.#listener.message(data);
        // The server ended it: it stops, or the session is over.
        if (!signal.aborted) this.#set("offline");
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof ApiError && error.status === 401) {
          this.#set("refused");
          this.stop();
          this.#link = "refused";
          return;
        }
        // A connection that was given up because of silence stays silent.
        if (!(error instanceof DOMException && error.name === "AbortError")) this.#set("offline");
      }
      await new Promise((later) => setTimeout(later, RETRY_MS));
    }
  }

  #alive(signal: AbortSignal): void {
    if (signal.aborted) return;
    this.#heard = Date.now();
    this.#link = "live";
    this.#listener.link("live", this.#heard);
  }

  #set(link: Link): void {
    if (link === this.#link) return;
    this.#link = link;
    this.#listener.link(link, this.#heard);
  }

  #check(): void {
    const waits = this.#link === "live" || this.#link === "starting";
    if (waits && Date.now() - Math.max(this.#heard, this.#begun) > SILENT_MS) this.#set("silent");
  }
}
