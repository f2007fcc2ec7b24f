//! What graphs show, as it comes: a span at once, and then second by second what is new.
//!
//! The time is the server's: `now` is the newest second that it has told of. A reader whose clock is wrong sees the same.

import { untrack } from "svelte";
import { get, listen, sentence, type Schemas } from "../api/client";
import { events } from "../api/events";
import { data, extended, newest, type Column, type Data, type Told } from "./data";
import { extent, isLive, stepFor, type Extent, type Span } from "./time";

/** Gets what a statistic was in one second; null: it was not counted. */
export type OnSecond = (second: number, column: Column | null, keys: Told["keys"]) => void;

/** Where seconds come from. */
export interface Source {
  /** Tells of all seconds after `after`, until the function that it returns is called. */
  follow(name: string, after: number, on: OnSecond): () => void;
  close(): void;
}

interface Followed { readonly name: string; after: number; readonly on: OnSecond }

/** One stream for all statistics that are looked at; another one when they change. The server counts them as long as it is open. */
export class Streaming implements Source {
  readonly #followed = new Set<Followed>();
  #abort = new AbortController();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #names: string[] = [];

  follow(name: string, after: number, on: OnSecond): () => void {
    const one = { name, after, on };
    this.#followed.add(one);
    // Graphs of a page come and go together: one stream is enough for all of them.
    this.#later(20);
    return () => {
      this.#followed.delete(one);
      if (![...this.#followed].some((other) => other.name === name)) this.#later(1000);
    };
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#followed.clear();
    this.#abort.abort();
  }

  #later(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#open(), ms);
  }

  async #open(): Promise<void> {
    this.#abort.abort();
    const abort = (this.#abort = new AbortController());
    this.#names = [...new Set([...this.#followed].map(({ name }) => name))];
    if (this.#names.length === 0) return;
    const query = new URLSearchParams(this.#names.map((name) => ["name", name]));
    query.set("after", String(Math.min(...[...this.#followed].map(({ after }) => after))));
    try {
      for await (const { type, data: text } of events(await listen(`/v1/analytics/stream?${query}`, abort.signal))) {
        if (abort.signal.aborted) return;
        if (type === "columns") this.#take(JSON.parse(text) as Schemas["LiveColumns"]);
      }
    } catch {
      // The page says that the server does not answer; here it is tried again.
    }
    if (!abort.signal.aborted) this.#later(2000);
  }

  #take({ second, statistics }: Schemas["LiveColumns"]): void {
    // Copied, since those who are told may follow others.
    for (const one of [...this.#followed]) {
      const told = statistics[this.#names.indexOf(one.name)];
      if (!told || second <= one.after) continue;
      one.after = second;
      one.on(second, told.column ?? null, told.keys);
    }
  }
}

/** Of all graphs of a page. */
export class Feed {
  /** The newest second that the server has told of; 0 until it has. */
  now = $state(0);
  problem = $state("");
  readonly #source: Source;
  readonly #clock: string;
  #closed = false;

  /** What `clock` is the time of the server is read off; by itself a statistic that is sampled each second from the first start on. */
  constructor(source: Source = new Streaming(), clock = "cpu.utilization") {
    this.#source = source;
    this.#clock = clock;
    void this.#begin();
  }

  follow(name: string, after: number, on: OnSecond): () => void {
    return this.#source.follow(name, after, (second, column, keys) => {
      this.heard(second);
      on(second, column, keys);
    });
  }

  heard(second: number): void {
    if (second > untrack(() => this.now)) this.now = second;
  }

  close(): void {
    this.#closed = true;
    this.#source.close();
  }

  async #begin(): Promise<void> {
    try {
      this.heard(newest(await get("/v1/analytics/query", { query: { name: this.#clock } })));
      this.problem = "";
    } catch (error) {
      this.problem = sentence(error);
      if (!this.#closed) setTimeout(() => void this.#begin(), 2000);
    }
  }
}

export interface Shown {
  readonly data: Data | undefined;
  readonly extent: Extent;
  readonly error: string;
  readonly loading: boolean;
  /** When the newest of it arrived at the page, for measuring how long drawing took. */
  readonly arrived: number;
  reload(): void;
}

/** How long the next question about a long live span waits, in ms: half a column, within reason. */
const again = (step: number) => Math.min(30_000, Math.max(2000, step * 500));

/** What one graph shows. `wanted` is reactive; while something new is loaded, the old stays. */
export function shown(feed: Feed, wanted: () => { name: string; span: Span; width: number }): Shown {
  let told = $state.raw<Data>();
  let area = $state.raw<Extent>({ from: 0, to: 1, step: 1 });
  let error = $state("");
  let loading = $state(true);
  let arrived = $state(0);
  let asked = $state(0);
  const name = $derived(wanted().name);
  const span = $derived(wanted().span);
  const width = $derived(wanted().width);
  const step = $derived(stepFor(span, Math.max(50, width)));
  const ready = $derived(feed.now > 0 && width > 0);

  $effect(() => {
    void asked;
    if (!ready) return;
    const [wantedSpan, wantedStep, wantedName] = [span, step, name];
    const abort = new AbortController();
    let [stop, timer]: [() => void, ReturnType<typeof setTimeout> | undefined] = [() => undefined, undefined];
    const keep = (next: Data, newest: number, whole: boolean) => {
      arrived = performance.now();
      area = extent(wantedSpan, newest, wantedStep);
      told = whole || !told || told.name !== next.name ? next : extended(told, next, area.from);
      error = "";
    };
    const ask = async (from: number, to: number, whole: boolean): Promise<number> => {
      try {
        const next = await get("/v1/analytics/query", { query: { name: wantedName, from, to, step: wantedStep }, signal: abort.signal });
        feed.heard(newest(next));
        // As it was asked for: the server writes names in one way, readers in many.
        keep({ ...data(next), name: wantedName }, newest(next), whole);
        loading = false;
        return newest(next);
      } catch (reason) {
        if (!abort.signal.aborted) {
          error = sentence(reason);
          loading = false;
        }
        return 0;
      }
    };
    const go = async () => {
      loading = true;
      const { from, to } = extent(wantedSpan, untrack(() => feed.now), wantedStep);
      const last = await ask(from, to, true);
      if (abort.signal.aborted || !isLive(wantedSpan)) return;
      if (last === 0) timer = setTimeout(() => void go(), 5000);
      else if (wantedStep === 1) {
        stop = feed.follow(wantedName, Math.min(last, to - 1), (second, column, keys) => {
          if (told) keep({ ...told, columns: column ? [column] : [], keys: new Map(Object.entries(keys).map(([key, value]) => [Number(key), value])) }, second, false);
        });
      } else {
        const more = async () => {
          const begun = told?.columns.at(-1)?.start ?? from;
          await ask(begun, Math.max(begun, Math.floor(Date.now() / 1000), untrack(() => feed.now)) + wantedStep, false);
          if (!abort.signal.aborted) timer = setTimeout(() => void more(), again(wantedStep));
        };
        timer = setTimeout(() => void more(), again(wantedStep));
      }
    };
    void go();
    return () => {
      abort.abort();
      stop();
      clearTimeout(timer);
    };
  });

  return {
    get data() { return told; },
    get extent() { return area; },
    get error() { return error; },
    get loading() { return loading; },
    get arrived() { return arrived; },
    reload: () => { asked += 1; },
  };
}
