//! Formats numbers for display. Sizes follow `zfs list`: powers of 1024, three digits, one letter.

const UNITS = ["B", "K", "M", "G", "T", "P", "E"];

/** 1536 -> "1.50K", as zfs prints it; 512 -> "512B". */
export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  let unit = 0;
  let size = Math.abs(value);
  while (size >= 1024 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  const sign = value < 0 ? "-" : "";
  return `${sign}${unit === 0 ? String(size) : three(size)}${UNITS[unit]}`;
}

/** Bytes per second. */
export function rate(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : `${bytes(Math.round(value))}/s`;
}

/** 12345 -> "12,345": the same separators in all locales. */
export function count(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  return value.toLocaleString("en-US", { maximumFractionDigits: value < 10 && !Number.isInteger(value) ? 1 : 0 });
}

export function percent(part: number, whole: number): string {
  if (!(whole > 0)) return "–";
  const share = (part / whole) * 100;
  if (share > 0 && share < 1) return "<1%";
  // Never "100%" before it is reached: a scrub at 99.7 % is not finished, a pool at 99.6 % is not
  // full.
  return `${share > 99 && share < 100 ? 99 : Math.round(share)}%`;
}

/** Seconds -> "2 d 3 h", "4 min 5 s". At most two units. */
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  const whole = Math.max(0, Math.round(seconds));
  const parts: [number, string][] = [
    [Math.floor(whole / 86400), "d"],
    [Math.floor((whole % 86400) / 3600), "h"],
    [Math.floor((whole % 3600) / 60), "min"],
    [whole % 60, "s"],
  ];
  const first = parts.findIndex(([amount]) => amount > 0);
  if (first < 0) return "0 s";
  return parts
    .slice(first, first + 2)
    .filter(([amount]) => amount > 0)
    .map(([amount, unit]) => `${amount} ${unit}`)
    .join(" ");
}

/** Milliseconds since 1970 -> "2026-11-21 18:30:05", in the local time zone. */
export function time(ms: number | null | undefined): string {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return "–";
  const at = new Date(ms);
  const two = (number: number) => String(number).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** Milliseconds since 1970 -> "2026-11-21_1830", in the local time zone, for use in names. */
export function stamp(ms: number): string {
  return time(ms).slice(0, 16).replace(" ", "_").replace(":", "");
}

/** Age for display: "just now", "5 min ago". */
export function ago(ms: number | null | undefined, now: number = Date.now()): string {
  if (ms === null || ms === undefined) return "–";
  const seconds = Math.max(0, (now - ms) / 1000);
  if (seconds < 10) return "just now";
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86400)} d ago`;
}

/** Parses "10G", "1.5 TiB", "512" to bytes; null if invalid. Accepts what `zfs set quota=` does. */
export function parseBytes(text: string): number | null {
  const match = /^\s*(\d+(?:\.\d+)?)\s*([KMGTPE]?)(?:i?B)?\s*$/i.exec(text);
  if (!match) return null;
  const power = match[2] ? UNITS.indexOf(match[2].toUpperCase()) : 0;
  return Math.round(Number(match[1]) * 1024 ** power);
}

function three(size: number): string {
  if (size >= 99.95) return size.toFixed(0);
  return size >= 9.995 ? size.toFixed(1) : size.toFixed(2);
}
