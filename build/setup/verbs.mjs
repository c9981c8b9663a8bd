/**
 * Commands of `npm run VERB` after the set-up.
 *
 * `needs` is the required set-up: `machine` (Debian packages; root), `kernel` (for the virtual machine; root), `kernel tests` (for its
 * tests; root), `runtimes` (container runtimes; root), `kubernetes` (for a real one, besides its build; root), `images` (for building the
 * images of an installation; root), `release` (for tests of a release; root), `arm64` (emulators and podman; root), `browser` (Chromium for tests of the page; root), `npm` (the packages of the lock file and the pinned Node),
 * `products` (plugin, bundles, exports). `run` is a command line to which the caller's arguments are added; one that starts with a `.ts` or
 * `.mjs` file is a script for the pinned Node.
 */
export const verbs = {
  setup: { needs: ['machine', 'npm', 'products'] },
  test: { needs: ['machine', 'kernel', 'npm', 'products'], run: ['build/test.mjs'] },
  bench: { needs: ['machine', 'npm', 'products'], run: ['test/bench/main.ts'] },
  demo: { needs: ['machine', 'npm', 'products'], run: ['lab/demo.ts'] },
  'demo:kernel': { needs: ['machine', 'kernel', 'npm', 'products'], run: ['build/kernel-vm/run.mjs'] },
  lab: { needs: ['machine', 'npm', 'products'], run: ['bin/seine-lab.mjs'] },
  build: { needs: ['npm', 'products'] },
  'build:images': { needs: ['npm'], run: ['build/images/build.mjs'] },
  'build:go': { needs: [], run: ['build/go/build.mjs'] },
  'build:kubernetes': { needs: ['machine', 'kubernetes'], run: ['build/kubernetes/build.mjs'] },
  'build:seinectl': { needs: ['npm', 'products'], run: ['build/seinectl/build.mjs'] },
  'test:arm64': { needs: ['machine', 'arm64', 'npm', 'products'], run: ['build/arm64/test.mjs'] },
  'test:crash': { needs: ['machine', 'npm', 'products'], run: ['build/test-crash.mjs'] },
  'test:fuzz': { needs: ['machine', 'npm'], run: ['test/fuzz/openflow.ts'] },
  'test:fuzz:guided': { needs: ['npm'], run: ['test/fuzz/guided.ts'] },
  'test:fuzz:ovsdb': { needs: ['npm'], run: ['test/fuzz/ovsdb.ts'] },
  'test:flows': { needs: ['machine', 'npm', 'products'], run: ['build/test-flows.mjs'] },
  'test:hostile': { needs: ['machine', 'npm', 'products'], run: ['test/chaos/hostile/main.ts'] },
  'test:images': { needs: ['machine', 'images', 'npm', 'products'], run: ['build/test.mjs', '--project', 'images'] },
  'test:kernel': { needs: ['machine', 'kernel', 'kernel tests', 'npm', 'products'], run: ['build/kernel-vm/test.mjs'] },
  'test:kubernetes': { needs: ['machine', 'kubernetes', 'images', 'npm', 'products'], run: ['build/test-kubernetes.mjs'] },
  'test:ovs': { needs: ['machine', 'images', 'npm', 'products'], run: ['build/ovs/test.mjs'] },
  'test:policy': { needs: ['machine', 'npm', 'products'], run: ['build/test-policy.mjs'] },
  'test:random': { needs: ['machine', 'npm', 'products'], run: ['build/test-random.mjs'] },
  'test:reliability': { needs: ['machine', 'npm', 'products'], run: ['test/reliability/main.ts'] },
  'test:release': {
    needs: ['machine', 'images', 'arm64', 'release', 'npm', 'products'],
    run: ['build/test.mjs', '--project', 'release'],
  },
  'test:runtime': { needs: ['machine', 'runtimes', 'npm', 'products'], run: ['build/test-runtime.mjs'] },
  'test:soak': { needs: ['machine', 'npm', 'products'], run: ['test/soak/main.ts'] },
  'test:chaos': { needs: ['machine', 'npm', 'products'], run: ['test/chaos/main.ts'] },
  'test:upgrade': { needs: ['machine', 'npm', 'products'], run: ['build/test-upgrade.mjs'] },
  'test:ui': { needs: ['machine', 'browser', 'npm', 'products'], run: ['vitest', 'run', '--project', 'ui'] },
  'test:unit': { needs: ['npm'], run: ['vitest', 'run', '--project', 'unit'] },
  typecheck: { needs: ['npm'], run: ['build/typecheck.mjs'] },
  lint: { needs: ['npm'], run: ['biome', 'ci', '--error-on-warnings'] },
  render: { needs: ['npm'], run: ['build/manifests/render.ts'] },
  'release:check': { needs: ['npm'], run: ['build/release/check.ts'] },
  'release:images': { needs: ['npm'], run: ['build/release/images.ts'] },
  'release:manifest': { needs: ['npm'], run: ['build/release/manifest.ts'] },
  'release:packages': { needs: ['npm', 'products'], run: ['build/release/packages.ts'] },
  'release:publish': { needs: ['npm'], run: ['build/release/publish.ts'] },
  'release:seinectl': { needs: ['npm'], run: ['build/release/seinectl.ts'] },
  'release:sign': { needs: ['npm'], run: ['build/release/sign.ts'] },
  release: { needs: ['npm'], run: ['build/release.mjs'] },
  docs: { needs: ['npm'], run: ['build/docs/generate.ts'] },
  'docs:site': { needs: ['npm'], run: ['site/build.mjs'] },
};
