//! Checks names and passwords before they are sent. The daemon decides; these only save a round
//! trip.

export function userNameProblem(name: string): string | null {
  if (name === "") return "A name is needed.";
  if (name.length > 32) return "At most 32 characters.";
  return /^[a-z][a-z0-9._-]*$/.test(name) ? null : "Letters a-z, digits, and . _ - behind a first letter.";
}

export function passwordProblem(password: string): string | null {
  const size = new TextEncoder().encode(password).length;
  if (size < 10) return "At least 10 characters.";
  return size > 256 ? "At most 256 bytes." : null;
}

/** One component of a dataset's name, as zfs accepts it. */
export function datasetNameProblem(name: string): string | null {
  if (name === "") return "A name is needed.";
  if (name.includes("@")) return "A name with @ would be a snapshot's.";
  if (name.startsWith("/") || name.endsWith("/") || name.includes("//")) return "Parts of a name must not be empty.";
  if (name.split("/").some((part) => part === "." || part === "..")) return "“.” and “..” are not names.";
  return /^[A-Za-z0-9 _.:/-]+$/.test(name) ? null : "Letters, digits, spaces and _ - . : only.";
}

/** The part after the '@'. */
export function snapshotNameProblem(name: string): string | null {
  if (name === "") return "A name is needed.";
  return /^[A-Za-z0-9 _.:-]+$/.test(name) ? null : "Letters, digits, spaces and _ - . : only.";
}

export function holdTagProblem(tag: string): string | null {
  if (tag === "") return "A name is needed.";
  return /^[A-Za-z0-9][A-Za-z0-9_.:@#-]*$/.test(tag)
    ? null
    : "Letters, digits and _ - . : only, a letter or digit first.";
}

export function poolNameProblem(name: string): string | null {
  if (name === "") return "A name is needed.";
  if (!/^[A-Za-z]/.test(name)) return "The name must start with a letter.";
  if (/^(mirror|raidz|draid|spare)/.test(name) || name === "log") return "Names that start like this are reserved.";
  return /^[A-Za-z0-9 _.:-]+$/.test(name) ? null : "Letters, digits and _ - . : only.";
}
