//! Makes names chosen by clients safe to display: they may contain control characters,
//! bidirectional formatting marks, or nothing visible at all. They are shown as text only;
//! characters that are invisible, or that change how others are displayed, are shown by their code
//! points.

// Format characters (Cf: bidirectional marks, zero-width characters, tags), line separators,
// private and unassigned ones.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** `a\u202egpj.exe` -> `a⟨U+202E⟩gpj.exe`. Letters of all languages are unchanged. */
export function readable(name: string): string {
  const seen = name.replace(
    UNSEEN,
    (character) => `⟨U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}⟩`,
  );
  if (seen === "") return "(empty)";
  // Leading and trailing spaces would be invisible, too.
  return seen.replace(/^ +| +$/g, (spaces) => "␣".repeat(spaces.length));
}

/** Shortens names longer than `most` characters in the middle: both ends of a path matter. */
export function shortened(name: string, most: number): string {
  const letters = [...name];
  if (letters.length <= most) return name;
  const tail = Math.ceil((most - 1) * 0.6);
  return `${letters.slice(0, most - 1 - tail).join("")}…${letters.slice(-tail).join("")}`;
}
