import { defineConfig } from "vitest/config";

// The browser shares the machine with other processes: a failed test is retried once, and fails if
// it fails again.
export default defineConfig({
  test: {
    include: ["test/e2e/*.test.ts"],
    testTimeout: 60_000,
    hookTimeout: 30_000,
    expect: { poll: { timeout: 10_000 } },
    fileParallelism: false,
    maxWorkers: 1,
    retry: 1,
  },
});
