import { describe, expect, test } from "vitest";
import { describeOptions, everybody, toOptions } from "./sharenfs";

describe("sharenfs and its form", () => {
  test("the form parses its own output", () => {
    const rules = [
      { hosts: "10.0.0.0/24", writable: true },
      { hosts: "fd00::/8", writable: true },
      { hosts: "backup.example", writable: false },
    ];
    const text = toOptions(rules, false);
    expect(text).toBe("rw=@10.0.0.0/24:@[fd00::/8],ro=backup.example,no_root_squash");
    expect(describeOptions(text)).toEqual(rules);
  });
  test("clients may be allowed from any port", () => {
    const rules = [{ hosts: "127.0.0.1", writable: true }];
    expect(toOptions(rules, true, true)).toBe("rw=@127.0.0.1,insecure");
    expect(describeOptions("rw=@127.0.0.1,insecure")).toEqual(rules);
    expect([everybody(true, false), everybody(true, true), everybody(false, true)]).toEqual([
      "on",
      "rw,insecure",
      "rw,no_root_squash,insecure",
    ]);
  });
  test("several hosts in one option become several rules", () => {
    expect(toOptions([{ hosts: "a.example, b.example", writable: true }], true)).toBe("rw=a.example:b.example");
  });
  test("on, off and an empty text allow every host", () => {
    expect(["on", "off", "", "rw,no_root_squash"].map(describeOptions)).toEqual([[], [], [], []]);
  });
  test("text that the form cannot represent stays text", () => {
    for (const text of ["all_squash,anonuid=99", "rw,ro=@10.0.0.0/8", "sec=krb5p", "async"])
      expect(describeOptions(text)).toBeNull();
  });
  test("without hosts there is no share", () => {
    expect(toOptions([{ hosts: "", writable: true }], true)).toBe("");
  });
});
