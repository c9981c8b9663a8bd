import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { clusters } from '../../../test/model/random-services.ts';
import { exampleScene, type Scene } from '../../../test/model/scene.ts';
import { examplePeers, examplePods } from '../../../test/support/example-node.ts';
import { filledService } from '../../../test/support/scene-service.ts';
import { announcementsOwner, compileAnnouncements } from '../../dataplane/compile/compile-announcements.ts';
import { compileRefusals, refusalsOwner } from '../../dataplane/compile/compile-denied-packets.ts';
import { compileSubject } from '../../dataplane/compile/compile-entry.ts';
import { compileNode } from '../../dataplane/compile/compile-node.ts';
import { compilePeer } from '../../dataplane/compile/compile-peer.ts';
import { compilePod } from '../../dataplane/compile/compile-pod.ts';
import { compileProbes, probesOwner } from '../../dataplane/compile/compile-probes.ts';
import { compileUnservedPorts, unservedPortsOwner } from '../../dataplane/compile/compile-service-path.ts';
import { compileTimeExceeded, timeExceededOwner } from '../../dataplane/compile/compile-time-exceeded.ts';
import { nothing } from '../../dataplane/desired/host-entries.ts';
import { type Owner, ownerOf } from '../../dataplane/pipeline/cookie.ts';
import { DesiredState } from '../../dataplane/reconcile/desired-state.ts';
import { type BridgeKey, type BridgeValue, encodeBridgeEntries } from '../../dataplane/targets/bridge/bridge-entry.ts';
import { compileEndpoint, compileService } from '../../services/compile/compile-service.ts';
import { endpointOwner } from '../../services/compile/endpoint-owner.ts';
import { serviceIntents } from '../../services/compile/intent.ts';
import { askedRanges, translatedEndpoints } from '../../services/compile/service-intent.ts';
import { compileSourceRanges, rangeSetOf } from '../../services/compile/source-ranges.ts';
import { compileInputs } from './compile-inputs.ts';
import { readInputs, writeEnd, writeInput, writeServices, writeStart } from './inputs-document.ts';
import { readHeld } from './installed-bridge.ts';
import type { NodeInputs, ServiceInput } from './node-inputs.ts';

/** Inputs as the agent keeps them, and as it would record them. */
function agentWith({ node: environment, peers, pods, services, proxying }: Scene) {
  const bridge = new DesiredState<BridgeKey, BridgeValue>({ equal: (a, b) => a === b });
  const want = (owner: Owner, wanted: Parameters<typeof encodeBridgeEntries>[1]) => bridge.set(owner, encodeBridgeEntries(owner, wanted));
  want(ownerOf('node'), compileNode(environment));
  want(announcementsOwner, compileAnnouncements());
  want(unservedPortsOwner, compileUnservedPorts(environment));
  want(timeExceededOwner, compileTimeExceeded(environment));
  want(refusalsOwner, compileRefusals(environment));
  want(probesOwner, compileProbes(environment));
  for (const peer of peers) want(ownerOf('peer', peer.name), compilePeer(peer, environment));
  const podInputs = pods.map((intent, at) => ({ owner: ownerOf('pod', 'default', `p${at}`, 'eth0@abc'), intent }));
  for (const { owner, intent } of podInputs) want(owner, compilePod(intent));
  const ofTiers = { ingress: { admin: 3, baseline: 9 }, egress: { baseline: 4 } };
  const subjects = pods.map(({ ofPort, addresses }, at) => ({
    owner: ownerOf('subject', 'default', `p${at}`, 'eth0@abc'),
    intent: { ofPort, addresses, ...(at === 0 ? { ingress: 7, egress: 'closed' as const } : { cluster: ofTiers }) },
  }));
  for (const { owner, intent } of subjects) want(owner, { ...nothing, flows: compileSubject(intent) });
  let lastGroupId = 0;
  const served: ServiceInput[] = [];
  for (const { service, slices } of services)
    for (const intent of serviceIntents(service, slices, proxying)) {
      if (intent.addresses.length === 0) continue;
      const owner = ownerOf('service', `${service.namespace}/${service.name}:${intent.name}`);
      const groups = new Map<string, number>();
      const groupId = (name: string): number => {
        groups.set(name, groups.get(name) ?? ++lastGroupId);
        return groups.get(name) ?? 0;
      };
      for (const each of translatedEndpoints(intent)) want(endpointOwner(intent.transport, each), compileEndpoint(intent.transport, each));
      const ranges = askedRanges(intent);
      if (ranges) want(rangeSetOf(ranges).owner, compileSourceRanges(ranges, proxying.node));
      want(owner, compileService(intent, { owner, groupId }));
      served.push({ owner, intent, groups });
    }
  const { addresses, gateway } = proxying.node;
  const disputes = [...bridge.disputed()].map(([key, owner]) => ({ key, owner: owner as Owner }));
  const inputs: NodeInputs = { environment, proxy: { addresses, gateway }, peers, pods: podInputs, subjects, services: served, disputes };
  return { bridge, inputs };
}

function written(
  { environment, proxy, peers, pods, subjects, services, disputes }: NodeInputs,
  revisions: readonly [number, number] = [7, 7],
): string {
  const lines = [
    ...peers.map((each) => writeInput('peer', each)),
    ...pods.map((each) => writeInput('pod', each)),
    ...subjects.map((each) => writeInput('subject', each)),
    ...writeServices(services),
    ...disputes.map((each) => writeInput('dispute', each)),
  ];
  const start = writeStart({ node: 'n1', revision: revisions[0] }, { environment, proxy });
  return `${[start, ...lines, writeEnd(revisions[1], lines.length)].join('\n')}\n`;
}

