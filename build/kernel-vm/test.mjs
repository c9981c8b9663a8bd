/**
 * `npm run test:kernel`: the end-to-end tests on the kernel's data path, in virtual machines, one after another. Each part boots its own,
 * so that remains in a kernel do not affect other parts, and a crash of an emulated process costs one part.
 *
 * `--only NAME[,NAME…]` runs some of the parts, `--kernel 6.12` on another Debian's kernel, `--list` prints their names, `--help` all
 * options.
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { ovsEnvironment } from '../ovs/programs.mjs';
import { cache, root, toolPath } from '../setup/paths.mjs';
import { pinnedNode } from '../setup/products.mjs';
import { say } from '../setup/progress.mjs';
import { debianOfKernel, guestWithKernel } from './kernels.mjs';
import { runWithOneMoreBoot } from './one-more-boot.mjs';
import { exitCodeOf, partsCommand, quote, runParts } from './parts.mjs';
import { logsOf } from './vm.mjs';

const help = `Usage: npm run test:kernel -- [--only NAME[,NAME…]] [--pod-interface KIND] [--kernel VERSION] [--list]
       npm run test:kernel -- --only chaos [--seed N] [--from N] [--steps N] [--changes N | --kind NAME,...]

The end-to-end tests on the kernel's data path, in virtual machines, one for each part: more than an hour for all
where they are emulated because no guest boots with KVM.

  --only           only these parts
  --pod-interface  auto, standing or veth, for the pods of all labs; the agent's default if absent
  --kernel         another Debian's, which is fetched once: ${Object.keys(debianOfKernel).join(', ')}; Debian 12's if absent
  --list           only say which there are
  --seed, --from, --steps, --changes, --kind
                   of the part chaos, as those of \`npm run test:chaos\`; 17, 0, 20 and all that are drawn if absent
`;

/** Far above the duration of a part on an idle host: detects a hang. */
const limitSecondsUsual = 2_400;
/** The same for a step of chaos, in addition to those included above. */
const limitSecondsOfStep = 120;
const stepsIncluded = 20;

const e2e = (...names) => names.map((name) => `test/e2e/${name}.test.ts`);

/** Images of an installation: built outside, where it takes a tenth of the time. */
const images = join(cache, 'images', 'installation.tar');

/** Version of Open vSwitch to which a node is changed, and back. */
const otherSwitch = '3.5';

/**
 * A part is tests, its `files`, or a `command`, in words. `before` is a script with its arguments that runs outside of the virtual machine;
 * `env` is for the tests, and computed outside as well. With a `tag` (`test/support/test-tags.ts`), the part runs only the tests that have
 * it. `limitSeconds`: instead of the usual limit.
 */
