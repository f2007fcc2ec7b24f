//! Data from the daemon, reloaded when its dependencies change. Old data stays until the new data
//! has arrived.

import { ApiError, sentence } from "./client";

export interface Resource<T> {
  readonly data: T | undefined;
  readonly error: string;
  readonly missing: boolean;
  readonly loading: boolean;
  readonly reload: () => void;
}

/** `load` runs again when reactive values that it reads before its first `await` change; it returns null if there is nothing to load. */
export function resource<T>(load: (signal: AbortSignal) => Promise<T> | null): Resource<T> {
  let data = $state.raw<T>();
  let error = $state("");
  let missing = $state(false);
  let loading = $state(true);
  let again = $state(0);

  $effect(() => {
    void again;
    const abort = new AbortController();
    const promise = load(abort.signal);
    if (!promise) {
      data = undefined;
      loading = false;
      return;
    }
    loading = true;
    promise.then(
      (value) => {
        if (abort.signal.aborted) return;
        data = value;
        error = "";
        missing = false;
        loading = false;
      },
      (reason: unknown) => {
        if (abort.signal.aborted) return;
        error = sentence(reason);
        missing = reason instanceof ApiError && reason.status === 404;
        if (missing) data = undefined;
        loading = false;
      },
    );
    return () => abort.abort();
  });

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
    reload: () => {
      again += 1;
    },
  };
}
