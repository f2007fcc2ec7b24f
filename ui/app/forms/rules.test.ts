import { describe, expect, test } from "vitest";
import { datasetNameProblem, passwordProblem, poolNameProblem, userNameProblem } from "./rules";

describe("names and passwords", () => {
  test("user names follow the rules of the daemon", () => {
    expect(["admin", "a.b-c_1"].map(userNameProblem)).toEqual([null, null]);
    for (const name of ["", "Admin", "1st", "a b", "x".repeat(33)]) expect(userNameProblem(name)).not.toBeNull();
  });
  test("passwords are measured in bytes", () => {
    expect(passwordProblem("123456789")).not.toBeNull();
    expect(passwordProblem("ääääää")).toBeNull();
    expect(passwordProblem("ä".repeat(129))).not.toBeNull();
  });
  test("names of datasets and pools follow the rules of zfs", () => {
    expect(["home", "home/ann", "vm 1", "a:b"].map(datasetNameProblem)).toEqual([null, null, null, null]);
    for (const name of ["", "/a", "a//b", "a@b", "..", "a/../b", "a%b"])
      expect(datasetNameProblem(name)).not.toBeNull();
    expect(["tank", "rz"].map(poolNameProblem)).toEqual([null, null]);
    for (const name of ["", "1a", "mirror", "raidz1", "log", "a/b"]) expect(poolNameProblem(name)).not.toBeNull();
  });
});
