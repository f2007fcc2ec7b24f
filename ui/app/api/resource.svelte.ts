//! Data from the daemon, reloaded when its dependencies change. Old data stays until the new data
//! has arrived.

import { untrack } from "svelte";
import { ApiError, sentence } from "./client";

export interface Resource<T> {
  readonly data: T | undefined;
  readonly error: string;
  readonly missing: boolean;
  readonly loading: boolean;
  readonly reload: () => void;
}

/**
 * Runs `load` when reactive values that it reads before its first `await` change, which aborts the
 * run before. Values that `tick` reads, and the returned function, run it again without aborting:
 * while it runs, once more after it. So a server that answers more slowly than the ticks come is
 * waited for.
 */
export function repeated(
  load: (signal: AbortSignal) => Promise<unknown> | null,
  tick: () => void = () => undefined,
): () => void {
  let again = $state(0);
  let running = false;
  let due = false;
  const run = () => {
    if (running) due = true;
    else again += 1;
  };
  let ticked = false;
  $effect(() => {
    tick();
    if (ticked) untrack(run);
    ticked = true;
  });
  $effect(() => {
    void again;
    const abort = new AbortController();
    const promise = load(abort.signal);
    due = false;
    running = promise !== null;
    const ended = () => {
      if (abort.signal.aborted) return;
      running = false;
      if (due) again += 1;
    };
    promise?.then(ended, ended);
    return () => abort.abort();
  });
  return run;
}

/** The result of `load`, which returns null if there is nothing to load. See `repeated`. */
export function resource<T>(load: (signal: AbortSignal) => Promise<T> | null, tick?: () => void): Resource<T> {
  let data = $state.raw<T>();
  let error = $state("");
  let missing = $state(false);
  let loading = $state(true);

  const reload = repeated((signal) => {
    const promise = load(signal);
    if (!promise) {
      data = undefined;
      loading = false;
      return null;
    }
    loading = true;
    return promise.then(
      (value) => {
        if (signal.aborted) return;
        data = value;
        error = "";
        missing = false;
        loading = false;
      },
      (reason: unknown) => {
        if (signal.aborted) return;
        error = sentence(reason);
        missing = reason instanceof ApiError && reason.status === 404;
        if (missing) data = undefined;
        loading = false;
      },
    );
  }, tick);

  return {
    get data() {
      return data;
    },
    get error() {
      return error;
    },
    get missing() {
      return missing;
    },
    get loading() {
      return loading;
    },
    reload,
  };
}
