//! The data of the mock: a healthy raidz1 pool of four image files, a degraded mirror, encrypted
//! datasets, volumes, snapshots, clients that connect and disconnect. Typed by openapi.json, so
//! that a shape that the daemon does not have does not compile.

import type { Schemas } from "../app/api/client";

const G = 1024 ** 3;
const M = 1024 ** 2;
export const START = Math.floor(Date.now() / 1000) - 3 * 86400 - 4321;

/** A small random number generator with a fixed seed, so that each start serves the same data. */
export function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

const guid = (seed: number) =>
  String(BigInt(seed) * 7919n * 1_000_003_123_457n + 12_689_509_970_353_140_250n).slice(0, 19);

function device(name: string, kind: string, seed: number, more: Partial<Schemas["Device"]> = {}): Schemas["Device"] {
  return {
    name,
    kind,
    class: "normal",
    guid: guid(seed),
    state: "ONLINE",
    path: kind === "file" || kind === "disk" ? name : undefined,
    read_errors: 0,
    write_errors: 0,
    checksum_errors: 0,
    slow_operations: 0,
    self_healed_bytes: 0,
    read_operations: 120_000 + seed,
    read_bytes: 3 * G + seed,
    write_operations: 80_000 + seed,
    write_bytes: 2 * G + seed,
    size_bytes: 0,
    allocated_bytes: 0,
    children: [],
    ...more,
  };
}

const ok: Schemas["Health"] = { ok: true };

function pools(): Schemas["PoolDetail"][] {
  const features = [
    "async_destroy",
    "empty_bpobj",
    "lz4_compress",
    "spacemap_histogram",
    "enabled_txg",
    "hole_birth",
    "extensible_dataset",
    "embedded_data",
    "large_blocks",
    "large_dnode",
    "sha512",
    "skein",
    "edonr",
    "userobj_accounting",
    "encryption",
    "project_quota",
    "device_removal",
    "allocation_classes",
    "zstd_compress",
    "draid",
    "blake3",
    "block_cloning",
    "head_errlog",
    "vdev_zaps_v2",
    "raidz_expansion",
    "fast_dedup",
    "longname",
    "large_microzap",
  ].map((name, index): Schemas["Feature"] => ({
    name,
    state: index % 9 === 8 ? "disabled" : index % 3 === 0 ? "active" : "enabled",
  }));
  const disks = [0, 1, 2, 3].map((nth) =>
    device(`/srv/weir-data/disk${nth}`, "file", 100 + nth, { size_bytes: 16 * G }),
  );
  return [
    {
      name: "tank",
      guid: guid(1),
      state: "ONLINE",
      health: ok,
      read_only: false,
      size_bytes: 63.5 * G,
      allocated_bytes: 27.9 * G,
      free_bytes: 35.6 * G,
      capacity_percent: 43,
      fragmentation_percent: 7,
      used_bytes: 20.3 * G,
      available_bytes: 25.1 * G,
      dedup_ratio: 1,
      error_count: 0,
      txg: 48_211,
      scan: {
        kind: "scrub",
        state: "finished",
        started: START - 80_000,
        ended: START - 79_200,
        done_bytes: 27.7 * G,
        total_bytes: 27.7 * G,
        repaired_bytes: 0,
        errors: 0,
      },
      devices: device("tank", "root", 10, {
        children: [
          device("raidz1-0", "raidz", 11, {
            size_bytes: 63.5 * G,
            allocated_bytes: 27.9 * G,
            fragmentation_percent: 7,
            children: disks,
          }),
          device("/srv/weir-data/log", "file", 130, { class: "log", size_bytes: 2 * G, allocated_bytes: 12 * M }),
        ],
      }),
      caches: [],
      spares: [device("/srv/weir-data/spare", "file", 140, { class: "spare", state: "AVAIL" })],
      features,
      damaged_files: [],
      warnings: [],
      activity: [],
    },
    {
      name: "archive",
      guid: guid(2),
      state: "DEGRADED",
      health: {
        ok: false,
        status:
          "Some devices have missing or foreign labels. The pool has enough redundancy to work without them, but is less protected.",
        action: "Replace the devices with 'zpool replace'.",
        see: "https://openzfs.github.io/openzfs-docs/msg/ZFS-8000-4J",
      },
      read_only: false,
      size_bytes: 3.62 * 1024 * G,
      allocated_bytes: 3.04 * 1024 * G,
      free_bytes: 0.58 * 1024 * G,
      capacity_percent: 84,
      fragmentation_percent: 31,
      used_bytes: 3.04 * 1024 * G,
      available_bytes: 0.46 * 1024 * G,
      dedup_ratio: 1.04,
      error_count: 0,
      txg: 1_940_028,
      devices: device("archive", "root", 20, {
        state: "DEGRADED",
        children: [
          device("mirror-0", "mirror", 21, {
            state: "DEGRADED",
            size_bytes: 3.62 * 1024 * G,
            allocated_bytes: 3.04 * 1024 * G,
            fragmentation_percent: 31,
            children: [
              device("ata-WDC_WD40EFRX-68N32N0_WD-WCC7K0AAAAAA", "disk", 22, {
                path: "/dev/disk/by-id/ata-WDC_WD40EFRX-68N32N0_WD-WCC7K0AAAAAA",
                checksum_errors: 3,
                self_healed_bytes: 384 * 1024,
                size_bytes: 3.64 * 1024 * G,
              }),
              device("ata-WDC_WD40EFRX-68N32N0_WD-WCC7K0BBBBBB", "disk", 23, {
                path: "/dev/disk/by-id/ata-WDC_WD40EFRX-68N32N0_WD-WCC7K0BBBBBB",
                state: "UNAVAIL",
                reason: "cannot open",
                read_errors: 12,
                write_errors: 47,
                slow_operations: 9,
              }),
            ],
          }),
        ],
      }),
      caches: [],
      spares: [],
      features: features.slice(0, 12),
      damaged_files: [],
      warnings: [],
      activity: [],
    },
  ];
}

