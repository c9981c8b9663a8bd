import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { inParallel } from '../../lab/demo/scene.ts';
import { ask } from '../../lab/probe/probe.ts';
import {
  eventually,
  families,
  hostOf,
  type KubeService,
  ofFamily,
  podManifest,
  protocols,
  ServiceLab,
  silent,
} from '../support/service-lab.ts';
import { slowness, testDatapath } from '../support/test-datapath.ts';

/** Choice of a Service's endpoints for a client inside the cluster, and the reasons. */
let lab: ServiceLab;

const web = { selector: { app: 'web' } };
const webs = ['web-1', 'web-2', 'web-3'];
const clients = ['client-1', 'client-2', 'client-3', 'node-1', 'node-2', 'node-3'];
/** With this number, one of three is missed by chance once in a hundred thousand times. */
const enough = 30;

beforeAll(async () => {
  lab = await ServiceLab.start();
}, 180_000 * slowness);
afterAll(async () => {
  await lab?.remove();
});

const portsOf = (...list: readonly [name: string, port: number, protocol: string, target: number | string][]) =>
  list.map(([name, port, protocol, targetPort]) => ({ name, port, protocol, targetPort }));

describe('session affinity', () => {
  const sticky = (timeoutSeconds: number) => ({ sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds } } });

  /** Endpoint of each client; fails unless each has just one. */
  async function held(service: KubeService, tries = 5): Promise<readonly string[]> {
    const found = await inParallel(lab.clusterAims(service, clients), async (aim) => {
      const { pods, failures } = await lab.look({ ...aim, tries });
      expect(failures).toEqual([]);
      return pods.join('+');
    });
    return found;
  }

  it('keeps each client at one endpoint, is switched off, and on again', async () => {
    const name = lab.name('sticky');
    const service = await lab.service(name, { ...web, ...sticky(600) });
    await lab.seesEverywhere(service, clients, { failures: [] });
    const first = await held(service, 15);
    expect(first.filter((pods) => pods.includes('+'))).toEqual([]);
    expect(new Set(first).size).toBeGreaterThan(1);
    expect(await held(service)).toEqual(first);
    await lab.change(name, { spec: { sessionAffinity: 'None', sessionAffinityConfig: null } });
    await lab.seesEverywhere(service, clients, { pods: webs }, { tries: enough });
    await lab.change(name, { spec: sticky(600) });
    await eventually(async () => expect((await held(service)).filter((pods) => pods.includes('+'))).toEqual([]));
  });

  it('lasts as long as a client keeps sending, and its timeout after that', async () => {
    const service = await lab.service(lab.name('brief'), { ...web, ...sticky(2 * slowness) });
    await lab.seesEverywhere(service, clients, { failures: [] });
    const first = await held(service, 3);
    // Often enough that a host that pauses for a second does not look like a client that stays away.
    for (let halfSecond = 0; halfSecond < 8; halfSecond++) {
      await sleep(500);
      expect(await held(service, 2)).toEqual(first);
    }
    await sleep(5_500 * slowness);
    expect(await held(service, 1)).not.toEqual(first);
  });

  it('drops a removed endpoint immediately, and no other', async () => {
    const name = lab.name('leaving');
    const service = await lab.service(name, sticky(600));
    await lab.endpoints(name, [{ pod: 'web-1' }, { pod: 'web-2' }]);
    await lab.seesEverywhere(service, clients, { failures: [] });
    const first = await held(service);
    await lab.endpoints(name, [{ pod: 'web-2' }, { pod: 'web-3' }]);
    await eventually(async () => expect((await held(service, 1)).every((pod) => pod !== 'web-1')).toBe(true));
    const then = await held(service);
    expect(then.filter((pods) => pods.includes('+'))).toEqual([]);
    for (const [at, pod] of first.entries()) if (pod === 'web-2') expect(then[at]).toBe('web-2');
  });
});

describe('internalTrafficPolicy Local', () => {
  it('gives a client only endpoints of its own node, and fails if there are none', async () => {
    const name = lab.name('local');
    const service = await lab.service(name, { internalTrafficPolicy: 'Local' });
    await lab.endpoints(name, [{ pod: 'web-1' }, { pod: 'client-1' }, { pod: 'web-2' }]);
    await lab.seesEverywhere(service, ['client-1', 'node-1'], { pods: ['client-1', 'web-1'], failures: [] }, { tries: 12 });
    await lab.seesEverywhere(service, ['client-2', 'node-2'], { pods: ['web-2'], failures: [] });
    await lab.seesEverywhere(service, ['client-3', 'node-3'], { pods: [] }, silent);
    await lab.change(name, { spec: { internalTrafficPolicy: 'Cluster' } });
    await lab.seesEverywhere(service, ['client-3'], { pods: ['client-1', 'web-1', 'web-2'], failures: [] }, { tries: enough });
  });

  it('reaches a pod of the host network from pods and processes of that node, and from no other', async () => {
    const name = lab.name('local-host');
    const service = await lab.service(name, { internalTrafficPolicy: 'Local' });
    await lab.endpoints(name, [{ pod: 'host-2' }], { port: 8081 });
    await lab.seesEverywhere(service, ['client-2', 'node-2', 'host-2'], { pods: ['host-2'], failures: [] });
    await lab.seesEverywhere(service, ['client-1', 'node-1', 'host-1'], { pods: [] }, silent);
  });
});

