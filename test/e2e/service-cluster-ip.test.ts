import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { inParallel } from '../../lab/demo/scene.ts';
import { eventually, families, ofFamily, podManifest, ServiceLab, silent } from '../support/service-lab.ts';
import { slowness } from '../support/test-datapath.ts';

/** Cluster addresses as Kubernetes' own suite of network tests sees them, from pods and nodes, in both families. */
let lab: ServiceLab;

const everywhere = ['client-1', 'client-2', 'node-1', 'node-3'];
const web = { selector: { app: 'web' } };
const webs = ['web-1', 'web-2', 'web-3'];
/** With this number, one of three is missed by chance once in a hundred thousand times. */
const enough = 30;

beforeAll(async () => {
  lab = await ServiceLab.start([podManifest('multi', 'node-2', { app: 'multi' }, {}, [80, 8080])]);
}, 180_000 * slowness);
afterAll(async () => {
  await lab?.remove();
});

const portsOf = (...list: readonly [name: string, port: number, protocol: string, target: number | string][]) =>
  list.map(([name, port, protocol, targetPort]) => ({ name, port, protocol, targetPort }));

describe('a cluster address', () => {
  it('forwards to every endpoint, evenly, and pods are seen as themselves', async () => {
    const service = await lab.service(lab.name('even'), web);
    await lab.seesEverywhere(service, everywhere, { pods: webs, failures: [] }, { tries: enough });
    for (const family of families) {
      const address = ofFamily(service.spec.clusterIPs ?? [], family);
      for (const from of ['client-1', 'client-2'])
        expect(await lab.look({ from, address, port: 80, tries: 10 })).toMatchObject({ clients: [lab.ip(from, family)] });
      const many = await lab.tally({ from: 'client-1', address, port: 80, tries: 600 });
      expect(Math.min(...many.values()) / Math.max(...many.values()), JSON.stringify([...many])).toBeGreaterThan(0.65);
    }
  });

  it('serves several ports, by number and by name', async () => {
    const ports = portsOf(['a', 81, 'TCP', 80], ['b', 82, 'TCP', 'tcp-8080'], ['c', 82, 'UDP', 'udp-80']);
    const service = await lab.service(lab.name('multi'), { selector: { app: 'multi' }, ports });
    await lab.seesEverywhere(service, everywhere, { pods: ['multi'], failures: [] });
  });

  it('refuses ports that its Service does not have, in each protocol, and an address without a Service stays silent', async () => {
    const ports = portsOf(['tcp', 81, 'TCP', 80], ['udp', 82, 'UDP', 'udp-80']);
    const service = await lab.service(lab.name('other-port'), { selector: { app: 'multi' }, ports });
    await lab.seesEverywhere(service, everywhere, { pods: ['multi'], failures: [] });
    for (const address of service.spec.clusterIPs ?? [])
      for (const from of ['client-1', 'node-1'])
        for (const [protocol, port] of [
          ['tcp', 82],
          ['tcp', 83],
          ['udp', 81],
          ['udp', 83],
        ] as const)
          expect(await lab.look({ from, address, port, protocol, tries: 2, timeoutMs: 1_000 })).toMatchObject({
            pods: [],
            failures: ['REFUSED'],
          });
    for (const address of ['10.96.200.200', 'fd00:96::c8c8'])
      expect((await lab.look({ from: 'client-1', address, port: 83, ...silent })).failures).not.toContain('REFUSED');
  });

  it('serves one port for two and stops for the one that is deleted', async () => {
    const name = lab.name('both');
    const service = await lab.service(name, web);
    const [address = ''] = service.spec.clusterIPs ?? [];
    await lab.seesEverywhere(service, ['client-1', 'node-2'], { failures: [] });
    for (const [stays, goes] of [
      ['tcp', 'udp'],
      ['udp', 'tcp'],
    ] as const) {
      await lab.change(name, { spec: { ports: portsOf([stays, 80, stays.toUpperCase(), 80]) } });
      await lab.sees({ from: 'client-1', address, port: 80, protocol: goes, ...silent }, { pods: [] });
      await lab.sees({ from: 'client-1', address, port: 80, protocol: stays, tries: 4 }, { failures: [] });
    }
  });

  it('follows ports that are added, moved and deleted', async () => {
    const name = lab.name('moving');
    const service = await lab.service(name, { ...web, ports: portsOf(['a', 80, 'TCP', 80]) });
    const [address = ''] = service.spec.clusterIPs ?? [];
    const answers = (port: number, is: boolean) =>
      is
        ? lab.sees({ from: 'client-2', address, port, tries: 2 }, { failures: [] })
        : lab.sees({ from: 'client-2', address, port, ...silent }, { pods: [] });
    await answers(80, true);
    await lab.change(name, { spec: { ports: portsOf(['a', 80, 'TCP', 80], ['b', 81, 'TCP', 80]) } });
    await answers(81, true);
    await lab.change(name, { spec: { ports: portsOf(['b', 82, 'TCP', 80]) } });
    await answers(82, true);
    await answers(80, false);
    await answers(81, false);
  });

  it('is dead after the Service was deleted, and alive when it is recreated with the same address or another', async () => {
    const name = lab.name('again');
    const first = await lab.service(name, web);
    await lab.seesEverywhere(first, ['client-1', 'node-1'], { failures: [] });
    await lab.delete('services', name);
    await lab.seesEverywhere(first, ['client-1', 'node-1'], { pods: [] }, silent);
    const { clusterIPs } = first.spec;
    const same = await lab.service(name, { ...web, clusterIPs });
    await lab.seesEverywhere(same, ['client-1', 'node-1'], { failures: [] });
    await lab.delete('services', name);
    const other = await lab.service(name, web);
    expect(other.spec.clusterIPs).not.toEqual(clusterIPs);
    await lab.seesEverywhere(other, ['client-1', 'node-1'], { failures: [] });
    await lab.seesEverywhere(first, ['client-1'], { pods: [] }, silent);
  });

  it('does not affect another Service of the same pods when it is deleted', async () => {
    const [one, other] = [lab.name('twin'), lab.name('twin')];
    const services = [await lab.service(one, web), await lab.service(other, web)] as const;
    for (const service of services) await lab.seesEverywhere(service, ['client-1'], { failures: [] });
    await lab.delete('services', one);
    await lab.seesEverywhere(services[0], ['client-1'], { pods: [] }, silent);
    await lab.seesEverywhere(services[1], ['client-1', 'node-3'], { pods: webs, failures: [] }, { tries: enough });
  });

  it('connects a pod to itself, with another source', async () => {
    const service = await lab.service(lab.name('loop'), { selector: { client: '1' } });
    await lab.seesEverywhere(service, ['client-1'], { pods: ['client-1'], failures: [] });
    for (const family of families) {
      const address = ofFamily(service.spec.clusterIPs ?? [], family);
      expect((await lab.look({ from: 'client-1', address, port: 80 })).clients).not.toContain(lab.ip('client-1', family));
      await lab.sees({ from: 'client-2', address, port: 80 }, { clients: [lab.ip('client-2', family)] });
    }
  });

  it('forwards to a handwritten address outside the cluster', async () => {
    const name = lab.name('abroad');
    const service = await lab.service(name, {});
    const [ipv4 = '', ipv6 = ''] = lab.lab.plan.external.outside;
    await lab.endpoints(name, [{ address: { ipv4, ipv6 } }]);
    await lab.seesEverywhere(service, ['client-1', 'node-2'], { pods: ['external'], failures: [] });
  });

  it('uses each endpoint once that is in two slices, and follows one that moves', async () => {
    const name = lab.name('slices');
    const service = await lab.service(name, {});
    await lab.endpoints(name, [{ pod: 'web-1' }, { pod: 'web-2' }]);
    await lab.endpoints(name, [{ pod: 'web-2' }], { suffix: '-b' });
    await lab.seesEverywhere(service, ['client-1'], { pods: ['web-1', 'web-2'], failures: [] }, { tries: enough });
    await lab.endpoints(name, [{ pod: 'web-1' }]);
    await lab.seesEverywhere(service, ['client-1'], { pods: ['web-1', 'web-2'], failures: [] }, { tries: enough });
    await lab.endpoints(name, [], { suffix: '-b' });
    await lab.seesEverywhere(service, ['client-1'], { pods: ['web-1'], failures: [] });
  });
});