const sorted = (entries: Iterable<readonly [string, string]>) => [...entries].toSorted(([a], [b]) => (a < b ? -1 : 1));

function expectTheSame(scene: Scene): void {
  const { bridge, inputs } = agentWith(scene);
  const compiled = compileInputs(readInputs(written(inputs)).inputs);
  expect(compiled.failures).toEqual([]);
  expect(sorted(compiled.entries)).toEqual(sorted([...bridge.keys()].map((key) => [key, bridge.wanted(key) ?? ''])));
}

describe('recorded inputs', () => {
  it('compile to the same flows and groups, byte for byte', () => expectTheSame(exampleScene));

  it('do so for random Services', () => {
    fc.assert(fc.property(clusters, expectTheSame), { numRuns: 40 });
  });

  it('name the owner whose value applies if owners conflict', () => {
    const [first, second] = examplePeers;
    if (!first || !second) throw new Error('two peers are wanted');
    const thief = { ...second, podCidrs: first.podCidrs };
    const { inputs } = agentWith({ ...exampleScene, peers: [first, thief] });
    expect(new Set(inputs.disputes.map(({ owner }) => owner))).toEqual(new Set(['peer/n3']));
    expectTheSame({ ...exampleScene, peers: [first, thief] });
    // In any order of writing.
    const turned = { ...inputs, peers: inputs.peers.toReversed() };
    expect(sorted(compileInputs(readInputs(written(turned)).inputs).entries)).toEqual(sorted(compileInputs(inputs).entries));
  });

  it('name a long list of source ranges once for all ports of a Service', () => {
    const loadBalancerSourceRanges = Array.from({ length: 100 }, (_, at) => `10.20.${at}.0/24`);
    const ports = Array.from({ length: 100 }, (_, at) => ({ name: `p${at}`, protocol: 'TCP' as const, port: at + 1, targetPort: at + 1 }));
    const loadBalancerIngress = [{ ip: '192.0.2.80', ipMode: 'VIP' as const }];
    const large = {
      name: 'large',
      type: 'LoadBalancer',
      clusterIps: ['10.96.9.9'],
      ports,
      loadBalancerIngress,
      loadBalancerSourceRanges,
    } as const;
    const scene = { ...exampleScene, services: [{ service: filledService(large), slices: [] }] };
    const text = written(agentWith(scene).inputs);
    expect(text.split('10.20.99.0/24')).toHaveLength(2);
    expectTheSame(scene);
    expect(readInputs(text).inputs.services.map(({ intent }) => intent.sourceRanges.length)).toEqual(ports.map(() => 100));
    expect(() => readInputs(text.replace('"is":"source-ranges","of":{"name":"', '"is":"source-ranges","of":{"name":"x'))).toThrow(
      'no source ranges',
    );
  });

  it('omit an owner that cannot be compiled, and name it', () => {
    const { inputs } = agentWith(exampleScene);
    const [pod] = examplePods;
    if (!pod) throw new Error('a pod is wanted');
    const services = inputs.services.map((each) => ({ ...each, groups: new Map() }));
    const { failures, entries } = compileInputs({ ...inputs, services });
    expect(failures.length).toBeGreaterThan(0);
    expect(failures[0]?.error.message).toContain('has no number for group');
    expect(entries.size).toBeGreaterThan(50);
  });
});

it('count rows of policy on a bridge separately: inputs lack their sources', () => {
  const lineOf = ([key, value]: readonly [string, string]): string =>
    JSON.stringify({ key: Buffer.from(key, 'latin1').toString('hex'), value: Buffer.from(value, 'latin1').toString('hex') });
  const flows = compileSubject({ ofPort: 7, addresses: [], ingress: 7 });
  const entriesOf = (owner: Owner): string[] => [...encodeBridgeEntries(owner, { ...nothing, flows })].map(lineOf);
  const { learned } = compileInputs(agentWith(exampleScene).inputs);
  const subject = entriesOf(ownerOf('subject', 'default', 'p0', 'eth0@abc'));
  const { held, policyRows } = readHeld([...subject, ...entriesOf(ownerOf('policy', 'ingress', 'class'))].join('\n'), learned);
  expect([held.size, policyRows]).toEqual([subject.length, subject.length]);
});

describe('an invalid text', () => {
  const good = written(agentWith(exampleScene).inputs);
  it.each([
    ['breaks off', good.split('\n').slice(0, -2).join('\n'), 'break off'],
    ['lacks a line', good.split('\n').toSpliced(1, 1).join('\n'), 'break off'],
    ['has no beginning', good.split('\n').slice(1).join('\n'), 'no beginning'],
    ['is of another format', good.replace('"format":1', '"format":2'), 'line 1 of the inputs: format'],
    ['has an address that is none', good.replace('"10.10.0.5"', '"10.10.0.555"'), 'is not an IP address'],
    ['has an unknown field', good.replace('"podCidrs"', '"podcidrs":[],"podCidrs"'), 'line 1'],
    ['is not JSON', `${good}{`, 'is not JSON'],
    ['is empty', '', 'no beginning'],
  ])('that %s is rejected with the reason', (_, text, reason) => {
    expect(() => readInputs(text)).toThrow(reason);
  });

  it('reports that the node changed meanwhile', () => {
    const { inputs } = agentWith(exampleScene);
    expect(readInputs(written(inputs, [7, 9])).steady).toBe(false);
    expect(readInputs(written(inputs)).steady).toBe(true);
  });
});