describe('endpoints that are not ready', () => {
  const leaving = { ready: false, serving: true, terminating: true };
  const unready = { ready: false, serving: false, terminating: false };
  const gone = { ready: false, serving: false, terminating: true };

  it('serve while they terminate, if no other is ready', async () => {
    const name = lab.name('leaving');
    const service = await lab.service(name, {});
    await lab.endpoints(name, [{ pod: 'web-1', ...leaving }, { pod: 'web-2' }, { pod: 'web-3', ...unready }]);
    await lab.seesEverywhere(service, ['client-1', 'node-3'], { pods: ['web-2'], failures: [] }, { tries: 12 });
    await lab.endpoints(name, [
      { pod: 'web-1', ...leaving },
      { pod: 'web-2', ...leaving },
      { pod: 'web-3', ...unready },
    ]);
    await lab.seesEverywhere(service, ['client-1', 'node-3'], { pods: ['web-1', 'web-2'], failures: [] }, { tries: 20 });
    await lab.endpoints(name, [
      { pod: 'web-1', ...gone },
      { pod: 'web-3', ...unready },
    ]);
    await lab.seesEverywhere(service, ['client-1', 'node-3'], { pods: [], failures: ['REFUSED'] }, { tries: 2 });
  });

  it('serve their own node only, with internalTrafficPolicy Local', async () => {
    const name = lab.name('leaving-local');
    const service = await lab.service(name, { internalTrafficPolicy: 'Local' });
    await lab.endpoints(name, [{ pod: 'web-1', ...leaving }, { pod: 'web-2' }]);
    await lab.seesEverywhere(service, ['client-1', 'node-1'], { pods: ['web-1'], failures: [] });
    await lab.seesEverywhere(service, ['client-3'], { pods: [] }, silent);
  });

  it('are reached with publishNotReadyAddresses, and without it are not', async () => {
    const unreadyProbe = { container: { readinessProbe: { exec: { command: ['false'] }, periodSeconds: 1 } } };
    const { collection, object } = podManifest('shy', 'node-2', { app: 'shy' }, unreadyProbe);
    await lab.lab.api.send({ method: 'POST', path: collection, body: object }, AbortSignal.timeout(10_000 * slowness));
    const name = lab.name('shy');
    const service = await lab.service(name, { selector: { app: 'shy' }, publishNotReadyAddresses: true });
    await lab.seesEverywhere(service, ['client-1', 'node-2'], { pods: ['shy'], failures: [] });
    await lab.change(name, { spec: { publishNotReadyAddresses: false } });
    await lab.seesEverywhere(service, ['client-1', 'node-2'], { pods: [], failures: ['REFUSED'] }, { tries: 2 });
    await lab.delete('pods', 'shy');
  });

  it('of a real pod that is deleted serve until its containers end', async () => {
    const slow = { container: { lifecycle: { preStop: { sleep: { seconds: 4 } } } }, terminationGracePeriodSeconds: 20 };
    await lab.start(podManifest('slow', 'node-3', { app: 'slow' }, slow));
    const service = await lab.service(lab.name('slow'), { selector: { app: 'slow' } });
    await lab.seesEverywhere(service, ['client-1', 'client-3'], { pods: ['slow'], failures: [] });
    await lab.delete('pods', 'slow');
    const startedMs = performance.now();
    while (performance.now() - startedMs < 3_000)
      expect(await lab.look({ from: 'client-1', address: service.spec.clusterIPs?.[0] ?? '', port: 80 })).toMatchObject({ failures: [] });
    await lab.seesEverywhere(service, ['client-1', 'client-3'], { pods: [], failures: ['REFUSED'] }, { tries: 2 });
  });
});