describe('a Service without endpoints', () => {
  const places = ['client-1', 'client-3', 'node-2'];

  it('refuses immediately, over TCP and UDP', async () => {
    const service = await lab.service(lab.name('empty'), { selector: { app: 'unused' } });
    await lab.seesEverywhere(service, places, { pods: [], failures: ['REFUSED'] }, { tries: 3, timeoutMs: 600 });
  });

  it('refuses when its pods have ended', async () => {
    const ended = { container: { command: ['false'] }, restartPolicy: 'Never' };
    const { collection, object } = podManifest('ended', 'node-1', { app: 'ended' }, ended);
    await lab.lab.api.send({ method: 'POST', path: collection, body: object }, AbortSignal.timeout(10_000 * slowness));
    const service = await lab.service(lab.name('ended'), { selector: { app: 'ended' } });
    await lab.seesEverywhere(service, places, { pods: [], failures: ['REFUSED'] }, { tries: 3, timeoutMs: 600 });
    await lab.delete('pods', 'ended');
  });

  it('answers as soon as it has one, and refuses when it has none again', async () => {
    const name = lab.name('flicker');
    const service = await lab.service(name, {});
    for (let round = 0; round < 2; round++) {
      await lab.seesEverywhere(service, ['client-1'], { pods: [], failures: ['REFUSED'] }, { tries: 2 });
      await lab.endpoints(name, [{ pod: 'web-2' }]);
      await lab.seesEverywhere(service, ['client-1', 'node-1'], { pods: ['web-2'], failures: [] });
      await lab.endpoints(name, []);
    }
  });
});

