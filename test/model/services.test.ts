import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseIp } from '../../src/base/net/ip.ts';
import { packEndpoints, type SliceEndpoint, unpackEndpoints } from '../../src/base/net/packed-endpoints.ts';
import { nothing } from '../../src/dataplane/desired/host-entries.ts';
import { ownerOf } from '../../src/dataplane/pipeline/cookie.ts';
import type { Bucket, Group } from '../../src/dataplane/pipeline/flow.ts';
import { ConnectionTracker } from '../../src/dataplane/switch-model/connection-tracker.ts';
import type { Packet } from '../../src/dataplane/switch-model/packet.ts';
import { SwitchModel } from '../../src/dataplane/switch-model/switch-model.ts';
import { encodeBridgeEntries } from '../../src/dataplane/targets/bridge/bridge-entry.ts';
import { translateTo } from '../../src/services/compile/translation.ts';
import { modelRuns } from '../support/model-runs.ts';
import { allowed, clusters, type Question, questions } from './random-services.ts';
import { compileScene, type Scene } from './scene.ts';

type Compiled = ReturnType<typeof compileScene>;

/** Every possible outcome of the pipeline for this probe, for any choices of its groups. */
function happening(scene: Scene, question: Question, compiled: Compiled): string[] {
  const most = Math.max(1, ...compiled.groups.map(({ buckets }) => buckets.length));
  return [...new Set(Array.from({ length: most }, (_, choice) => outcome(scene, question, { compiled, choice })))].toSorted();
}

function outcome(
  { node, pods }: Scene,
  { asked, by, inPort, portSrc }: Question,
  { compiled, choice }: { compiled: Compiled; choice: number },
): string {
  const choose = ({ buckets }: Group) => choice % buckets.length;
  const options = { ...compiled, tracker: new ConnectionTracker('userspace'), choose, tunnelPort: node.tunnel.ofPort };
  const ethSrc = pods.find(({ ofPort }) => ofPort === inPort)?.mac ?? node.gateway.mac;
  const packet: Packet = {
    ethSrc,
    ethDst: node.gateway.mac,
    payload: asked.ip.family,
    ...(asked.protocol && { protocol: asked.protocol }),
    ipSrc: by.ip,
    ipDst: asked.ip,
    portSrc,
    portDst: asked.port,
    ttl: 64,
    ...(asked.protocol === 'tcp' && { tcpFlags: 'syn' as const }),
  };
  const { tables, flows, outputs, translations } = new SwitchModel(options).receive(inPort, packet);
  if (outputs.some(({ to }) => to === 'agent: noEndpoint')) return 'refused';
  const [only] = translations;
  if (only) return `${only.dst.text} ${only.dstPort}`;
  // A packet that matches no Service's flow continues unchanged.
  if (!flows.some(({ table }) => table === 'balance' || table === 'sourceRanges')) return 'none';
  return tables.includes('egressEntry') ? 'itself' : 'dropped';
}

function disagreement(scene: Scene, compiled = compileScene(scene)): string | undefined {
  for (const question of questions(scene)) {
    const [expected, found] = [allowed(scene, question), happening(scene, question, compiled)];
    if (JSON.stringify(expected) !== JSON.stringify(found)) return `${described(question)}: allowed ${expected}; happened ${found}`;
  }
  return undefined;
}

function described({ asked, by, inPort }: Question): string {
  return `${by.kind} ${by.ip.text} by ${inPort} asks ${asked.protocol} ${asked.ip.text} ${asked.port}`;
}