/** Zones of the lab's nodes: a, b, a. */
describe('topology', () => {
  const near = { 'client-1': ['web-1', 'web-3'], 'client-2': ['web-2'], 'client-3': ['web-1', 'web-3'], 'node-2': ['web-2'] };

  it.each(['PreferClose', 'PreferSameZone'])('%s keeps clients in their zone', async (trafficDistribution) => {
    const service = await lab.service(lab.name('zone'), { ...web, trafficDistribution });
    for (const [from, pods] of Object.entries(near)) await lab.seesEverywhere(service, [from], { pods, failures: [] }, { tries: 14 });
  });

  it('PreferSameNode keeps clients on their node, and else in their zone', async () => {
    const name = lab.name('same-node');
    const service = await lab.service(name, { ...web, trafficDistribution: 'PreferSameNode' });
    for (const number of [1, 2, 3])
      await lab.seesEverywhere(service, [`client-${number}`, `node-${number}`], { pods: [`web-${number}`], failures: [] }, { tries: 8 });
    const other = lab.name('same-node');
    const handMade = await lab.service(other, { trafficDistribution: 'PreferSameNode' });
    const hinted = (number: number, zone: string) => ({
      pod: `web-${number}`,
      zone,
      hints: { forNodes: [{ name: `node-${number}` }], forZones: [{ name: zone }] },
    });
    await lab.endpoints(other, [hinted(2, 'b'), hinted(3, 'a')]);
    await lab.seesEverywhere(handMade, ['client-1'], { pods: ['web-3'], failures: [] }, { tries: 8 });
    await lab.seesEverywhere(handMade, ['client-2'], { pods: ['web-2'], failures: [] }, { tries: 8 });
  });

  it('gives all endpoints to a client whose zone has none, and when a hint is missing', async () => {
    const name = lab.name('elsewhere');
    const service = await lab.service(name, {});
    const inZone = (pod: string, zone: string) => ({ pod, zone, hints: { forZones: [{ name: zone }] } });
    await lab.endpoints(name, [inZone('web-1', 'a'), inZone('web-3', 'a')]);
    await lab.seesEverywhere(service, ['client-2'], { pods: ['web-1', 'web-3'], failures: [] }, { tries: 14 });
    await lab.endpoints(name, [inZone('web-1', 'a'), inZone('web-2', 'b'), { pod: 'web-3', zone: 'a' }]);
    await lab.seesEverywhere(service, ['client-2'], { pods: webs, failures: [] }, { tries: enough });
    await lab.endpoints(name, [inZone('web-1', 'a'), inZone('web-2', 'b'), inZone('web-3', 'a')]);
    await lab.seesEverywhere(service, ['client-2'], { pods: ['web-2'], failures: [] }, { tries: 8 });
  });
});

describe('endpoints of the host network', () => {
  const host = { selector: { app: 'host' }, ports: portsOf(['tcp', 80, 'TCP', 8081], ['udp', 80, 'UDP', 8081]) };

  it('serve pods and nodes, their own and others', async () => {
    const service = await lab.service(lab.name('host'), host);
    await lab.seesEverywhere(service, clients, { pods: ['host-1', 'host-2', 'host-3'], failures: [] }, { tries: enough });
  });

  it('of other nodes see a pod as itself or as its node, never as another', async () => {
    const name = lab.name('host-source');
    const service = await lab.service(name, {});
    await lab.endpoints(name, [{ pod: 'host-2' }], { port: 8081 });
    for (const family of families) {
      const address = ofFamily(service.spec.clusterIPs ?? [], family);
      await lab.sees({ from: 'client-1', address, port: 80 }, { pods: ['host-2'], failures: [] });
      const probe = { from: lab.place('client-1'), protocol: 'tcp', address, port: 80, timeoutMs: 1_000 * slowness } as const;
      const outcome = await ask(probe);
      expect([lab.ip('client-1', family), lab.ip('node-1', family)]).toContain(
        outcome.is === 'OK' ? hostOf(outcome.answer.client) : outcome.is,
      );
    }
  });
});

describe.runIf(testDatapath === 'netdev')('SCTP on the userspace data path', () => {
  it('works for no other protocol, which is reported', async () => {
    const name = lab.name('sctp');
    const service = await lab.service(name, {
      ...web,
      ports: portsOf(['http', 80, 'TCP', 80], ['signals', 80, 'SCTP', 80], ['only', 81, 'SCTP', 80]),
    });
    const tcp: KubeService = {
      ...service,
      spec: { ...service.spec, ports: service.spec.ports.filter(({ name: port }) => port === 'http') },
    };
    await lab.seesEverywhere(tcp, ['client-1', 'node-1'], { failures: [] });
    for (const address of service.spec.clusterIPs ?? [])
      for (const protocol of protocols)
        expect(await lab.look({ from: 'client-1', address, port: 81, protocol, ...silent })).toMatchObject({ pods: [] });
    await eventually(async () => expect(await lab.events('Service', name)).toContainEqual(expect.stringContaining('SCTP')));
  });
});
