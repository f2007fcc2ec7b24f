import { defineConfig } from "vitest/config";

// A browser shares the machine with whatever else runs there: what fails is tried once more, and counts when it fails again.
export default defineConfig({ test: { include: ["test/e2e/*.test.ts"], testTimeout: 60_000, hookTimeout: 30_000, expect: { poll: { timeout: 10_000 } }, fileParallelism: false, maxWorkers: 1, retry: 1 } });
