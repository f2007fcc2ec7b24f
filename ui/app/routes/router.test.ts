import { expect, test } from "vitest";
import { placeBehind } from "./router.svelte";

test("next leads only to pages of this origin", () => {
  const of = (next: string) => placeBehind(new URLSearchParams({ next }));
  expect(of("/analytics?span=60")).toBe("/analytics?span=60");
  for (const away of ["//evil.example/", "/\\evil.example", "https://evil.example/", "javascript:alert(1)", ""])
    expect(of(away)).toBe("/");
  expect(placeBehind(new URLSearchParams())).toBe("/");
});