describe('any Services of a cluster', () => {
  it('every client gets exactly the endpoints that Kubernetes promises, or the promised refusal or silence', () => {
    fc.assert(
      fc.property(clusters, (scene) => {
        const found = disagreement(scene);
        if (found !== undefined) throw new Error(found);
      }),
      { numRuns: modelRuns(300) },
    );
  });

  it('the bytes of its groups are those of their steps', () => {
    const entriesOf = (groups: readonly Group[]) => encodeBridgeEntries(ownerOf('service', 'a'), { ...nothing, groups });
    fc.assert(
      fc.property(clusters, (scene) => {
        const { groups } = compileScene(scene);
        const plain = groups.map(({ id, buckets }) => ({ id, buckets: buckets.map(({ weight, steps }) => ({ weight, steps })) }));
        expect(groups.every(({ buckets }) => buckets.every(({ from }) => from))).toBe(true);
        expect(entriesOf(groups)).toEqual(entriesOf(plain));
      }),
      { numRuns: modelRuns(300) },
    );
  });

  /** Bugs in the compilation of Services: the pipeline is compiled from a modified cluster. */
  const misread: Readonly<Record<string, (scene: Scene) => Scene>> = {
    'forgets one of an endpoint’s slices': (scene) => ofSlices(scene, (slices) => slices.slice(0, 1)),
    'takes what is not ready': (scene) => ofService(scene, { publishNotReadyAddresses: true }),
    'treats policy Local inside as Cluster': (scene) => ofService(scene, { internalTrafficPolicy: 'Cluster' }),
    'treats policy Local outside as Cluster': (scene) => ofService(scene, { externalTrafficPolicy: 'Cluster' }),
    'ignores hints': (scene) => ofEndpoints(scene, ({ zoneHints: _, nodeHints: __, ...rest }) => rest),
    'ignores hints for nodes': (scene) => ofEndpoints(scene, ({ nodeHints: _, ...rest }) => rest),
    'takes no endpoint that terminates': (scene) => ofEndpoints(scene, (endpoint) => ({ ...endpoint, serving: endpoint.ready })),
    'short-cuts balancers that want to see their traffic': (scene) =>
      ofService(scene, {}, ({ loadBalancerIngress }) => ({
        loadBalancerIngress: loadBalancerIngress.map(({ ip }) => ({ ip, ipMode: 'VIP' })),
      })),
    'forgets source ranges': (scene) => ofService(scene, { loadBalancerSourceRanges: [] }),
    'serves external addresses that are not allowed': (scene) => ({
      ...scene,
      proxying: { ...scene.proxying, config: { ...scene.proxying.config, externalIpRanges: [] } },
    }),
    'takes the node for another': (scene) => ({ ...scene, proxying: { ...scene.proxying, node: { ...scene.proxying.node, name: 'n2' } } }),
  };

  it.each(Object.entries(misread))('the oracles detect a proxy that %s', (_, misreading) => {
    const property = fc.property(clusters, (scene) => disagreement(scene, compileScene(misreading(scene))) === undefined);
    expect(fc.check(property, { seed: 11, numRuns: 300, endOnFailure: true }).failed).toBe(true);
  });

  it.each([
    [
      'in the group of an address that is an endpoint’s',
      (compiled: Compiled): Compiled => ({
        ...compiled,
        flows: compiled.flows,
        groups: compiled.groups.map((group) => ({ ...group, buckets: group.buckets.map(translating) })),
      }),
    ],
    [
      'from where it goes to',
      (compiled: Compiled): Compiled => ({
        ...compiled,
        flows: compiled.flows.filter(({ table, match }) => table !== 'sourceRanges' || match.portSrc === undefined),
      }),
    ],
  ])('the oracles detect a translation %s', (_, mutate) => {
    const property = fc.property(clusters, (scene) => disagreement(scene, mutate(compileScene(scene))) === undefined);
    expect(fc.check(property, { seed: 11, numRuns: 300, endOnFailure: true }).failed).toBe(true);
  });

  it('the oracles detect an endpoint without a bucket', () => {
    const property = fc.property(clusters, (scene) => {
      const compiled = compileScene(scene);
      const groups = compiled.groups.map((group) => {
        const lost = JSON.stringify(group.buckets[0]?.steps);
        return { ...group, buckets: group.buckets.filter(({ steps }) => JSON.stringify(steps) !== lost) };
      });
      return disagreement(scene, { ...compiled, groups }) === undefined;
    });
    expect(fc.check(property, { seed: 11, numRuns: 100, endOnFailure: true }).failed).toBe(true);
  });
});

/** Makes every bucket translate: a bucket without a translation of its own gets one of 198.51.100.200. */
function translating(bucket: Bucket): Bucket {
  const itself = bucket.steps.some((step) => step.do === 'resubmit' && step.table === 'egressEntry');
  return itself ? { ...bucket, steps: [translateTo({ ip: parseIp('198.51.100.200'), port: 80 })] } : bucket;
}

type Service = Scene['services'][number]['service'];
type Slice = Scene['services'][number]['slices'][number];

function ofService(scene: Scene, same: Partial<Service>, change: (service: Service) => Partial<Service> = () => ({})): Scene {
  return {
    ...scene,
    services: scene.services.map((each) => ({ ...each, service: { ...each.service, ...same, ...change(each.service) } })),
  };
}

function ofSlices(scene: Scene, change: (slices: readonly Slice[]) => readonly Slice[]): Scene {
  return { ...scene, services: scene.services.map((each) => ({ ...each, slices: change(each.slices) })) };
}

function ofEndpoints(scene: Scene, change: (endpoint: SliceEndpoint) => SliceEndpoint): Scene {
  return ofSlices(scene, (slices) =>
    slices.map((slice) => ({ ...slice, endpoints: packEndpoints(unpackEndpoints(slice.endpoints).map(change)) })),
  );
}