const parts = [
  {
    name: 'smoke',
    what: 'whether the kernel can carry Open vSwitch: two switches and Geneve, without an agent',
    command: () => ['bash', 'build/kernel-vm/smoke.sh'],
  },
  { name: 'modules', what: 'loaded for a container that may load none', files: ['test/kernel/modules.test.ts'] },
  { name: 'wireguard', what: 'devices of the kernel’s WireGuard: keys, peers, packets', files: ['test/kernel/wireguard.test.ts'] },
  { name: 'tunnels', what: 'pods over Geneve, VXLAN and GRE, over both families', files: e2e('tunnels') },
  { name: 'services', what: 'cluster addresses, hairpin, no endpoints, large requests', files: e2e('service-cluster-ip', 'service-large') },
  { name: 'endpoints', what: 'affinity, traffic policies, terminating endpoints', files: e2e('service-endpoints') },
  { name: 'path-mtu', what: 'transfers over a path of smaller MTU, in both directions', files: e2e('path-mtu') },
  { name: 'outside', what: 'node ports, load balancers, external addresses', files: e2e('service-outside') },
  {
    name: 'again',
    what: 'connections that return, and external clients and the node from one port',
    files: ['test/integration/service-again.test.ts', 'test/integration/service-external.test.ts'],
  },
  {
    name: 'let-in',
    what: 'connections that were not admitted, and pods blocked pending policy',
    files: ['test/integration/admitted-traffic.test.ts'],
  },
  {
    name: 'policy-flows',
    what: '200 random clusters: what the switch would do is what their policies say',
    files: ['test/integration/policy-flows.test.ts'],
    env: () => ({ SEINE_TEST_POLICY_SETS: '200' }),
  },
  {
    name: 'policy-packets',
    what: 'fragments, packets without visible ports, cost of a denied pod',
    files: ['test/integration/policy-packets.test.ts'],
  },
  {
    name: 'hardening',
    what: 'host ports, addresses of Services on nodes, ICMP errors, two datagrams at once: what others must not take or break',
    files: [
      ...['pipeline-errors', 'pipeline-forgery', 'service-external'].map((name) => `test/integration/${name}.test.ts`),
      ...e2e('service-outside'),
    ],
    tag: 'hardening',
  },
  {
    name: 'policy-reject',
    what: 'answers to denied clients: resets and ICMP errors, of both nodes, through Services',
    files: ['test/integration/policy-refusals.test.ts'],
  },
  { name: 'hops', what: 'paths shown hop by hop: the bridge is one', files: ['test/integration/pipeline-hops.test.ts'] },
  { name: 'policy', what: 'NetworkPolicy in a lab: who is let in, who is not, what is cut', files: e2e('policy', 'policy-tiers') },
  { name: 'policy-change', what: 'a policy that changes under packets: none lost, none let through', files: e2e('policy-transition') },
  {
    name: 'flow-log',
    what: '200 random connections, opened and closed, with the exact bytes of the kernel’s tracker',
    files: ['test/kernel/flow-log.test.ts'],
  },
  {
    name: 'flow-log-now',
    what: 'seinectl flows --now by the kernel’s tracker; ends with each value of flowLog.closes; one of four connections',
    files: ['test/kernel/flow-log-now.test.ts'],
  },
  {
    name: 'probe',
    what: 'probes of seinectl trace: none is delivered, none is remembered',
    files: ['test/integration/probe-packets.test.ts'],
  },
  { name: 'trace', what: 'seinectl trace in a lab: verdicts of flows, probe and connection; injected faults', files: e2e('trace-faults') },
  { name: 'modes', what: 'nodes in hybrid mode, changed under traffic', files: e2e('peer-modes') },
  {
    name: 'direct-speed',
    what: 'a transfer between nodes without the tunnel, beside one through it',
    files: ['test/kernel/direct-speed.test.ts'],
  },
  {
    name: 'encryption',
    what: 'WireGuard of the kernel between nodes: nothing without encryption, whatever fails',
    files: e2e('wireguard'),
  },
  { name: 'data-path', what: 'what it can do and how it fares, SCTP', files: ['test/kernel/datapath.test.ts'] },
  {
    name: 'policy-api',
    what: 'the conformance suite of ClusterNetworkPolicy by SCTP, on a real Kubernetes with two nodes, with longer time limits',
    before: ['build/kubernetes/build.mjs', '--policy-api'],
    command: () => [
      ...['node', 'build/test-kubernetes.mjs', '--only', 'policy-api', '--focus', 'SCTP$', '--emulated'],
      ...['--families', 'ipv4,ipv6', '--nodes', '2', '--datapath', 'system'],
    ],
    limitSeconds: 7_200,
  },
  { name: 'check', what: 'seinectl check, with a filter in the way', files: ['test/kernel/check.test.ts'] },
  { name: 'agent', what: 'the agent restarts and is killed: nothing is written, nothing lost', files: e2e('converge-restart') },
  { name: 'switch', what: 'ovs-vswitchd and its database killed: flows restored', files: e2e('converge-switch') },
  { name: 'switch-faults', what: 'ovs-vswitchd gone under traffic: what is lost', files: ['test/kernel/switch-faults.test.ts'] },
  {
    name: 'switch-replaced',
    what: `Open vSwitch of a node replaced by ${otherSwitch} and back, under traffic`,
    files: ['test/ovs/replaced.test.ts'],
    env: async () => ({ SEINE_TEST_OVS: JSON.stringify({ version: otherSwitch, env: await ovsEnvironment(otherSwitch) }) }),
  },
  {
    name: 'chaos',
    what: 'a running cluster harmed and changed by a seed, its node compared with what an agent makes that has never run',
    command: ({ seed = '17', from = '0', steps = '20', changes, kind }) => [
      ...['node', 'test/chaos/main.ts', '--datapath', 'system', '--patience', '12', '--hertz', '2'],
      ...['--seed', seed, '--from', from, '--steps', steps],
      ...(changes === undefined ? [] : ['--changes', changes]),
      ...(kind === undefined ? [] : ['--kind', kind]),
    ],
  },
  {
    name: 'containers',
    what: 'the manifest’s containers by containerd, confined by AppArmor',
    files: ['test/kernel/containers.test.ts'],
    before: ['test/kernel/export-images.ts', images],
  },
];

const testsOf = (files, tag) => [
  ...['vitest', 'run', '--config', 'test/kernel/vitest.config.ts'],
  ...(tag === undefined ? [] : ['--tags-filter', tag]),
  ...files,
];

async function jobFor(
  { name, files, tag, command = () => testsOf(files, tag), env = () => ({}), limitSeconds = limitSecondsUsual },
  asked,
) {
  const { 'pod-interface': podInterface, guest } = asked;
  // As in `npm test`: agents start from the bundle in a seventh of the CPU time. What was compiled here need not be compiled in the machine.
  const all = {
    SEINE_LAB_AGENT: 'bundle',
    NODE_COMPILE_CACHE: join(cache, 'compiled'),
    ...(await env()),
    ...(podInterface === undefined ? {} : { SEINE_TEST_POD_INTERFACE: podInterface }),
  };
  const script = [
    `cd ${quote(root)}`,
    `export PATH=${quote(toolPath())} SEINE_TEST_LOGS=/run/seine-vm/labs SEINE_TEST_IMAGES=${quote(images)}`,
    ...Object.entries(all).map(([key, value]) => `export ${key}=${quote(value)}`),
    `exec ${command(asked).map(quote).join(' ')}`,
  ];
  const moreSteps = name === 'chaos' ? Math.max(0, (Number(asked.steps) || 0) - stepsIncluded) : 0;
  return { name: `test-${name}`, script: `${script.join('\n')}\n`, limitSeconds: limitSeconds + moreSteps * limitSecondsOfStep, guest };
}

const options = Object.fromEntries(
  ['pod-interface', 'kernel', 'seed', 'from', 'steps', 'changes', 'kind'].map((name) => [name, { type: 'string' }]),
);

async function runPart(part, asked) {
  const logs = logsOf(`test-${part.name}`, asked.guest);
  if (part.before !== undefined && spawnSync(pinnedNode(), part.before, { cwd: root, stdio: 'inherit' }).status !== 0)
    return { ok: false, logs };
  return { ok: (await exitCodeOf(jobFor(part, asked).then(runWithOneMoreBoot))) === 0, logs };
}

async function perform(chosen, { kernel, ...asked }) {
  const guest = await guestWithKernel(kernel);
  say(`${chosen.length} parts, a virtual machine each (emulated: five to ten times as slow as this machine)`);
  return await runParts(chosen, (part) => runPart(part, { ...asked, guest }));
}

await partsCommand({ script: 'test:kernel', help, parts, perform, options });
