//! Statistics of an imaginary filer: some ten clients read and write, one of them slowly, one reads
//! a file sequentially, and 0.3 % of all operations take far longer. Computed from the second
//! alone, so that the same time always gives the same values, and the cells of each breakdown add
//! up to the raw count.

import type { Schemas } from "../app/api/client";
import { axisOf, parse, text, type Name } from "../app/analytics/name";
import { bucketOf, buckets, schemeOf } from "../app/analytics/scheme";
import { START } from "./data";

type Column = Schemas["StatisticColumn"];

const FIELDS: Record<string, string> = {
  op: "type of operation",
  client: "client",
  user: "user",
  share: "share",
  file: "file name",
  latency: "latency",
  size: "size",
  offset: "offset",
  "hit/miss": "hit or miss",
  result: "result",
  logwait: "wait for the intent log",
  txgwait: "wait for a transaction group",
  diskwait: "wait for disks",
  pool: "pool",
  disk: "disk",
  utilization: "percent utilization",
  device: "device",
  direction: "direction",
  mode: "CPU mode",
  cpu: "CPU identifier",
};
const fields = (names: string): Schemas["StatisticField"][] =>
  names.split(" ").map((name) => ({ name, title: FIELDS[name]!, heat_map: axisOf(name) !== null }));
const NFS = "op client user share file hit/miss result latency size offset logwait txgwait diskwait";

export const catalogue: Schemas["Statistic"][] = (
  [
    [
      "cpu.utilization",
      "CPU",
      "CPU: percent utilization",
      "percent",
      true,
      "mode cpu",
      "Utilization of this machine's processors.",
    ],
    [
      "arc.accesses",
      "Cache",
      "ARC accesses",
      "accesses",
      false,
      "hit/miss client user share file op",
      "Lookups of data and metadata in the cache in memory: hits, misses, and hits on blocks that were read ahead.",
    ],
    ["arc.size", "Cache", "ARC size", "bytes", true, "pool", "Memory that the cache takes."],
    [
      "io.disks",
      "Disk",
      "Disks",
      "disks",
      true,
      "utilization disk",
      "Devices, by the share of time during which they were busy.",
    ],
    [
      "io.ops",
      "Disk",
      "Disk: I/O operations",
      "ops",
      false,
      "op pool disk result latency size offset",
      "Reads and writes of devices.",
    ],
    [
      "io.bytes",
      "Disk",
      "Disk: I/O bytes",
      "bytes",
      false,
      "op pool disk result latency size offset",
      "Bytes read from and written to devices.",
    ],
    [
      "nic.kilobytes",
      "Network",
      "Network: device bytes",
      "bytes",
      false,
      "device direction",
      "Bytes sent and received by network devices.",
    ],
    [
      "nfs3.ops",
      "Protocol",
      "NFSv3 operations",
      "ops",
      false,
      NFS,
      "Completed operations, timed from the arrival of the request's last byte to the reply.",
    ],
    [
      "nfs3.bytes",
      "Protocol",
      "NFSv3 bytes",
      "bytes",
      false,
      "op client user share file latency size offset",
      "Bytes of files read and written.",
    ],
    [
      "nfs4-1.ops",
      "Protocol",
      "NFSv4.1 operations",
      "ops",
      false,
      NFS,
      "Completed operations, timed from the arrival of the request's last byte to the reply.",
    ],
    [
      "cap.percentfull",
      "Capacity",
      "Capacity: percent of usable space used",
      "percent",
      true,
      "pool",
      "Percentage of the space for datasets that is used.",
    ],
    [
      "health.devices",
      "Health",
      "Health: devices that need attention",
      "devices",
      true,
      "pool",
      "Devices that are not in service or had errors.",
    ],
    [
      "health.certificatedays",
      "Health",
      "Health: days until the certificate expires",
      "days",
      true,
      "pool",
      "Days until the certificate for HTTPS expires.",
    ],
    [
      "cap.percentused",
      "Capacity",
      "Capacity: percent used",
      "percent",
      true,
      "pool",
      "Percentage of the pool's space that is allocated.",
    ],
  ] as const
).map(([name, category, title, unit, level, names, help]) => ({
  name,
  category,
  title,
  unit,
  level,
  help,
  fields: fields(names),
}));

