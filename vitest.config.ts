import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join, relative } from 'node:path';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { testTags } from './test/support/test-tags.ts';

/**
 * Projects by what they need: `unit` and `fuzz` need nothing; `integration` needs root, real Open vSwitch and namespaces; `e2e` and `waiting` need a
 * whole lab; `ui` needs a browser, `runtime` a lab and container runtimes, `images` podman, `upgrade` a lab and the repository's history, `ovs` a lab and
 * another Open vSwitch, `export` the OpenTelemetry collector and tshark, `kubernetes` a real one, which is built, `release` podman, emulators and Go; none of these is part of `npm test`.
 * Deadlines are for a machine that does other things as well: they tell that something hangs, not how fast it is.
 *
 * Files run side by side, each in namespaces with names of its own: as many as the machine has processors. With one more, the labs of three
 * files take the processors from one another's switches, and packets are late that a test says must not be.
 */
const workersMost = 6;
const maxWorkers = Math.min(Math.max(2, availableParallelism()), workersMost);
const shared = {
  maxWorkers,
  tags: [...testTags],
  expect: { poll: { timeout: 10_000 } },
  setupFiles: [join(import.meta.dirname, 'test', 'support', 'own-processes.ts')],
};
const oneAfterAnother = { fileParallelism: false, maxWorkers: 1 };

/**
 * Labs that mostly wait for periods of the agent, and whose tests have no limits for packets: they run one after another beside all others
 * (build/test.mjs).
 */
const waiting = [
  'health-checks',
  'policy-tiers',
  'wireguard-waiting',
  'mesh',
  'converge-links',
  'converge-crash',
  'cni-contract',
  'seinectl',
  'foreign-firewall',
  'install-manifest',
  'seinectl-check',
  'trace-faults',
  'history',
  'what-if',
].map((name) => `test/e2e/${name}.test.ts`);
/** It boots an emulated machine that keeps every processor busy, so nothing runs beside it (build/test.mjs). */
const emulated = 'test/e2e/kernel-datapath.test.ts';
const order = [
  ['unit', 'fuzz'],
  ['e2e', 'integration', 'waiting'],
  ['emulated'],
  ['ui'],
  ['runtime'],
  ['images'],
  ['upgrade'],
  ['ovs'],
  ['export'],
  ['kubernetes'],
  ['release'],
];

/** About how many seconds the long files of labs and switches take. */
const seconds = JSON.parse(readFileSync(join(import.meta.dirname, 'build', 'test-run', 'durations.json'), 'utf8')) as Record<
  string,
  number
>;

/** What is soon known first; then what takes long before what takes a moment, so that no worker waits for another in the end. */
class FileOrder extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ project }: TestSpecification) => order.findIndex((names) => names.includes(project.name));
    const long = ({ moduleId }: TestSpecification) => seconds[relative(import.meta.dirname, moduleId)] ?? 0;
    return (await super.sort(files)).toSorted((a, b) => rank(a) - rank(b) || long(b) - long(a));
  }
}