function dataset(name: string, used: number, more: Partial<Schemas["Dataset"]> = {}): Schemas["Dataset"] {
  const pool = name.split("/")[0];
  return {
    name,
    kind: "filesystem",
    guid: guid(name.length * 31 + name.charCodeAt(name.length - 1)),
    created: START - 30 * 86400 + name.length * 977,
    used_bytes: Math.round(used),
    available_bytes: pool === "tank" ? 25.1 * G : 0.46 * 1024 * G,
    referenced_bytes: Math.round(used),
    compress_ratio: 1 + (name.length % 9) / 10,
    mountpoint: `/${name}`,
    mounted: false,
    key: "not_encrypted",
    children: 0,
    snapshots: 0,
    ...more,
  };
}

function datasets(many: number, snapshots: number): Schemas["Dataset"][] {
  const list: Schemas["Dataset"][] = [
    dataset("tank", 20.3 * G, { referenced_bytes: 198 * 1024, children: 5 }),
    dataset("tank/home", 9.1 * G, { referenced_bytes: 42 * 1024, children: 3, snapshots: 2 }),
    dataset("tank/home/ann", 5.2 * G, { snapshots: 1 }),
    dataset("tank/home/bob", 3.6 * G, { quota_bytes: 10 * G, available_bytes: 6.4 * G }),
    dataset("tank/home/eve", 301 * M),
    dataset("tank/media", 7.4 * G, { compress_ratio: 1.01 }),
    dataset("tank/private", 812 * M, { key: "available", children: 1 }),
    dataset("tank/private/papers", 310 * M, { key: "available" }),
    dataset("tank/vault", 96 * 1024, { key: "unavailable" }),
    dataset("tank/vm", 2.9 * G, { referenced_bytes: 96 * 1024, children: 2 }),
    dataset("tank/vm/builder", 1.9 * G, {
      kind: "volume",
      volume_bytes: 20 * G,
      mountpoint: undefined,
      mounted: undefined,
    }),
    dataset("tank/vm/mail", 1.0 * G, {
      kind: "volume",
      volume_bytes: 8 * G,
      mountpoint: undefined,
      mounted: undefined,
    }),
    dataset("archive", 3.04 * 1024 * G, { referenced_bytes: 96 * 1024, children: 2 }),
    dataset("archive/backup", 2.6 * 1024 * G, { compress_ratio: 1.62 }),
    dataset("archive/photos", 450 * G, { snapshots: 1 }),
  ];
  for (let nth = 0; nth < snapshots; nth += 1)
    list.push(
      dataset(`tank/media@hourly-${String(nth).padStart(6, "0")}`, (nth % 13) * M, {
        kind: "snapshot",
        holds: nth % 50 === 7 ? 1 : 0,
        clones: 0,
        referenced_bytes: 7 * G,
        available_bytes: undefined,
        mountpoint: undefined,
        mounted: undefined,
        created: START - (snapshots - nth) * 3600,
      }),
    );
  if (snapshots > 0) list.find((one) => one.name === "tank/media")!.snapshots = snapshots;
  for (let nth = 0; nth < many; nth += 1)
    list.push(dataset(`archive/backup/host${String(nth).padStart(6, "0")}`, (nth % 977) * M));
  if (many > 0) list.find((one) => one.name === "archive/backup")!.children = many;
  const snapshot = (name: string, used: number, refer: number): Schemas["Dataset"] =>
    dataset(name, used, {
      kind: "snapshot",
      holds: 0,
      clones: 0,
      referenced_bytes: refer,
      available_bytes: undefined,
      mountpoint: undefined,
      mounted: undefined,
    });
  list.push(
    snapshot("tank/home@monday", 0, 42 * 1024),
    snapshot("tank/home@tuesday", 12 * 1024, 42 * 1024),
    snapshot("tank/home/ann@before-upgrade", 610 * M, 4.9 * G),
    snapshot("archive/photos@2026-10-01", 3.1 * G, 430 * G),
  );
  return list;
}

