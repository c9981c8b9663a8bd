import type { DaemonSet } from 'kubernetes-types/apps/v1.d.ts';
import { expect, it } from 'vitest';
import { asked } from '../../build/manifests/asked.ts';
import { manifestParts } from '../../build/manifests/manifest.ts';
import { defaultOptions } from '../../build/manifests/options.ts';
import type { KubeObject } from '../../build/manifests/part.ts';

function rendered(...args: readonly string[]): KubeObject[] {
  const chosen = asked(args);
  return chosen === undefined ? [] : chosen.parts(chosen.options).map(({ object }) => object);
}

const namesOf = (objects: readonly KubeObject[]) => objects.map(({ kind, metadata }) => `${kind} ${metadata?.name}`);
const daemonSets = (objects: readonly KubeObject[]) => objects.filter((object): object is DaemonSet => object.kind === 'DaemonSet');

/** Reports whether the controller of DaemonSets schedules a pod on a node. */
function runsOn({ spec }: DaemonSet, labels: Readonly<Record<string, string>>): boolean {
  const pod = spec?.template.spec;
  const terms = pod?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms ?? [];
  const fits = terms.some(({ matchExpressions = [] }) =>
    matchExpressions.every(({ key, operator, values = [] }) => {
      const value = labels[key];
      if (operator === 'In') return value !== undefined && values.includes(value);
      if (operator === 'NotIn') return value === undefined || !values.includes(value);
      return operator === 'DoesNotExist' && value === undefined;
    }),
  );
  return fits && Object.entries(pod?.nodeSelector ?? {}).every(([key, value]) => labels[key] === value);
}

/** Name of the DaemonSet of each part that runs on a node. */
function on(labels: Readonly<Record<string, string>>, ...manifests: readonly (readonly KubeObject[])[]): (string | undefined)[] {
  return manifests
    .flatMap(daemonSets)
    .filter((each) => runsOn(each, { 'kubernetes.io/os': 'linux', ...labels }))
    .map(({ metadata }) => metadata?.name)
    .toSorted();
}

it('renders for a pool its own objects, with their own names, and none of the cluster', () => {
  const objects = rendered('--pool', 'canary', '--set', 'logLevel=debug', '--agent-image', 'a.example/agent:2');
  expect(namesOf(objects)).toEqual([expect.stringMatching(/^ConfigMap seine-config-canary-[0-9a-f]{10}$/), 'DaemonSet seine-agent-canary']);
  const [agent] = daemonSets(objects);
  expect(agent?.spec?.selector.matchLabels).toEqual({ app: 'seine-agent-canary' });
  const template = agent?.spec?.template;
  expect(template?.metadata?.labels).toMatchObject({
    app: 'seine-agent-canary',
    'app.kubernetes.io/name': 'seine-agent',
    'seine.dev/pool': 'canary',
  });
  const config = template?.spec?.volumes?.find(({ name }) => name === 'config')?.configMap?.name;
  expect(objects[0]?.metadata?.name).toBe(config);
  expect(template?.spec?.containers[0]?.image).toBe('a.example/agent:2');
  // The rights are the cluster's: the same identity as everywhere.
  expect(template?.spec?.serviceAccountName).toBe('seine-agent');
});

it('keeps names and selectors of the agents without a pool: those of a DaemonSet are immutable', () => {
  const objects = manifestParts(defaultOptions).map(({ object }) => object);
  expect(daemonSets(objects).map(({ metadata, spec }) => [metadata?.name, spec?.selector.matchLabels])).toEqual([
    ['seine-ovs', { app: 'seine-ovs' }],
    ['seine-agent', { app: 'seine-agent' }],
  ]);
});

it('selects the pods of one pool only by each selector', () => {
  const all = [rendered(), rendered('--pool', 'a', '--pool-ovs'), rendered('--pool', 'b', '--pool-ovs')].flatMap(daemonSets);
  for (const each of all) {
    const wanted = Object.entries(each.spec?.selector.matchLabels ?? {});
    const matched = all.filter(({ spec }) => wanted.every(([key, value]) => spec?.template.metadata?.labels?.[key] === value));
    expect(matched.map(({ metadata }) => metadata?.name)).toEqual([each.metadata?.name]);
  }
});

