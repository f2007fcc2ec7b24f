//! Light, dark, or the system's setting.

import { MediaQuery } from "svelte/reactivity";

export type Theme = "system" | "light" | "dark";
const KEY = "weir.theme";

function stored(): Theme {
  try {
    const value = localStorage.getItem(KEY);
    return value === "light" || value === "dark" ? value : "system";
  } catch {
    return "system";
  }
}

class CurrentTheme {
  now = $state<Theme>(stored());
  readonly #dark = new MediaQuery("(prefers-color-scheme: dark)");

  /** The effective theme. */
  get shade(): "light" | "dark" {
    return this.now === "system" ? (this.#dark.current ? "dark" : "light") : this.now;
  }

  set(theme: Theme): void {
    this.now = theme;
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    try {
      if (theme === "system") localStorage.removeItem(KEY);
      else localStorage.setItem(KEY, theme);
    } catch {
      // Then it applies until the page is closed.
    }
  }
}

export const theme = new CurrentTheme();