describe('a Service that is not Seine’s', () => {
  it.each([
    ['service.kubernetes.io/service-proxy-name', 'somebody-else'],
    ['service.kubernetes.io/headless', ''],
  ])('is dead while it has the label %s', async (label, value) => {
    const name = lab.name('labelled');
    const service = await lab.service(name, web, { labels: { [label]: value } });
    const alive = () => lab.seesEverywhere(service, ['client-1', 'node-1'], { failures: [] }, { tries: 2 });
    const dead = () => lab.seesEverywhere(service, ['client-1', 'node-1'], { pods: [] }, silent);
    await dead();
    await lab.change(name, { metadata: { labels: { [label]: null } } });
    await alive();
    await lab.change(name, { metadata: { labels: { [label]: value } } });
    await dead();
  });

  it('is one without a cluster address, or for a name outside', async () => {
    const before = await lab.lab.groups(1);
    await lab.service(lab.name('headless'), { ...web, clusterIP: 'None' });
    const outside = lab.name('outside');
    const spec = { type: 'ExternalName', externalName: 'seine.example', ports: null, ipFamilies: null, ipFamilyPolicy: null };
    await lab.service(outside, spec);
    const marker = await lab.service(lab.name('marker'), web);
    await lab.seesEverywhere(marker, ['client-1'], { failures: [] }, { tries: 1 });
    await lab.delete('services', marker.metadata.name);
    await eventually(async () => expect(await lab.lab.groups(1)).toEqual(before));
    const back = await lab.change(outside, { spec: { type: 'ClusterIP', externalName: null, ...web, ports: [{ port: 80 }] } });
    await lab.seesEverywhere(back, ['client-1'], { pods: webs, failures: [] }, { tries: enough });
    await lab.change(outside, { spec: { type: 'ExternalName', externalName: 'seine.example', clusterIP: null, clusterIPs: null } });
    await lab.seesEverywhere(back, ['client-1'], { pods: [] }, silent);
  });
});

it('is served soon after its creation: a hundred Services', async () => {
  const names = Array.from({ length: 100 }, () => lab.name('soon'));
  const tookMs = await inParallel(names, async (name) => {
    const startedMs = performance.now();
    const { spec } = await lab.service(name, web);
    const aim = { from: 'client-1', address: spec.clusterIPs?.[0] ?? '', port: 80, tries: 1, timeoutMs: 100 };
    await eventually(async () => expect((await lab.look(aim)).failures).toEqual([]));
    return performance.now() - startedMs;
  });
  const [median = 0, p90 = 0] = [50, 90].map((percent) => tookMs.toSorted((a, b) => a - b)[percent]);
  console.log(`Services answer after ${median.toFixed(0)} ms (p50), ${p90.toFixed(0)} ms (p90)`);
  // A measurement of Kubernetes' own conformance test ("Service endpoints latency should not be very high").
  expect(median).toBeLessThan(20_000);
  expect(p90).toBeLessThan(50_000);
  await inParallel(names, (name) => lab.delete('services', name));
});
