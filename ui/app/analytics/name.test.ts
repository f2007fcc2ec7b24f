import { describe, expect, test } from "vitest";
import { drill, exactly, parse, range, shown, text } from "./name";

describe("names of statistics", () => {
  test("parsed names are formatted back", () => {
    for (const name of [
      "nfs3.ops",
      "nfs3.ops[op]",
      "nfs3.ops[op=read][client]",
      "arc.accesses[hit/miss]",
      "io.disks[utilization=95][disk]",
      "nfs4-1.bytes[share=tank/home][file=/a \\[x\\]/b\\\\c=d][latency]",
    ])
      expect(text(parse(name)!).replace("\\[", "[")).toBe(name.replace("\\[", "["));
    expect(parse("nfs3.ops[file=/a \\]/b\\\\c]")!.predicates).toEqual([{ field: "file", value: "/a ]/b\\c" }]);
  });
  test("invalid names are recognised", () => {
    for (const name of ["", "nfs3", "NFS.ops", "nfs3.ops[op", "nfs3.ops[op][client]", "nfs3.ops[op]x", "nfs3.ops[a\\"])
      expect(parse(name), name).toBeNull();
  });
  test("drilling down adds a bracket, and a second value of a field replaces the first", () => {
    const reads = drill(parse("nfs3.ops[op]")!, "op", "read", "client");
    expect(text(reads)).toBe("nfs3.ops[op=read][client]");
    expect(text(drill(reads, "client", "10.0.0.7", "file"))).toBe("nfs3.ops[op=read][client=10.0.0.7][file]");
    expect(text(drill(reads, "op", "write", null))).toBe("nfs3.ops[op=write]");
    expect(text(drill(reads, "file", "/odd]name\\", "latency"))).toBe(
      "nfs3.ops[op=read][file=/odd\\]name\\\\][latency]",
    );
  });
  test("ranges have the shortest exact notation", () => {
    expect(range(1_000_000, 2_000_000, "ns")).toBe("1ms..2ms");
    expect(range(104_000, null, "ns")).toBe("104us..");
    expect(range(0, 8192, "bytes")).toBe("0..8K");
    expect(exactly(1_500_001, "ns")).toBe("1500001ns");
    expect(shown(104_000, "ns")).toBe("104 µs");
    expect(shown(1536, "bytes")).toBe("1.5 KiB");
  });
});
