//! Short messages about actions, announced politely. Errors stay until they are closed.

export interface Toast {
  id: number;
  tone: "ok" | "bad";
  text: string;
}

class Toasts {
  items = $state.raw<Toast[]>([]);
  #next = 1;

  show(text: string, tone: Toast["tone"] = "ok"): void {
    const id = this.#next++;
    this.items = [...this.items.slice(-3), { id, tone, text }];
    if (tone === "ok") setTimeout(() => this.drop(id), 6000);
  }

  drop(id: number): void {
    this.items = this.items.filter((toast) => toast.id !== id);
  }
}

export const toasts = new Toasts();
