//! Live data of graphs: first the whole range, then new data second by second.
//!
//! Time is the server's: `now` is the newest second that it reported. A browser with a wrong clock
//! shows the same.

import { untrack } from "svelte";
import { get, sentence, statisticsToken } from "../api/client";
import { connection } from "../api/connection";
import { data, extended, newest, type Data } from "./data";
import type { OnSecond } from "./streaming";
import { extent, isLive, stepFor, type Extent, type Span } from "./time";

/** A source of seconds. */
export interface Source {
  /** Reports all seconds after `after`, until the returned function is called. */
  follow(name: string, after: number, on: OnSecond): () => void;
}

/** The streams that all tabs share. */
const shared: Source = {
  follow: (name, after, on) => connection.follow(name, after, statisticsToken(), on),
};

/** Shared by all graphs of a page. */
export class Feed {
  /** The newest second that the server reported; 0 before the first report. */
  now = $state(0);
  problem = $state("");
  readonly #source: Source;
  readonly #clock: string;
  #closed = false;

  /** `clock` is the statistic from which the server's time is taken; the default is sampled every second. */
  constructor(source: Source = shared, clock = "cpu.utilization") {
    this.#source = source;
    this.#clock = clock;
    void this.#begin();
  }

  follow(name: string, after: number, on: OnSecond): () => void {
    return this.#source.follow(name, after, (second, column, keys) => {
      this.advance(second);
      on(second, column, keys);
    });
  }

  advance(second: number): void {
    if (second > untrack(() => this.now)) this.now = second;
  }

  close(): void {
    this.#closed = true;
  }

  async #begin(): Promise<void> {
    try {
      this.advance(newest(await get("/v1/analytics/query", { query: { name: this.#clock } })));
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
  /** When the newest data arrived, for measuring the time to draw it. */
  readonly arrived: number;
  reload(): void;
}

/** Delay before the next request for a long live range, in ms: half a column, within limits. */
const again = (step: number) => Math.min(30_000, Math.max(2000, step * 500));

/** The data of one graph. `wanted` is reactive; old data stays visible while new data is loading. */
export function shown(feed: Feed, wanted: () => { name: string; span: Span; width: number }): Shown {
  let current = $state.raw<Data>();
  let area = $state.raw<Extent>({ from: 0, to: 1, step: 1 });
  let error = $state("");
  let loading = $state(true);
  let arrived = $state(0);
  let reloads = $state(0);
  const name = $derived(wanted().name);
  const span = $derived(wanted().span);
  const width = $derived(wanted().width);
  const step = $derived(stepFor(span, Math.max(50, width)));
  const ready = $derived(feed.now > 0 && width > 0);

  $effect(() => {
    void reloads;
    if (!ready) return;
    const [wantedSpan, wantedStep, wantedName] = [span, step, name];
    const abort = new AbortController();
    let [stop, timer]: [() => void, ReturnType<typeof setTimeout> | undefined] = [() => undefined, undefined];
    const keep = (next: Data, newest: number, whole: boolean) => {
      arrived = performance.now();
      area = extent(wantedSpan, newest, wantedStep);
      current = whole || !current || current.name !== next.name ? next : extended(current, next, area.from);
      error = "";
    };
    const ask = async (from: number, to: number, whole: boolean): Promise<number> => {
      try {
        const next = await get("/v1/analytics/query", {
          query: { name: wantedName, from, to, step: wantedStep },
          signal: abort.signal,
        });
        feed.advance(newest(next));
        // Keeps the requested spelling: the server accepts several, but returns one.
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
      const { from, to } = extent(
        wantedSpan,
        untrack(() => feed.now),
        wantedStep,
      );
      const last = await ask(from, to, true);
      if (abort.signal.aborted || !isLive(wantedSpan)) return;
      if (last === 0) timer = setTimeout(() => void go(), 5000);
      else if (wantedStep === 1) {
        stop = feed.follow(wantedName, Math.min(last, to - 1), (second, column, keys) => {
          if (current)
            keep(
              {
                ...current,
                columns: column ? [column] : [],
                keys: new Map(Object.entries(keys).map(([key, value]) => [Number(key), value])),
              },
              second,
              false,
            );
        });
      } else {
        const more = async () => {
          const begun = current?.columns.at(-1)?.start ?? from;
          await ask(
            begun,
            Math.max(
              begun,
              Math.floor(Date.now() / 1000),
              untrack(() => feed.now),
            ) + wantedStep,
            false,
          );
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
    get data() {
      return current;
    },
    get extent() {
      return area;
    },
    get error() {
      return error;
    },
    get loading() {
      return loading;
    },
    get arrived() {
      return arrived;
    },
    reload: () => {
      reloads += 1;
    },
  };
}
