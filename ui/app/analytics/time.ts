//! The time range of graphs: live (the last seconds), or fixed (from one second to another).

export type Span = { readonly last: number } | { readonly from: number; readonly to: number };

export const MINUTE = 60;
export const HOUR = 3600;
export const DAY = 86_400;
export const WEEK = 7 * DAY;
export const MONTH = 30 * DAY;
/** Shorter ranges show nothing, and nothing is stored for longer ones. */
export const SHORTEST = 10;
export const LONGEST = 2 * 366 * DAY;

/** Widths of a column in seconds: docs/operating/analytics-pictures.md. */
export const STEPS = [
  1,
  2,
  5,
  10,
  20,
  30,
  ...[1, 2, 5, 10, 20, 30].map((minutes) => minutes * MINUTE),
  ...[1, 2, 4, 8, 12, 24].map((hours) => hours * HOUR),
  2 * DAY,
  4 * DAY,
];

export function isLive(span: Span): span is { readonly last: number } {
  return "last" in span;
}

export function lengthOf(span: Span): number {
  return isLive(span) ? span.last : span.to - span.from;
}

/** The shortest step that needs no more columns than pixels. */
export function stepFor(span: Span, width: number): number {
  const fits = (step: number) =>
    (isLive(span) ? Math.ceil(span.last / step) : Math.ceil(span.to / step) - Math.floor(span.from / step)) <= width;
  return STEPS.find(fits) ?? STEPS.at(-1)!;
}

export interface Extent {
  readonly from: number;
  readonly to: number;
  readonly step: number;
}

/** Start and end of a range, in whole columns, if the last complete second is `now`. */
export function extent(span: Span, now: number, step: number): Extent {
  if (!isLive(span)) return { from: Math.floor(span.from / step) * step, to: Math.ceil(span.to / step) * step, step };
  const to = Math.ceil((now + 1) / step) * step;
  return { from: to - Math.ceil(span.last / step) * step, to, step };
}

const within = (seconds: number) => Math.round(Math.min(LONGEST, Math.max(SHORTEST, seconds)));

/** Zooms around the middle of a range; a live one keeps its end. */
export function zoom(span: Span, factor: number, now: number): Span {
  if (isLive(span)) return { last: within(span.last * factor) };
  const length = within((span.to - span.from) * factor);
  const middle = (span.from + span.to) / 2;
  const to = Math.min(Math.round(middle + length / 2), now + 1);
  return { from: to - length, to };
}

/** Moves a range by a share of its length. Past the newest second it becomes live. */
export function move(span: Span, share: number, now: number): Span {
  const length = lengthOf(span);
  const { from, to } = isLive(span) ? { from: now + 1 - length, to: now + 1 } : span;
  const by = Math.round(length * share) || Math.sign(share);
  if (to + by > now) return share > 0 ? { last: length } : { from: now + 1 - length, to: now + 1 };
  return { from: Math.max(0, from + by), to: Math.max(length, to + by) };
}

export function pause(span: Span, now: number): Span {
  return isLive(span) ? { from: now + 1 - span.last, to: now + 1 } : span;
}

/** The live range of the same length. */
export function forward(span: Span): Span {
  return { last: lengthOf(span) };
}

const TICKS = [
  1,
  2,
  5,
  10,
  15,
  30,
  60,
  120,
  300,
  600,
  900,
  1800,
  3600,
  7200,
  10_800,
  21_600,
  43_200,
  DAY,
  2 * DAY,
  WEEK,
  2 * WEEK,
  MONTH,
  91 * DAY,
] as const;

export interface Tick {
  at: number;
  text: string;
  day: boolean;
}

/** Axis marks at round times of the local time zone, at least `apart` pixels apart. */
export function ticks(from: number, to: number, width: number, apart = 78): Tick[] {
  if (!(to > from) || !(width > 0)) return [];
  const every = TICKS.find((tick) => (tick / (to - from)) * width >= apart) ?? TICKS.at(-1)!;
  const zone = -new Date(from * 1000).getTimezoneOffset() * 60;
  const list: Tick[] = [];
  for (let at = Math.ceil((from + zone) / every) * every - zone; at < to; at += every)
    list.push({ at, ...mark(at, every) });
  return list;
}

const two = (number: number) => String(number).padStart(2, "0");

function mark(at: number, every: number): { text: string; day: boolean } {
  const date = new Date(at * 1000);
  const midnight = date.getHours() === 0 && date.getMinutes() === 0 && date.getSeconds() === 0;
  if (every >= DAY || midnight) return { text: `${two(date.getMonth() + 1)}-${two(date.getDate())}`, day: true };
  return {
    text: `${two(date.getHours())}:${two(date.getMinutes())}${every < 60 ? `:${two(date.getSeconds())}` : ""}`,
    day: false,
  };
}

/** "15:49:35", preceded by the date if it is not today. */
export function clock(second: number, now: number = Date.now() / 1000): string {
  const date = new Date(second * 1000);
  const text = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return date.toDateString() === new Date(now * 1000).toDateString()
    ? text
    : `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${text}`;
}

/** "1 minute", "30 days", "90 seconds". */
export function lengthText(seconds: number): string {
  for (const [unit, name] of [
    [DAY, "day"],
    [HOUR, "hour"],
    [MINUTE, "minute"],
  ] as const) {
    if (seconds >= unit && seconds % unit === 0) return `${seconds / unit} ${name}${seconds === unit ? "" : "s"}`;
  }
  if (seconds > 2 * DAY) return `${(seconds / DAY).toFixed(1)} days`;
  if (seconds > 2 * HOUR) return `${(seconds / HOUR).toFixed(1)} hours`;
  if (seconds > 5 * MINUTE) return `${(seconds / MINUTE).toFixed(1)} minutes`;
  return `${seconds} seconds`;
}