/** Names that clients may choose, with arbitrary contents. */
export const HOSTILE = [
  "/home/eve/<img src=x onerror=\"document.title='owned'\">.txt",
  "/home/eve/invoice\u202efdp.exe",
  "/home/eve/line\nbreak\u0007\u001b[31m.log",
  "/home/eve/\u200b",
];
const WORDS: Record<string, readonly (readonly [string, number])[]> = {
  op: [
    ["read", 0.55],
    ["write", 0.2],
    ["getattr", 0.12],
    ["lookup", 0.08],
    ["commit", 0.03],
    ["readdirplus", 0.02],
  ],
  client: Array.from({ length: 10 }, (_, nth) => [`192.168.1.${20 + nth * 3}`, nth === 6 ? 0.02 : 0.108] as const),
  user: [
    ["ann", 0.5],
    ["bob", 0.3],
    ["eve", 0.15],
    ["root", 0.05],
  ],
  share: [
    ["tank/home", 0.45],
    ["tank/media", 0.35],
    ["tank/vm", 0.2],
  ],
  file: [
    ["/media/films/stalker.mkv", 0.28],
    ["/home/ann/projects/build/main.o", 0.16],
    ["/home/ann/projects/src/lib.rs", 0.1],
    ["/home/ann/mail/inbox", 0.1],
    ["/vm/builder.img", 0.14],
    ["/vm/mail.img", 0.1],
    ...HOSTILE.map((name) => [name, 0.02] as const),
    ["<other>", 0.04],
  ],
  "hit/miss": [
    ["data hits", 0.62],
    ["metadata hits", 0.2],
    ["prefetched data hits", 0.1],
    ["data misses", 0.05],
    ["metadata misses", 0.03],
  ],
  result: [
    ["ok", 0.998],
    ["ENOENT", 0.002],
  ],
  pool: [
    ["tank", 0.8],
    ["archive", 0.2],
  ],
  disk: Array.from({ length: 4 }, (_, nth) => [`/srv/weir-data/disk${nth}`, nth === 2 ? 0.31 : 0.23] as const),
  device: [
    ["eth0", 0.52],
    ["eth1", 0.46],
    ["lo", 0.02],
  ],
  direction: [
    ["in", 0.3],
    ["out", 0.7],
  ],
  mode: [
    ["user", 0.7],
    ["kernel", 0.3],
  ],
  cpu: [
    ["0", 0.52],
    ["1", 0.48],
  ],
};

/** A pseudorandom number from 0 to 1, from two numbers. */
function noise(a: number, b: number): number {
  let x = Math.imul(a ^ 0x9e3779b9, 0x85ebca6b) ^ Math.imul(b + 0x165667b1, 0xc2b2ae35);
  x = Math.imul(x ^ (x >>> 15), 0x2c1b3c6d);
  x = Math.imul(x ^ (x >>> 12), 0x297a2d39);
  return ((x ^ (x >>> 15)) >>> 0) / 2 ** 32;
}

const GAP = [START + 3 * 86400 + 1100, START + 3 * 86400 + 1160] as const;
export const recordedAt = (second: number) => second > START - 27 * 86400 && !(second >= GAP[0] && second < GAP[1]);

/** Values of one operation in a second: latency in ns, size and offset in bytes, percent busy. */
function sample(field: string, second: number, nth: number): number {
  const dice = noise(second, nth * 7 + field.length);
  const bell = (noise(second, nth * 3 + 1) + noise(second, nth * 3 + 2) + noise(second, nth * 5 + 3)) / 3;
  switch (field) {
    case "latency": {
      if (dice < 0.003) return 690_000 + bell * 40_000;
      if (dice < 0.06) return 180_000 + bell * 240_000 + 60_000 * Math.sin(second / 40);
      return 24_000 + bell ** 2 * 150_000 * (0.8 + 0.25 * Math.sin(second / 90));
    }
    case "logwait":
    case "txgwait":
    case "diskwait":
      return dice < 0.7 ? 0 : bell ** 3 * 4_000_000;
    case "size":
      return dice < 0.7 ? 8192 : dice < 0.9 ? 131_072 : 512 + Math.floor(bell * 4096);
    case "offset":
      return dice < 0.55
        ? ((second % 90) / 90) * 900e6 + nth * 2e5
        : dice < 0.62
          ? bell * 3e8
          : noise(second * 3, nth) * 1e9;
    default:
      return 20 + bell * 70 * (0.6 + 0.4 * Math.sin(second / 55));
  }
}

function total(name: Name, second: number): number {
  const statistic = catalogue.find(({ name: raw }) => raw === name.raw)!;
  const swing =
    0.75 + 0.2 * Math.sin(second / 37) + 0.1 * noise(second, 1) + 0.25 * Math.max(0, Math.sin(second / 9000));
  const base =
    statistic.unit === "percent"
      ? 60
      : statistic.unit === "disks"
        ? 4
        : statistic.unit === "bytes"
          ? statistic.level
            ? 9e8
            : 1.1e8
          : name.raw === "arc.accesses"
            ? 5200
            : name.raw === "io.ops"
              ? 640
              : 1850;
  const share = name.predicates.reduce(
    (part, { field, value }) =>
      part * (axisOf(field) ? 0.2 : (WORDS[field]?.find(([word]) => word === value)?.[1] ?? 0)),
    1,
  );
  return Math.round(base * swing * share);
}

