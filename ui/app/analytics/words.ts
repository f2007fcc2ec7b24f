//! What clients called things, made readable: a name may hold control characters, marks that turn the direction of writing, or
//! nothing visible at all. It is shown as text only, and whatever would not be seen, or would make something else be seen, by its number.

// Format characters (Cf: marks of direction, zero-width characters, tags), separators of lines, private and unassigned ones.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** `a\u202egpj.exe` -> `a⟨U+202E⟩gpj.exe`. Letters of all languages stay. */
export function readable(name: string): string {
  const seen = name.replace(UNSEEN, (character) => `⟨U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
  if (seen === "") return "(empty)";
  // Spaces at the ends would not be seen either.
  return seen.replace(/^ +| +$/g, (spaces) => "␣".repeat(spaces.length));
}

/** The middle left out when it is longer than `most` characters: of paths both ends tell something. */
export function shortened(name: string, most: number): string {
  const letters = [...name];
  if (letters.length <= most) return name;
  const tail = Math.ceil((most - 1) * 0.6);
  return `${letters.slice(0, most - 1 - tail).join("")}…${letters.slice(-tail).join("")}`;
}
