import { defineConfig } from 'vitest/config';

/**
 * Projects by what they need: `unit` needs nothing, the others need root and real Open vSwitch, namespaces or a lab.
 * Files of one project that share the machine's namespaces run one after another.
 */
export default defineConfig({
  test: {
    projects: [
      { test: { name: 'unit', include: ['src/**/*.test.ts', 'test/architecture.test.ts', 'test/docs/*.test.ts'], testTimeout: 20_000 } },
      { test: { name: 'integration', include: ['test/integration/**/*.test.ts', 'test/contract/**/*.test.ts'], fileParallelism: false, testTimeout: 60_000, hookTimeout: 60_000 } },
      { test: { name: 'e2e', include: ['test/e2e/**/*.test.ts'], fileParallelism: false, testTimeout: 180_000, hookTimeout: 180_000 } },
    ],
  },
});
