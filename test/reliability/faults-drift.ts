import { setTimeout } from 'node:timers/promises';
import { until } from '../support/converge-lab.ts';
import { type Fault, type FaultContext, nothingLost } from './fault.ts';

const byEventMs = 500;
/** More consecutive changes than this are repaired at growing intervals (src/dataplane/reconcile/repair-ledger.ts). */
const mostRounds = 5;
const decayMs = 10_000;

interface Drift {
  readonly name: string;
  readonly what: string;
  readonly limits: Fault['limits'];
  readonly everyTime?: true;
  /** The previous fault changes the same: the pause lets the agent's back-off for contested entries expire. */
  readonly after?: 'pause';
  /** The foreign change. */
  readonly change: (context: FaultContext) => Promise<unknown>;
  /** State that must be as before. */
  readonly look: (context: FaultContext) => Promise<string>;
}

const ofctl = ({ lab }: FaultContext, ...args: readonly string[]) => lab.exec(1, 'ovs-ofctl', '-O', 'OpenFlow15', ...args);
const flows = async ({ lab }: FaultContext) => (await lab.flows(1)).map(({ text }) => text).join('\n');
const groups = ({ lab }: FaultContext) => lab.groups(1);
const firewall = async ({ lab }: FaultContext) =>
  (await lab.exec(1, 'nft', 'list', 'table', 'inet', 'seine').catch(() => '')).replaceAll(/ packets \d+ bytes \d+/g, '');
const routes = async ({ lab }: FaultContext) =>
  (await lab.exec(1, 'ip', 'route', 'show', 'dev', 'antrea-gw0')) + (await lab.exec(1, 'ip', '-6', 'route', 'show', 'dev', 'antrea-gw0'));
const addresses = async ({ lab }: FaultContext) =>
  (await lab.exec(1, 'ip', '-br', 'address', 'show', 'dev', 'antrea-gw0')).match(/\S+\/\d+/g)?.join(' ') ?? '';
const ports = async ({ lab }: FaultContext) => JSON.stringify(await lab.ofPorts(1));

async function firstGroup(context: FaultContext): Promise<string> {
  const id = /group_id=(\d+)/.exec(await groups(context))?.[1];
  if (id === undefined) throw new Error('there is no group');
  return id;
}

async function podPort(context: FaultContext): Promise<string> {
  const name = Object.keys(await context.lab.ofPorts(1)).find((port) => /^web1-/.test(port));
  if (name === undefined) throw new Error('web-1 has no port');
  return name;
}

const drifts: readonly Drift[] = [
  {
    name: 'flow-added',
    what: 'A foreign flow that takes all UDP to one port',
    limits: nothingLost,
    change: (context) => ofctl(context, 'add-flow', 'br-int', 'table=0,priority=65000,udp,tp_dst=9,actions=drop'),
    look: flows,
  },
  {
    name: 'flows-deleted',
    what: 'All flows deleted',
    limits: { connectsFailed: 0 },
    everyTime: true,
    change: (context) => ofctl(context, 'del-flows', 'br-int'),
    look: flows,
  },
  {
    name: 'flow-changed',
    what: 'A flow changed to drop',
    limits: { connectsFailed: 0 },
    change: (context) => ofctl(context, 'mod-flows', 'br-int', 'table=14,ip,actions=drop'),
    look: flows,
  },
  {
    name: 'group-changed',
    what: 'A Service’s group changed',
    limits: nothingLost,
    everyTime: true,
    change: async (context) =>
      ofctl(context, 'mod-group', 'br-int', `group_id=${await firstGroup(context)},type=select,bucket=actions=drop`),
    look: groups,
  },
  {
    name: 'groups-deleted',
    what: 'All groups deleted',
    after: 'pause',
    limits: nothingLost,
    change: (context) => ofctl(context, 'del-groups', 'br-int'),
    look: async (context) => (await groups(context)) + (await flows(context)),
  },
  {
    name: 'nftables-flushed',
    what: '`nft flush ruleset`',
    limits: nothingLost,
    everyTime: true,
    change: ({ lab }) => lab.exec(1, 'nft', 'flush', 'ruleset'),
    look: firewall,
  },
  {
    name: 'routes-deleted',
    what: 'Routes over the gateway deleted',
    limits: nothingLost,
    change: ({ lab }) => lab.exec(1, 'ip', 'route', 'flush', 'dev', 'antrea-gw0'),
    look: routes,
  },
  {
    name: 'address-deleted',
    what: 'The gateway’s addresses deleted',
    limits: nothingLost,
    change: ({ lab }) => lab.exec(1, 'ip', 'address', 'flush', 'dev', 'antrea-gw0', 'scope', 'global'),
    look: addresses,
  },
  {
    name: 'gateway-deleted',
    what: '`ovs-vsctl del-port antrea-gw0`',
    limits: nothingLost,
    change: ({ lab }) => lab.exec(1, 'ovs-vsctl', 'del-port', 'br-int', 'antrea-gw0'),
    look: async (context) => (await ports(context)) + (await addresses(context)) + (await routes(context)),
  },
  {
    name: 'tunnel-deleted',
    what: '`ovs-vsctl del-port antrea-tun0`',
    limits: { connectsFailed: 0 },
    change: ({ lab }) => lab.exec(1, 'ovs-vsctl', 'del-port', 'br-int', 'antrea-tun0'),
    look: ports,
  },
  {
    name: 'pod-port-deleted',
    what: 'A pod’s port deleted from the bridge',
    limits: { connectsFailed: 0 },
    change: async (context) => context.lab.exec(1, 'ovs-vsctl', 'del-port', 'br-int', await podPort(context)),
    look: ports,
  },
];

/** The first lines that only one of two has. */
function difference(before: string, now: string): string {
  const [had, has] = [before, now].map((text) => new Set(text.split('\n')));
  const only = (of: Set<string> | undefined, other: Set<string> | undefined) => [...(of ?? [])].filter((line) => other?.has(line) !== true);
  const [gone, come] = [only(had, has), only(has, had)];
  return `${gone.length} lines are missing, ${come.length} are new: ${[...gone, ...come].slice(0, 3).join(' | ').slice(0, 600)}`;
}

async function putBack(context: FaultContext, { name, change, look, after }: Drift) {
  const took: number[] = [];
  const rounds = Math.min(context.rounds, mostRounds);
  if (after === 'pause') await setTimeout(rounds * decayMs, undefined, { signal: context.signal });
  for (let round = 0; round < rounds; round++) {
    const before = await look(context);
    const startedMs = performance.now();
    await change(context);
    let now = '';
    await until(
      async () => (now = await look(context)) === before,
      10_000,
      () => `round ${round + 1}: ${name} is not repaired: ${difference(before, now)}`,
    );
    took.push(Math.round(performance.now() - startedMs));
  }
  const worst = Math.max(...took);
  // The dump that shows it is part of the measured time.
  return {
    notes: [
      `repaired within ${worst} ms${took.length > 1 ? ` (worst of ${took.length})` : ''}${worst > byEventMs ? ', later than allowed' : ''}`,
    ],
  };
}

export const driftFaults: readonly Fault[] = drifts.map((drift) => ({
  name: drift.name,
  what: drift.what,
  limits: drift.limits,
  ...(drift.everyTime && { everyTime: true }),
  act: (context) => putBack(context, drift),
}));
