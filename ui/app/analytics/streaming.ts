//! Statistics second by second, over one stream for all that are followed.

import { read } from "../api/stream";
import type { Schemas } from "../api/client";

type Answer = Schemas["LiveStatistic"];
export type Column = NonNullable<Answer["column"]>;
export type Keys = Answer["keys"];
/** Receives a statistic's values for one second; null: it was not counted. */
export type OnSecond = (second: number, column: Column | null, keys: Keys) => void;

interface Followed {
  readonly name: string;
  after: number;
  readonly on: OnSecond;
}

/** The daemon's limit for the statistics of a stream. */
const AT_ONCE = 32;

/** One stream (one more for each 32 statistics), reopened when the set changes. The server counts them while it is open. */
export class Streaming {
  readonly #followed = new Set<Followed>();
  readonly #token: string | null;
  #abort = new AbortController();
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** A token for statistics, or null: the session. */
  constructor(token: string | null = null) {
    this.#token = token;
  }

  follow(name: string, after: number, on: OnSecond): () => void {
    const one = { name, after, on };
    this.#followed.add(one);
    // Graphs of a page appear and disappear together, so wait and open one stream for all of them.
    this.#later(20);
    return () => {
      this.#followed.delete(one);
      if (![...this.#followed].some((other) => other.name === name)) this.#later(1000);
    };
  }

  #later(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#open(), ms);
  }

  #open(): void {
    this.#abort.abort();
    const abort = (this.#abort = new AbortController());
    const names = [...new Set([...this.#followed].map(({ name }) => name))];
    for (let at = 0; at < names.length; at += AT_ONCE) void this.#run(names.slice(at, at + AT_ONCE), abort);
  }

  async #run(names: string[], abort: AbortController): Promise<void> {
    const query = new URLSearchParams(names.map((name) => ["name", name]));
    const after = [...this.#followed].filter(({ name }) => names.includes(name)).map((one) => one.after);
    query.set("after", String(Math.min(...after)));
    try {
      const options = { token: this.#token };
      for await (const { type, data } of read(`/v1/analytics/stream?${query}`, abort.signal, options)) {
        if (abort.signal.aborted) return;
        if (type === "columns") this.#take(names, JSON.parse(data) as Schemas["LiveColumns"]);
      }
    } catch {
      // The page reports that the server does not respond; here the connection is retried.
    }
    if (!abort.signal.aborted) this.#later(2000);
  }

  #take(names: string[], { second, statistics }: Schemas["LiveColumns"]): void {
    // Copied, since callbacks may follow other statistics.
    for (const one of [...this.#followed]) {
      const found = statistics[names.indexOf(one.name)];
      if (!found || second <= one.after) continue;
      one.after = second;
      one.on(second, found.column ?? null, found.keys);
    }
  }
}
