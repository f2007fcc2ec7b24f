//! The verdict of the server in words, and how many reasons it has.

import type { Schemas } from "../api/client";
import type { Tone } from "../ui/State.svelte";

type Health = Schemas["SystemHealth"];
type Verdict = Schemas["HealthVerdict"];

/** The tone of a verdict or a severity; each has a shape of its own besides its colour. */
export const toneOf: Record<Verdict, Tone> = { good: "ok", attention: "warn", serious: "bad" };

/** The title of the verdict: "Good", "2 things need attention", "1 serious problem, 2 things need attention". */
export function verdictText({ reasons }: Health): string {
  const count = (severity: Verdict) => reasons.filter((reason) => reason.severity === severity).length;
  const [serious, attention] = [count("serious"), count("attention")];
  const parts = [
    serious > 0 ? `${serious} serious ${serious === 1 ? "problem" : "problems"}` : "",
    attention > 0 ? `${attention} ${attention === 1 ? "thing needs" : "things need"} attention` : "",
  ].filter(Boolean);
  return parts.length > 0 ? parts.join(", ") : "Good";
}

/** The title of the document with the number of reasons before it, as mail programs show unread mail. */
export function titleWith(title: string, health: Health | null): string {
  const count = health?.reasons.length ?? 0;
  return count > 0 ? `(${count}) ${title}` : title;
}
