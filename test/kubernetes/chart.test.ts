import { join } from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { parse, parseAllDocuments, stringify } from 'yaml';
import { builtHelm } from '../../build/helm/program.mjs';
import { asked } from '../../build/manifests/asked.ts';
import type { KubeObject } from '../../build/manifests/part.ts';
import { packageRoot } from '../../lab/machine/installation.ts';
import { run, runAnyway } from '../../lab/machine/process.ts';

/*
 * The Helm chart compared with `npm run render`: for the same options the real `helm` creates the same objects, including names with hashes
 * of contents.
 */

const chart = join(packageRoot, 'build', 'helm', 'seine');
const limit = AbortSignal.timeout(900_000);
let helm = '';

beforeAll(async () => {
  helm = await builtHelm();
}, 900_000);

interface Asking {
  readonly render: readonly string[];
  /** Values of the chart with the same meaning, as YAML. */
  readonly values: string;
}

const images = { render: ['--agent-image', 'r.example:5000/s/agent:0.6.0'], values: 'agentImage: r.example:5000/s/agent:0.6.0' };

const askings: Readonly<Record<string, Asking>> = {
  nothing: { render: [], values: '{}' },
  images: {
    render: [...images.render, '--ovs-image', 'o.example/ovs@sha256:0000000000000000000000000000000000000000000000000000000000000000'],
    values: `${images.values}\novsImage: o.example/ovs@sha256:0000000000000000000000000000000000000000000000000000000000000000`,
  },
  'another data path and another cluster': {
    render: ['--datapath', 'netdev', '--size', 'large', '--policy-mode', 'off', '--for', 'k3s', '--api-server', 'https://[fd00::1]:6443'],
    values: [
      'datapath: netdev',
      'size: large',
      'policyMode: "off"',
      'cniBin: /var/lib/rancher/k3s/data/cni',
      'cniConf: /var/lib/rancher/k3s/agent/etc/cni/net.d',
      'apiServer: https://[fd00::1]:6443',
    ].join('\n'),
  },
  'settings of each kind, out of order': {
    render: [
      ['tunnelType=vxlan', 'proxy.skipServices=["b/c", "a/b"]', 'defaultMTU=1400', 'noSNAT=true', 'proxy.proxyAll=false'],
      [
        'apiSocket=/run/seine/other.sock',
        'policy.whenUnknown=open',
        'transportInterfaceCIDRs=[192.0.2.0/24]',
        'status={}',
        'repairPods=false',
      ],
    ].flatMap((some) => some.flatMap((each) => ['--set', each])),
    values: `agent:
  tunnelType: vxlan
  proxy: {skipServices: [b/c, a/b], proxyAll: false}
  defaultMTU: 1400
  noSNAT: true
  apiSocket: /run/seine/other.sock
  policy: {whenUnknown: open}
  transportInterfaceCIDRs: [192.0.2.0/24]
  status: {}
  repairPods: false`,
  },
  'settings that stand above options': {
    render: [
      '--api-server',
      'https://a.example:6443',
      '--set',
      'ovsDatapathType=netdev',
      '--set',
      'kubeAPIServerOverride=https://b.example:6443/a?b=<c>&d',
    ],
    values:
      'apiServer: https://a.example:6443\nagent: {ovsDatapathType: netdev, kubeAPIServerOverride: "https://b.example:6443/a?b=<c>&d"}',
  },
  'no ports that stay plugged in': { render: ['--set', 'podInterface=veth'], values: 'agent: {podInterface: veth}' },
  'metrics by TLS': { render: ['--set', 'metricsTLSAddress=0.0.0.0:10352'], values: 'agent: {metricsTLSAddress: "0.0.0.0:10352"}' },
  'metrics by TLS, and a PodMonitor': {
    render: ['--set', 'metricsTLSAddress="[::]:9443"', '--pod-monitor'],
    values: 'agent: {metricsTLSAddress: "[::]:9443"}\npodMonitor: true',
  },
  'a pool by its label': {
    render: ['--pool', 'canary', '--set', 'logLevel=debug'],
    values: 'pool: {name: canary}\nagent: {logLevel: debug}',
  },
  'a pool whose name is a number, with Open vSwitch': {
    render: ['--pool', '7', '--pool-ovs', '--datapath', 'netdev'],
    values: 'pool: {name: "7", ovs: true}\ndatapath: netdev',
  },
  'a pool by labels of nodes, that leaves nodes to others': {
    render: ['--pool', 'fast', '--node-selector', 'zone=west,disk=ssd', '--except', 'a=x,b=y', '--except-ovs', 'gpu=yes,c=z'],
    values: 'pool: {name: fast, nodeSelector: {zone: west, disk: ssd}}\nexcept: [{a: x, b: "y"}]\nexceptOvs: [{gpu: "yes", c: z}]',
  },
  'nodes left to two pools': {
    render: ['--except', 'disk=ssd', '--except-ovs', 'gpu=yes,c=z'],
    values: 'except: [{disk: ssd}]\nexceptOvs: [{gpu: "yes", c: z}]',
  },
};

