import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { agentProcess } from '../../lab/node/agent.ts';
import { nodePaths } from '../../lab/plan/names.ts';
import { tables } from '../../src/dataplane/pipeline/tables.ts';
import { eventually, families, type KubeService, ofFamily, ServiceLab } from '../support/service-lab.ts';
import { SteadyUdp } from '../support/steady-udp.ts';
import { slowness } from '../support/test-datapath.ts';

/**
 * The cluster changes while a node's agent is dead. State that is kept meanwhile – tracked connections, remembered clients – is checked
 * after its restart.
 */
let lab: ServiceLab;
const closing: SteadyUdp[] = [];

/** Time from the start of the agent until all clients reach the right endpoint: reading the cluster takes most of it. */
const repairedMs = 8_000 * slowness;
/** The same if more than 30 % is lost at once: ten seconds more. */
const heldMs = 25_000 * slowness;
/** Time of a start that ends early. */
const endsMs = 30_000 * slowness;
const sticky = { sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: 10_800 } } };
const webs = [{ pod: 'web-1' }, { pod: 'web-2' }, { pod: 'web-3' }];
/** Enough that each of three endpoints very probably has some. */
const crowd = 12;

beforeAll(async () => {
  lab = await ServiceLab.start();
}, 180_000 * slowness);
afterAll(async () => {
  for (const client of closing) client.stop();
  await lab?.remove();
});

interface Way {
  readonly from: string;
  readonly address: string;
  readonly port: number;
}

async function clients(ways: readonly Way[]): Promise<readonly SteadyUdp[]> {
  const started = await Promise.all(ways.map(({ from, address, port }) => SteadyUdp.start(lab.place(from), address, port)));
  closing.push(...started);
  return started;
}

/** Paths from a pod of the node, and from the node, to the cluster addresses. */
function insideWays(service: KubeService, each = 1): Way[] {
  const to = families.map((family) => ({ address: ofFamily(service.spec.clusterIPs ?? [], family), port: 80 }));
  return to.flatMap((target) => ['client-1', 'node-1'].flatMap((from) => Array.from({ length: each }, () => ({ from, ...target }))));
}

function externalWays(service: KubeService, each = 1): Way[] {
  const to = families.map((family) => ({ from: 'external', address: lab.ip('node-1', family), port: lab.nodePort(service, 'udp') }));
  return to.flatMap((way) => Array.from({ length: each }, () => way));
}

const received = (all: readonly SteadyUdp[]) => all.map(({ last }) => last);
const allServed = (all: readonly SteadyUdp[]) =>
  eventually(async () => expect(received(all).filter((who) => !who.startsWith('web-'))).toEqual([]));

/** Reports whether no client has an answer for a moment. */
async function quiet(all: readonly SteadyUdp[]): Promise<boolean> {
  const before = all.map(({ answers }) => answers);
  await sleep(300);
  return all.every(({ answers }, at) => answers === before[at]);
}

async function whileAway(change: () => Promise<void>): Promise<void> {
  await lab.lab.agent(1, 'kill');
  await change();
  await lab.lab.agent(1, 'start');
  await lab.lab.untilReady(1);
}

async function endpointsOf(name: string, spec: object = {}): Promise<KubeService> {
  const service = await lab.service(name, spec);
  await lab.endpoints(name, webs);
  return service;
}