export const definitions: Schemas["PropertyDefinition"][] = [
  [
    "compression",
    "choice",
    "Compresses what is written.",
    ["on", "off", "lz4", "zstd", "gzip", "lzjb", "zle"],
    "on",
    true,
  ],
  ["recordsize", "bytes", "Largest block of files.", [], "131072", true],
  ["quota", "bytes", "Most bytes that it and all below it may use.", [], "none", false],
  ["reservation", "bytes", "Bytes kept for it and all below it.", [], "none", false],
  ["sharenfs", "text", "Shares it by NFS.", [], "off", true],
  ["mountpoint", "text", "Where it is mounted.", [], "/NAME", true],
  ["atime", "choice", "Keeps when files were last read.", ["on", "off"], "on", true],
  ["sync", "choice", "When writes are safe.", ["standard", "always", "disabled"], "standard", true],
  ["readonly", "choice", "Takes no changes.", ["on", "off"], "off", true],
  [
    "checksum",
    "choice",
    "How blocks are checked.",
    ["on", "off", "fletcher4", "sha256", "sha512", "skein", "edonr", "blake3"],
    "on",
    true,
  ],
].map(([name, kind, help, choices, standard, inheritable]): Schemas["PropertyDefinition"] => ({
  name: name as string,
  of: "dataset",
  kind: kind as Schemas["ValueKind"],
  help: help as string,
  choices: choices as string[],
  default: standard as string,
  values: (choices as string[]).length
    ? (choices as string[]).join(" | ")
    : kind === "bytes"
      ? "none | a size such as 10G"
      : "text",
  editable: true,
  set_once: false,
  inheritable: inheritable as boolean,
  kinds: ["filesystem", "volume"],
}));
definitions.push(
  {
    name: "comment",
    of: "pool",
    kind: "text",
    help: "A few words for people.",
    values: "text",
    editable: true,
    set_once: false,
    inheritable: false,
    kinds: [],
  },
  {
    name: "autotrim",
    of: "pool",
    kind: "choice",
    help: "Whether freed space is trimmed automatically.",
    choices: ["on", "off"],
    default: "off",
    values: "on | off",
    editable: true,
    set_once: false,
    inheritable: false,
    kinds: [],
  },
);

export interface State {
  pools: Schemas["PoolDetail"][];
  datasets: Schemas["Dataset"][];
  holds: Schemas["Hold"][];
  /** Local properties: dataset -> property -> value. */
  local: Map<string, Map<string, string>>;
  poolProperties: Map<string, Map<string, string>>;
  jobs: Schemas["Job"][];
  events: Schemas["Event"][];
  users: Schemas["User"][];
  passwords: Map<string, string>;
  tokens: Schemas["Token"][];
  audit: Schemas["AuditEntry"][];
  clients: Schemas["Client"][];
  setupToken: string | null;
}

