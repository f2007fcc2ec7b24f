import { expect, test } from "vitest";
import { readable, shortened } from "./words";

test("invisible and bidirectional characters are shown by their code points", () => {
  expect(readable("a\u202egpj.exe")).toBe("a⟨U+202E⟩gpj.exe");
  expect(readable("line\nbreak\u0007\u001b[31m")).toBe("line⟨U+000A⟩break⟨U+0007⟩⟨U+001B⟩[31m");
  expect(readable("zero\u200bwidth\ufeff")).toBe("zero⟨U+200B⟩width⟨U+FEFF⟩");
  expect(readable(" end ")).toBe("␣end␣");
  expect(readable("")).toBe("(empty)");
  expect(readable("\ud800half")).toBe("⟨U+D800⟩half");
});
test("letters of all languages and markup characters are unchanged", () => {
  for (const name of ["<img src=x onerror=alert(1)>", "日本語.txt", "ملف.txt", "é", "a b", "👍"])
    expect(readable(name)).toBe(name);
});
test("long names are shortened in the middle", () => {
  expect(shortened("/a/very/long/path/to/a/file.txt", 12)).toBe("/a/v…ile.txt");
  expect(shortened("short", 12)).toBe("short");
});