function column(name: Name, start: number, step: number): { column: Column; keys: [number, Schemas["CellKey"]][] } {
  const level = catalogue.find(({ name: raw }) => raw === name.raw)!.level;
  const one = total(name, start);
  const all = one * step;
  const axis = axisOf(name.breakdown);
  const keys: [number, Schemas["CellKey"]][] = [];
  const cells: number[] = [];
  let [average, max]: [number | undefined, number | undefined] = [undefined, undefined];
  if (axis) {
    const scheme = buckets(schemeOf(name.breakdown, axis));
    const counts = new Map<number, number>();
    const samples = Math.min(all, 420);
    let sum = 0;
    for (let nth = 0; nth < samples; nth += 1) {
      const value = sample(name.breakdown!, start, nth);
      const bucket = bucketOf(scheme, value);
      // Each operation is weighted so that the sum is exact.
      const weight = Math.floor(((nth + 1) * all) / samples) - Math.floor((nth * all) / samples);
      counts.set(bucket, (counts.get(bucket) ?? 0) + weight);
      sum += value * weight;
      max = Math.max(max ?? 0, Math.round(value));
    }
    average = all > 0 ? sum / all : undefined;
    for (const [bucket, count] of [...counts].sort(([a], [b]) => a - b)) {
      cells.push(bucket, count);
      const to = scheme.to[bucket]!;
      keys.push([bucket, Number.isFinite(to) ? { from: scheme.from[bucket]!, to } : { from: scheme.from[bucket]! }]);
    }
  } else if (name.breakdown) {
    const words = WORDS[name.breakdown] ?? [];
    let left = all;
    words.forEach(([word, share], nth) => {
      const wave = 1 + 0.25 * Math.sin(start / (20 + nth * 7) + nth) * (level ? 0.2 : 1);
      const part = nth === words.length - 1 ? left : Math.min(left, Math.round(all * share * wave));
      left -= part;
      if (part > 0) cells.push(nth, part);
      keys.push([nth, word]);
    });
  }
  return { column: { start, seconds: step, total: all, average, max, cells }, keys };
}

export class Refusal extends Error {}

function nameOf(query: URLSearchParams): Name {
  const name = parse(query.get("name") ?? "");
  const statistic = name && catalogue.find(({ name: raw }) => raw === name.raw);
  if (!name || !statistic)
    throw new Refusal(`invalid statistic '${query.get("name")}': at 0: there is no such statistic`);
  const unknown = [...name.predicates.map(({ field }) => field), ...(name.breakdown ? [name.breakdown] : [])].find(
    (field) => !statistic.fields.some((known) => known.name === field),
  );
  if (unknown) throw new Refusal(`invalid statistic '${query.get("name")}': at 8: '${name.raw}' has no '${unknown}'`);
  return name;
}

export function titleOf(name: Name): string {
  const words = name.predicates
    .map(({ field, value }) => (field === "op" ? ` of type ${value}` : ` for ${FIELDS[field]} ${value}`))
    .join("");
  return (
    (catalogue.find(({ name: raw }) => raw === name.raw)?.title ?? name.raw) +
    words +
    (name.breakdown ? ` broken down by ${FIELDS[name.breakdown]}` : "")
  );
}

export function query(parameters: URLSearchParams): Schemas["StatisticData"] {
  const name = nameOf(parameters);
  const now = Math.floor(Date.now() / 1000);
  const to = Number(parameters.get("to") ?? now);
  const from = Number(parameters.get("from") ?? to - 60);
  const step = Number(parameters.get("step") ?? 1);
  if (!(from < to)) throw new Refusal(`from: ${from} must be less than ${to}`);
  if ((to - from) / step > 20_000)
    throw new Refusal("columns are more than 20000: ask for a shorter time or a larger step");
  const statistic = catalogue.find(({ name: raw }) => raw === name.raw)!;
  const keys: Record<string, Schemas["CellKey"]> = {};
  const columns: Column[] = [];
  for (let start = from - (from % step); start < Math.min(to, now); start += step) {
    if (!recordedAt(start)) continue;
    const made = column(name, start, step);
    columns.push(made.column);
    for (const [key, value] of made.keys) keys[key] = value;
  }
  return {
    name: text(name),
    title: titleOf(name),
    unit: statistic.unit,
    level: statistic.level,
    step,
    closed: now,
    columns,
    keys,
  };
}