it.each(Object.entries(askings))('creates the same objects as render: %s', async (_, { render, values }) => {
  expect(byName(await templated(values))).toEqual(byName(rendered(...render)));
});

it('replaces the agents by the cleaning DaemonSet', async () => {
  const { render, values } = askings['another data path and another cluster'] ?? { render: [], values: '' };
  const installed = rendered(...render).filter(
    ({ kind, metadata }) => !/^(DaemonSet seine-agent|ConfigMap seine-config-)/.test(`${kind} ${metadata?.name}`),
  );
  const uninstalled = await templated(`${values}\nuninstall: true`);
  expect(byName(uninstalled)).toEqual(byName([...installed, ...rendered(...render, '--uninstall')]));
});

it('takes the tag of images from the version of the chart, and the registry from one value', async () => {
  const text = stringify(await templated('registry: r.example/seine'));
  const { version } = parse(await run(helm, ['show', 'chart', chart], {}, limit)) as { readonly version: string };
  expect(new Set(text.match(/r\.example\S+/g))).toEqual(new Set([`r.example/seine/agent:${version}`, `r.example/seine/ovs:${version}`]));
});

it.each([
  ['agent: {logLevle: debug}', /logLevle/],
  ['agent: {proxy: {proxyAll: maybe}}', /proxyAll/],
  ['colour: green', /colour/],
  ['size: huge', /small.*large/],
  ['pool: {name: Canary}', /pool\/name|pool\.name/],
  ['pool: {ovs: true}', /of which pool\?/],
  ['podMonitor: true', /podMonitor is of the release/],
  ['pool: {name: canary}\nuninstall: true', /uninstall cleans all nodes/],
  ['cniBin: opt/cni', /cniBin/],
  [`except: [${Array.from({ length: 6 }, (_, at) => `{a${at}: x, b${at}: x}`).join()}]`, /64 alternatives, more than 32/],
])('refuses %j', async (values, message) => {
  const { code, stderr } = await template(values);
  expect([code, stderr]).toEqual([1, expect.stringMatching(message)]);
});

it('refuses to be installed in the namespace that it creates', async () => {
  const { code, stderr } = await template('{}', 'seine-system');
  expect([code, stderr]).toEqual([1, expect.stringContaining('an object of this chart')]);
});

it('passes helm lint', async () => {
  expect(await run(helm, ['lint', '--strict', chart], {}, limit)).toContain('0 chart(s) failed');
});

function rendered(...args: readonly string[]): readonly KubeObject[] {
  const chosen = asked(args);
  return chosen === undefined ? [] : chosen.parts(chosen.options).map(({ object }) => object);
}

async function template(values: string, namespace = 'kube-system') {
  const args = ['template', 'seine', chart, '--namespace', namespace, '--kube-version', '1.37.2', '--values', '-'];
  return await runAnyway(helm, args, { input: values }, limit);
}

async function templated(values: string): Promise<readonly KubeObject[]> {
  const { code, stdout, stderr } = await template(values);
  if (code !== 0) throw new Error(stderr);
  return parseAllDocuments(stdout).flatMap((document) => (document.contents === null ? [] : [document.toJS() as KubeObject]));
}

/** Annotation that only Helm's objects have: Helm must not delete configurations that pods may still need. */
const kept = 'helm.sh/resource-policy';

function byName(objects: readonly KubeObject[]): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    objects.map((object) => {
      const plain = JSON.parse(JSON.stringify(object)) as { metadata: { name: string; annotations?: Record<string, string> } };
      if (plain.metadata.annotations?.[kept] === 'keep') delete plain.metadata.annotations;
      return [`${object.kind} ${plain.metadata.name}`, plain];
    }),
  );
}
