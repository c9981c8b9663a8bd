import { defineConfig } from 'vitest/config';

/**
 * Tests of `npm run test:arm64`: the images outside, and in its virtual machine those that touch the kernel or the CPU. Modules are loaded
 * once for all files: emulated, that costs more than the tests.
 */
export default defineConfig({
  test: {
    name: 'arm64',
    root: `${import.meta.dirname}/../..`,
    include: [
      'test/arm64/**/*.test.ts',
      'src/{netlink,files,cni-shim,wire}/**/*.test.ts',
      'test/integration/netlink-*.test.ts',
      'test/integration/cni-plugin.test.ts',
    ],
    // These measure memory of the whole process, or have limits of seconds for an emulated Node; the native plugin is tested.
    testNamePattern: /^(?!leaks no descriptor|the plugin, on Node|gives the same answers natively and on Node)/,
    pool: 'threads',
    isolate: false,
    fileParallelism: false,
    maxWorkers: 1,
    testTimeout: 600_000,
    hookTimeout: 1_800_000,
    expect: { poll: { timeout: 60_000 } },
    reporters: ['verbose'],
  },
});