export function explain(parameters: URLSearchParams): Schemas["StatisticExplanation"] {
  const name = nameOf(parameters);
  const inside = Math.max(1, Math.round((Number(parameters.get("to")) - Number(parameters.get("from"))) * 5.5));
  const outside = 108_000;
  const field = (
    of: string,
    score: number,
    values: readonly (readonly [string, number, number])[],
    more = 0,
  ): Schemas["ExplainedField"] => ({
    field: of,
    title: FIELDS[of]!,
    score,
    more,
    values: values.map(([value, share, among]) => ({
      value,
      inside: Math.round(inside * share),
      outside: Math.round(outside * among),
      score: Math.max(0, share - among),
    })),
  });
  const narrowed = new Set(name.predicates.map(({ field: of }) => of));
  return {
    inside,
    outside,
    fields: [
      field(
        "client",
        0.93,
        [
          ["192.168.1.38", 0.95, 0.02],
          ["192.168.1.20", 0.02, 0.11],
          ["192.168.1.23", 0.01, 0.108],
        ],
        7,
      ),
      field(
        "file",
        0.71,
        [
          [HOSTILE[0]!, 0.6, 0.02],
          ["/home/ann/mail/inbox", 0.3, 0.1],
          [HOSTILE[1]!, 0.05, 0.02],
        ],
        6,
      ),
      field(
        "op",
        0.4,
        [
          ["commit", 0.5, 0.03],
          ["write", 0.45, 0.2],
        ],
        4,
      ),
      field("hit/miss", 0.12, [["data misses", 0.17, 0.05]], 4),
      field("share", 0.03, [["tank/home", 0.48, 0.45]], 2),
    ].filter((one) => !narrowed.has(one.field)),
    times_inside: {
      latency_ns: 702_000,
      queue_wait_ns: 4_000,
      log_wait_ns: 611_000,
      txg_wait_ns: 0,
      disk_wait_ns: 38_000,
    },
    times_outside: {
      latency_ns: 91_000,
      queue_wait_ns: 3_000,
      log_wait_ns: 2_000,
      txg_wait_ns: 0,
      disk_wait_ns: 21_000,
    },
  };
}

const COUNTED = [
  "arc.accesses[hit/miss]",
  "arc.size",
  "cpu.utilization",
  "cpu.utilization[mode]",
  "io.bytes[op]",
  "io.ops[disk]",
  "nfs3.ops",
  "nfs3.ops[op]",
  "nic.kilobytes[device]",
];

export function freshCounted(): Schemas["Counted"][] {
  return COUNTED.map((name, nth) => counted(name, nth + 1, true, START + nth * 4000));
}

export function counted(
  name: string,
  id: number,
  archived: boolean,
  created = Math.floor(Date.now() / 1000),
): Schemas["Counted"] {
  const parsed = parse(name);
  if (!parsed) throw new Refusal(`invalid statistic '${name}': at 0: expected MODULE.STATISTIC`);
  const size = name.length * 37;
  return {
    id,
    name: text(parsed),
    title: titleOf(parsed),
    created,
    suspended: false,
    archived,
    incore_bytes: size * 1024,
    ondisk_bytes: archived ? size * 21_000 : 0,
    cost_ns: name.includes("[") ? 2 + (size % 11) : 0.4,
  };
}

/** One second of several statistics, as sent by the stream. */
export function columnsOf(names: readonly string[], second: number): Schemas["LiveColumns"] {
  return {
    second,
    statistics: names.map((text) => {
      const name = nameOf(new URLSearchParams({ name: text }));
      if (!recordedAt(second)) return { name: text, keys: {} };
      const made = column(name, second, 1);
      return { name: text, column: made.column, keys: Object.fromEntries(made.keys) };
    }),
  };
}

export function freshWorksheets(): Schemas["Worksheet"][] {
  return [
    {
      id: 1,
      title: "Slow writes of March",
      comment: "Who waits for the intent log.",
      owner: "ann",
      created: START,
      changed: START + 86_400,
      span: { seconds: 3600 },
      graphs: [
        { name: "nfs3.ops[op=write][latency]", view: { v: "outliers=none" } },
        { name: "nfs3.ops[op=write][client]", view: { v: "kind=line" } },
      ],
    },
    {
      id: 2,
      title: "From protocol to disk",
      comment: "",
      owner: "bob",
      created: START + 4000,
      changed: START + 4000,
      span: { seconds: 60 },
      graphs: [
        { name: "nfs3.ops[latency]", view: {} },
        { name: "io.ops[latency]", view: {} },
      ],
    },
  ];
}