export function fresh({ many = 0, snapshots = 0, setup = false, clients = 9 } = {}): State {
  const dice = random(7);
  const kinds = [["nfs3"], ["nfs4.1"], ["nfs4.2"], ["nfs3", "nfs4.0"]];
  return {
    pools: pools(),
    datasets: datasets(many, snapshots),
    holds: [],
    local: new Map([
      ["tank", new Map([["compression", "zstd"]])],
      ["tank/home", new Map([["sharenfs", "rw=@192.168.1.0/24,ro=backup.example"]])],
      [
        "tank/media",
        new Map([
          ["sharenfs", "on"],
          ["recordsize", "1M"],
          ["atime", "off"],
        ]),
      ],
      ["tank/vault", new Map([["sharenfs", "on"]])],
      ["tank/home/bob", new Map([["quota", "10G"]])],
    ]),
    poolProperties: new Map(),
    jobs: [
      {
        id: 1,
        kind: "verify",
        target: "archive",
        state: "done",
        started_by: "ann",
        started: START + 3600,
        ended: START + 30_000,
        progress: { done_bytes: 3.04 * 1024 * G, total_bytes: 3.04 * 1024 * G, percent: 100, bytes_per_second: 0 },
        verification: {
          verdict: "damaged",
          txg: 1_939_800,
          blocks: 25_118_003,
          bytes: 3.04 * 1024 * G,
          damaged_blocks: 3,
          lost_blocks: 0,
          seconds: 26_400,
          notes: [],
          files: [
            { dataset: "archive/photos", path: "/2019/lisbon/IMG_2214.dng", lost: false, blocks: 2 },
            { dataset: "archive/backup", path: "/mail/2024-03.tar.zst", lost: false, blocks: 1 },
          ],
          devices: [
            { name: "/dev/disk/by-id/ata-WDC_WD40EFRX-68N32N0_WD-WCC7K0AAAAAA", bad_copies: 3, read_errors: 0 },
            {
              name: "/dev/disk/by-id/ata-WDC_WD40EFRX-68N32N0_WD-WCC7K0BBBBBB",
              absent: "cannot open",
              bad_copies: 0,
              read_errors: 12,
            },
          ],
        },
      },
    ],
    events: (
      [
        [3600 * 60, "service", "info", undefined, "weir serve started.", undefined],
        [3600 * 60 - 2, "pool", "info", "tank", "tank was imported.", undefined],
        [
          3600 * 60 - 3,
          "pool",
          "warning",
          "archive",
          "archive was imported DEGRADED: one device cannot be opened.",
          undefined,
        ],
        [
          3600 * 60 - 3,
          "device",
          "error",
          "archive",
          "ata-WDC_WD40EFRX-68N32N0_WD-WCC7K0BBBBBB cannot be opened.",
          undefined,
        ],
        [3600 * 44, "job", "info", "archive", "Verifying archive began.", "ann"],
        [
          3600 * 37,
          "job",
          "warning",
          "archive",
          "Verifying archive ended: damaged, nothing lost. 3 blocks have a wrong copy.",
          "ann",
        ],
        [7200, "login", "warning", "eve", "A login as eve failed.", undefined],
        [5400, "login", "info", "ann", "ann logged in.", "ann"],
        [5100, "share", "info", "tank/media", "tank/media is shared.", "ann"],
        [340, "dataset", "info", "tank/home/eve", "tank/home/eve was created.", "ann"],
      ] as const
    ).map(([ago, kind, severity, subject, message, by], index) => ({
      id: index + 1,
      time_ms: Date.now() - ago * 1000,
      kind,
      severity,
      subject,
      message,
      by,
    })),
    users: setup
      ? []
      : [
          { name: "ann", role: "administrator", created: START - 864_000, last_login: START + 250_000, sessions: 1 },
          { name: "bob", role: "operator", created: START - 600_000, sessions: 0, last_login: START - 90_000 },
          { name: "eve", role: "viewer", created: START - 200_000, sessions: 0 },
        ],
    passwords: new Map(
      setup
        ? []
        : [
            ["ann", "correct horse"],
            ["bob", "battery staple"],
            ["eve", "only looking"],
          ],
    ),
    tokens: [
      { id: 1, name: "prometheus", user: "ann", role: "viewer", created: START - 500_000, last_used: START + 258_000 },
    ],
    audit: [
      {
        time_ms: Date.now() - 340_000,
        who: "ann",
        from: "192.168.1.20",
        what: "createDataset",
        target: "tank/home/eve",
        outcome: "ok",
      },
      {
        time_ms: Date.now() - 7_200_000,
        who: "-",
        from: "192.168.1.77",
        what: "logIn",
        target: "eve",
        outcome: "denied",
        reason: "Wrong user or password.",
      },
    ],
    clients: Array.from({ length: clients }, (_, nth): Schemas["Client"] => ({
      address: `192.168.1.${20 + nth * 3}`,
      protocols: kinds[nth % kinds.length]!,
      connections: 1 + (nth % 3),
      since: START + 1000 * nth,
      last_seen: Math.floor(Date.now() / 1000),
      operations: Math.floor(dice() * 4e6),
      read_bytes: Math.floor(dice() * 90) * G,
      written_bytes: Math.floor(dice() * 20) * G,
      operations_per_second: 0,
      read_bytes_per_second: 0,
      written_bytes_per_second: 0,
    })),
    setupToken: setup ? "first-start-token" : null,
  };
}