it('gives each node one agent and one Open vSwitch, whatever labels of pools it has', () => {
  const manifests = [rendered(), rendered('--pool', 'a'), rendered('--pool', 'b', '--pool-ovs')];
  expect(on({}, ...manifests)).toEqual(['seine-agent', 'seine-ovs']);
  expect(on({ 'seine.dev/pool': 'a' }, ...manifests)).toEqual(['seine-agent-a', 'seine-ovs']);
  expect(on({ 'seine.dev/pool': 'b' }, ...manifests)).toEqual(['seine-agent-b', 'seine-ovs']);
  expect(on({ 'seine.dev/pool': 'b', 'seine.dev/ovs-pool': 'b' }, ...manifests)).toEqual(['seine-agent-b', 'seine-ovs-b']);
  expect(on({ 'seine.dev/ovs-pool': 'b' }, ...manifests)).toEqual(['seine-agent', 'seine-ovs-b']);
});

it('gives each node one of each by selectors too, if all others exclude those nodes', () => {
  const manifests = [
    rendered('--except', 'disk=ssd,zone=west', '--except-ovs', 'gpu=yes'),
    rendered('--pool', 'fast', '--node-selector', 'disk=ssd,zone=west', '--except-ovs', 'gpu=yes'),
    rendered('--pool', 'gpu', '--pool-ovs', '--node-selector', 'gpu=yes'),
    rendered('--pool', 'canary'),
  ];
  const values = { disk: [undefined, 'ssd', 'tape'], zone: [undefined, 'west', 'east'], gpu: [undefined, 'yes', 'no'] };
  for (const disk of values.disk)
    for (const zone of values.zone)
      for (const gpu of values.gpu)
        for (const pool of [undefined, 'canary']) {
          const labels = Object.fromEntries(
            Object.entries({ disk, zone, gpu, 'seine.dev/pool': pool }).flatMap(([key, value]) =>
              value === undefined ? [] : [[key, value]],
            ),
          );
          const agent = pool ?? (gpu === 'yes' ? 'gpu' : disk === 'ssd' && zone === 'west' ? 'fast' : undefined);
          const ovs = gpu === 'yes' ? '-gpu' : '';
          expect([labels, on(labels, ...manifests)]).toEqual([
            labels,
            [`seine-agent${agent === undefined ? '' : `-${agent}`}`, `seine-ovs${ovs}`],
          ]);
        }
});

it.each([
  [['--pool', 'Canary'], /^--pool Canary: up to 32 small letters/],
  [['--pool', 'default'], /^--pool default: this is what the agents of no pool are called$/],
  [['--pool', 'a', '--node-selector', 'disk'], /^--node-selector disk: "disk" is no label; KEY=VALUE/],
  [['--pool', 'a', '--node-selector', 'disk=ssd,disk=tape'], /no node has two values of disk$/],
  [['--pool', 'a', '--node-selector', 'seine.dev/pool=a'], /seine\.dev\/pool is what pools without this option are known by/],
  [['--except', 'a b=c'], /^--except a b=c: "a b=c" is no label/],
  [['--node-selector', 'disk=ssd'], /^--node-selector disk=ssd: of which pool\?/],
  [['--pool-ovs'], /^--pool-ovs: of which pool\?/],
  [['--pool', 'a', '--policy-mode', 'audit'], /^--policy-mode audit: it is the same on all nodes/],
  [['--pool', 'a', '--ovs-image', 'a.example/ovs:2'], /^--ovs-image a\.example\/ovs:2: pool a keeps the Open vSwitch of all other nodes/],
  [['--pool', 'a', '--uninstall'], /^--pool a: what --uninstall renders is for all nodes/],
  [['--pod-monitor'], /^--pod-monitor: of which port\?/],
  [['--pool', 'a', '--pod-monitor'], /^--pool a: the PodMonitor is of all agents/],
  [['--size', 'huge'], /^--size huge: one of small, large is wanted$/],
])('refuses %j', (args, message) => {
  expect(() => asked(args)).toThrow(message);
});

it('rejects exclusions that exceed a readable size', () => {
  const many = Array.from({ length: 6 }, (_, at) => ['--except', `a${at}=x,b${at}=y`]).flat();
  expect(() => rendered(...many)).toThrow('64 alternatives, more than 32');
});