describe('UDP clients that never stop sending, after a time without agent', () => {
  const of: Record<string, readonly SteadyUdp[]> = {};
  let before: readonly string[] = [];
  const newest = { ipv4: '10.96.77.77', ipv6: 'fd00:10:96::7777' };

  beforeAll(async () => {
    // Many that stay, so that the removal is not a mass removal.
    const ballast = Array.from({ length: 60 }, (_, at) => ({ address: { ipv4: `192.0.2.${at + 1}`, ipv6: `2001:db8:99::${at + 1}` } }));
    await lab.service('ballast', {});
    await lab.endpoints('ballast', ballast);
    const [moved, gone, port, inside, outside] = [
      await endpointsOf('moved'),
      await endpointsOf('gone', { type: 'NodePort' }),
      await endpointsOf('port'),
      await endpointsOf('inside'),
      await endpointsOf('outside', { type: 'NodePort' }),
    ];
    of['moved'] = await clients(insideWays(moved, crowd));
    of['gone'] = await clients([...insideWays(gone), ...externalWays(gone)]);
    of['port'] = await clients(insideWays(port));
    of['inside'] = await clients(insideWays(inside, crowd));
    of['outside'] = await clients(externalWays(outside, crowd));
    of['newest'] = await clients(families.map((family) => ({ from: 'client-1', address: newest[family], port: 80 })));
    const { newest: _, ...served } = of;
    await allServed(Object.values(served).flat());
    // Connections tracked before its endpoints existed are deleted a few times.
    await sleep(1_500);
    await allServed(Object.values(served).flat());
    before = received(of['moved']);
    await whileAway(async () => {
      await lab.endpoints('moved', [{ pod: 'web-2' }, { pod: 'web-3' }]);
      await lab.delete('services', 'gone');
      await lab.change('port', { spec: { ports: [{ name: 'tcp', port: 80, protocol: 'TCP' }] } });
      await lab.change('inside', { spec: { internalTrafficPolicy: 'Local' } });
      await lab.change('outside', { spec: { externalTrafficPolicy: 'Local' } });
      await lab.service('newest', { clusterIPs: [newest.ipv4, newest.ipv6] });
      await lab.endpoints('newest', [{ pod: 'web-2' }]);
    });
  }, 180_000 * slowness);

  const ofCase = (name: string): readonly SteadyUdp[] => of[name] ?? [];

  it('leave an endpoint that is removed', async () => {
    expect(new Set(before)).toEqual(new Set(['web-1', 'web-2', 'web-3']));
    await eventually(async () => expect(received(ofCase('moved'))).not.toContain('web-1'), repairedMs);
  });

  it('stay with live endpoints', () => {
    const stayed = before.flatMap((who, at) => (who === 'web-1' ? [] : [[who, ofCase('moved')[at]?.last]]));
    expect(stayed.filter(([was, is]) => was !== is)).toEqual([]);
  });

  it('are no longer served by a deleted Service', async () => {
    await eventually(async () => expect(await quiet(ofCase('gone'))).toBe(true), repairedMs);
  });

  it('are no longer served at a deleted port', async () => {
    await eventually(async () => expect(await quiet(ofCase('port'))).toBe(true), repairedMs);
  });

  it('reach endpoints of the node once only these are allowed', async () => {
    await eventually(async () => expect(new Set(received(ofCase('inside')))).toEqual(new Set(['web-1'])), repairedMs);
  });

  it('reach endpoints of the node from outside once only these are allowed', async () => {
    await eventually(async () => expect(new Set(received(ofCase('outside')))).toEqual(new Set(['web-1'])), repairedMs);
  });

  it('are served by a new Service', async () => {
    await eventually(async () => expect(received(ofCase('newest'))).toEqual(['web-2', 'web-2']), repairedMs);
  });
});

describe('a loss of more than 30 % at once', () => {
  it('is delayed until a second check confirms it', async () => {
    const service = await endpointsOf('most');
    const all = await clients(insideWays(service, crowd));
    await allServed(all);
    await sleep(1_500);
    await allServed(all);
    await whileAway(async () => {
      await lab.endpoints('ballast', []);
      await lab.endpoints('most', [{ pod: 'web-2' }]);
    });
    const held = () => lab.lab.log(1).findLast(({ msg }) => msg.startsWith('mass deletion of connections to removed endpoints is delayed'));
    await eventually(async () => expect(held()).toBeDefined(), repairedMs);
    expect(new Set(received(all)).size).toBeGreaterThan(1);
    await eventually(async () => expect(new Set(received(all))).toEqual(new Set(['web-2'])), heldMs);
  });
});

