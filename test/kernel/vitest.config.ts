import { defineConfig } from 'vitest/config';
import { testTags } from '../support/test-tags.ts';

/**
 * Tests of `npm run test:kernel` in its virtual machine: the requested end-to-end tests, some of flows without an agent, and those of this
 * folder, with labs on the kernel's data path. Modules are loaded once for all files: emulated, that costs more than the tests.
 */
export default defineConfig({
  test: {
    name: 'kernel',
    root: `${import.meta.dirname}/../..`,
    include: [
      'test/kernel/**/*.test.ts',
      'test/e2e/**/*.test.ts',
      'test/ovs/**/*.test.ts',
      'test/integration/{admitted-traffic,pipeline-errors,pipeline-forgery,pipeline-hops,policy-*,probe-packets,service-again,service-external}.test.ts',
    ],
    tags: [...testTags],
    env: { SEINE_TEST_DATAPATH: 'system' },
    pool: 'threads',
    isolate: false,
    fileParallelism: false,
    maxWorkers: 1,
    testTimeout: 600_000,
    hookTimeout: 1_200_000,
    expect: { poll: { timeout: 60_000 } },
    reporters: ['verbose'],
  },
});