export default defineConfig({
  test: {
    sequence: { sequencer: FileOrder },
    projects: [
      {
        test: {
          ...shared,
          name: 'unit',
          // Files of one worker share what they import, which is half of their CPU time otherwise. A test leaves nothing behind: no clock, no mock.
          isolate: false,
          include: [
            'src/**/*.test.ts',
            'lab/**/*.test.ts',
            'test/architecture.test.ts',
            'test/browser-rooms.test.ts',
            'test/names.test.ts',
            'test/exports.test.ts',
            'test/wall-clock.test.ts',
            'test/language.test.ts',
            'test/sizes.test.ts',
            'test/docs/*.test.ts',
            'test/model/*.test.ts',
            'test/support/*.test.ts',
            'test/chaos/*.test.ts',
            'test/soak/*.test.ts',
            'test/kubernetes/page-commands.test.ts',
            'test/release/workflow.test.ts',
          ],
          testTimeout: 180_000,
        },
      },
      {
        test: {
          ...shared,
          // Coverage of all that a process has loaded is read after each input: files have one of their own.
          name: 'fuzz',
          include: ['test/fuzz/**/*.test.ts'],
          testTimeout: 180_000,
        },
      },
      {
        test: {
          ...shared,
          name: 'integration',
          include: ['test/integration/**/*.test.ts', 'test/contract/**/*.test.ts'],
          testTimeout: 60_000,
          hookTimeout: 60_000,
        },
      },
      {
        test: {
          ...shared,
          name: 'e2e',
          include: ['test/e2e/**/*.test.ts'],
          exclude: [emulated, ...waiting],
          testTimeout: 180_000,
          hookTimeout: 180_000,
        },
      },
      {
        test: {
          ...shared,
          name: 'waiting',
          include: waiting,
          testTimeout: 180_000,
          hookTimeout: 180_000,
        },
      },
      {
        test: {
          ...shared,
          ...oneAfterAnother,
          name: 'emulated',
          include: [emulated],
          testTimeout: 900_000,
          sequence: { groupOrder: 1 },
        },
      },
      {
        test: {
          ...shared,
          ...oneAfterAnother,
          name: 'ui',
          include: ['test/ui/**/*.test.ts'],
          testTimeout: 120_000,
          hookTimeout: 120_000,
          sequence: { groupOrder: 15 },
        },
      },
      {
        test: {
          ...shared,
          ...oneAfterAnother,
          name: 'runtime',
          include: ['test/runtime/**/*.test.ts'],
          testTimeout: 180_000,
          hookTimeout: 180_000,
          sequence: { groupOrder: 2 },
        },
      },
      {
        test: {
          ...shared,
          ...oneAfterAnother,
          name: 'images',
          include: ['test/images/*.test.ts'],
          testTimeout: 300_000,
          // Each layer of both is built twice, from nothing.
          hookTimeout: 3_000_000,
          sequence: { groupOrder: 5 },
        },
      },
      {
        test: {
          ...shared,
          ...oneAfterAnother,
          name: 'upgrade',
          include: ['test/upgrade/**/*.test.ts'],
          testTimeout: 300_000,
          hookTimeout: 300_000,
          sequence: { groupOrder: 3 },
        },
      },
      {
        test: {
          ...shared,
          ...oneAfterAnother,
          name: 'ovs',
          include: ['test/ovs/*.test.ts'],
          testTimeout: 600_000,
          hookTimeout: 300_000,
          sequence: { groupOrder: 6 },
        },
      },
      {
        test: {
          ...shared,
          ...oneAfterAnother,
          name: 'export',
          include: ['test/export/*.test.ts'],
          testTimeout: 180_000,
          // The first run builds the collector.
          hookTimeout: 3_600_000,
          sequence: { groupOrder: 8 },
        },
      },
      {
        test: {
          ...shared,
          ...oneAfterAnother,
          name: 'kubernetes',
          // What is to be looked at afterwards is not ended.
          setupFiles: process.env['SEINE_TEST_KEEP'] === undefined ? shared.setupFiles : [],
          include: [
            'test/kubernetes/{short,install,kubeadm,kubeadm-kube-proxy,kubeadm-upgrade,chart,helm,helm-objects,kube-proxy,scale,api-server,timings,upgrade}.test.ts',
          ],
          testTimeout: 600_000,
          hookTimeout: 600_000,
          sequence: { groupOrder: 4 },
        },
      },
      {
        test: {
          ...shared,
          ...oneAfterAnother,
          name: 'release',
          include: ['test/release/*.test.ts'],
          exclude: ['test/release/workflow.test.ts'],
          testTimeout: 600_000,
          // Images of two architectures are built, one by emulation.
          hookTimeout: 3_600_000,
          sequence: { groupOrder: 7 },
        },
      },
    ],
  },
});
