import { defineConfig } from 'vitest/config';

/**
 * Projects by what they need, in the order in which they run: `unit` needs nothing; `integration` needs root, real Open
 * vSwitch and namespaces; `e2e` needs a whole lab; `runtime` needs a lab and container runtimes,
 * `upgrade` a lab and the repository's history, and neither is part of `npm test`. Files that share the machine's namespaces
 * run one after another. Deadlines are for a machine that does other things as well: they tell that something hangs, not how
 * fast it is.
 */
const patient = { expect: { poll: { timeout: 10_000 } } };
const oneAfterAnother = { fileParallelism: false, maxWorkers: 1 };

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          ...patient,
          name: 'unit',
          include: [
            'src/**/*.test.ts',
            'test/architecture.test.ts',
            'test/wall-clock.test.ts',
            'test/docs/*.test.ts',
            'test/model/*.test.ts',
            'test/support/*.test.ts',
          ],
          testTimeout: 60_000,
          sequence: { groupOrder: 1 },
        },
      },
      {
        test: {
          ...patient,
          ...oneAfterAnother,
          name: 'integration',
          include: ['test/integration/**/*.test.ts', 'test/contract/**/*.test.ts'],
          testTimeout: 60_000,
          hookTimeout: 60_000,
          sequence: { groupOrder: 2 },
        },
      },
      {
        test: {
          ...patient,
          ...oneAfterAnother,
          name: 'e2e',
          include: ['test/e2e/**/*.test.ts'],
          testTimeout: 180_000,
          hookTimeout: 180_000,
          sequence: { groupOrder: 3 },
        },
      },
      {
        test: {
          ...patient,
          ...oneAfterAnother,
          name: 'runtime',
          include: ['test/runtime/**/*.test.ts'],
          testTimeout: 180_000,
          hookTimeout: 180_000,
          sequence: { groupOrder: 4 },
        },
      },
      {
        test: {
          ...patient,
          ...oneAfterAnother,
          name: 'upgrade',
          include: ['test/upgrade/**/*.test.ts'],
          testTimeout: 300_000,
          hookTimeout: 300_000,
          sequence: { groupOrder: 5 },
        },
      },
    ],
  },
});