describe('remembered clients, after a time without agent', () => {
  const aims = (service: KubeService) => lab.clusterAims(service, ['client-1', 'node-1']);

  /** Endpoint of each client; each has one. */
  async function bound(service: KubeService): Promise<readonly string[]> {
    const seen = await Promise.all(aims(service).map((aim) => lab.look({ ...aim, tries: 3, timeoutMs: 5_000 })));
    expect(seen.flatMap(({ failures }) => failures)).toEqual([]);
    return seen.map(({ pods }) => pods.join('+'));
  }

  it('are served by a live endpoint, by none of a deleted Service, and by all once affinity is off', async () => {
    const [leaving, gone, off] = [
      await endpointsOf('leaving', sticky),
      await endpointsOf('forsaken', sticky),
      await endpointsOf('off', sticky),
    ];
    for (const service of [leaving, gone, off]) await lab.seesEverywhere(service, ['client-1', 'node-1'], { failures: [] });
    const addresses = gone.spec.clusterIPs ?? [];
    const learned = async () => (await lab.lab.flows(1)).filter(({ text }) => text.includes(`table=${tables.affinity.id},`));
    const forsakenClients = async () => (await learned()).filter(({ text }) => addresses.some((ip) => text.includes(`_dst=${ip},`))).length;
    expect(await forsakenClients()).toBeGreaterThan(0);
    const first = await bound(leaving);
    const lost = first[0] ?? '';
    const left = webs.filter(({ pod }) => pod !== lost);
    await whileAway(async () => {
      await lab.endpoints('leaving', left);
      await lab.delete('services', 'forsaken');
      await lab.change('off', { spec: { sessionAffinity: 'None', sessionAffinityConfig: null } });
    });
    const held = () => lab.lab.log(1).findLast(({ msg }) => msg.startsWith('mass removal of affinities with removed endpoints'));
    await eventually(async () => expect(held()).toBeDefined(), repairedMs);
    // Nor does the sweep remove them, which checks everything every four seconds.
    await sleep(6_000);
    expect(await forsakenClients()).toBeGreaterThan(0);
    await eventually(async () => expect(await bound(leaving)).not.toContain(lost), heldMs);
    expect(await forsakenClients()).toBe(0);
    const then = await bound(leaving);
    expect(first.filter((pod, at) => pod !== lost && then[at] !== pod)).toEqual([]);
    for (const aim of aims(gone)) await lab.sees({ ...aim, tries: 2, timeoutMs: 300 }, { pods: [] });
    await lab.seesEverywhere(off, ['client-1', 'node-1'], { pods: ['web-1', 'web-2', 'web-3'], failures: [] }, { tries: 30 });
  });
});

describe('an agent that does not know the format of the journal', () => {
  it('ends before it changes a flow', async () => {
    const { plan } = lab.lab;
    const path = join(nodePaths(plan.dir, lab.lab.node(1).name).stateDir, 'ipam.journal');
    await lab.lab.agent(1, 'kill');
    const journal = readFileSync(path, 'utf8');
    writeFileSync(path, ofFormat(journal, 99));
    // Entries that an agent of another release would repair to its own form.
    await lab.lab.exec(1, 'ovs-ofctl', '-O', 'OpenFlow15', 'del-flows', 'br-int', 'table=4');
    const flows = async () => (await lab.lab.flows(1)).map(({ text }) => text);
    const before = await flows();
    await lab.lab.agent(1, 'start');
    await eventually(async () => expect(JSON.stringify(lab.lab.log(1).at(-1))).toContain('the IPAM journal has format 99'), endsMs);
    await eventually(async () => expect(agentProcess(plan, lab.lab.node(1))).toBeUndefined(), endsMs);
    expect(await flows()).toEqual(before);
    writeFileSync(path, journal);
    await lab.lab.agent(1, 'start');
    await lab.lab.untilReady(1);
  });
});

function ofFormat(journal: string, format: number): string {
  const [first = '', ...rest] = journal.split('\n');
  const json = first.slice(9).replace(/"v":\d+/, `"v":${format}`);
  return [`${crc32(json).toString(16).padStart(8, '0')} ${json}`, ...rest].join('\n');
}
