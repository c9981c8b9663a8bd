import { describe, expect, it } from 'vitest';
import { parseIp } from '../../src/base/net/ip.ts';
import { ScriptedStates, stateBits } from '../../src/dataplane/flow-walk/assumed-tracking.ts';
import { walkPacket } from '../../src/dataplane/flow-walk/flow-walk.ts';
import { tableName } from '../../src/dataplane/pipeline/tables.ts';
import { hopTexts } from '../../src/operations/trace/hop-text.ts';
import { serviceIntents } from '../../src/services/compile/intent.ts';
import { answerFor } from '../../src/services/compile/service-intent.ts';
import { installedFlows, walkFieldsOf } from '../support/walk-fields.ts';
import { compileScene, exampleScene } from './scene.ts';

const { node, pods, services, proxying } = exampleScene;
const [pod] = pods;
const installed = installedFlows(compileScene(exampleScene));
const names = { port: String, peerAt: () => undefined, podAt: () => undefined, owner: () => undefined, tunnelType: 'Geneve' };

/** Addresses of Services for pods, with the endpoints that a pod may get; none where it is refused. */
const addresses = services
  .filter(({ service }) => service.affinitySeconds === undefined)
  .flatMap(({ service, slices }) => serviceIntents(service, slices, proxying).map((intent) => ({ service, intent })))
  .flatMap(({ service: { name }, intent }) => {
    const [address] = intent.addresses;
    const answer = answerFor(intent, 'cluster', 'pod');
    if (!address || (answer.do !== 'balance' && answer.do !== 'refuse')) return [];
    const endpoints = answer.do === 'balance' ? answer.endpoints.map(({ ip, port }) => `${ip.text} port ${port}`) : [];
    return [{ name: `${name} ${intent.family}`, ...address, transport: intent.transport, endpoints }];
  });

describe('the sentence of a trace about a Service', () => {
  it('is tested with no endpoint, one and several', () => {
    const counts = new Set(addresses.map(({ endpoints }) => Math.min(endpoints.length, 2)));
    expect([...counts].toSorted()).toEqual([0, 1, 2]);
  });

  it.each(addresses)('names an endpoint of $name, or that there is none', async ({ ip, port, transport, endpoints }) => {
    const ipSrc = pod?.addresses.find(({ family }) => family === ip.family) ?? parseIp('::');
    const ends = { ethSrc: pod?.mac ?? node.gateway.mac, ethDst: node.gateway.mac, ipSrc, ipDst: ip, ttl: 64 };
    const ports = { protocol: transport, portSrc: 5000, portDst: port, ...(transport === 'tcp' && { tcpFlags: 'syn' as const }) };
    const fields = walkFieldsOf(pod?.ofPort ?? 0, { ...ends, ...ports, payload: ip.family });
    const tracking = new ScriptedStates([stateBits.trk | stateBits.new]);
    const walked = await walkPacket(installed, fields, { tracking, choose: () => 0 });
    const sentence = hopTexts(walked, names)[walked.hops.findLastIndex(({ table }) => tableName(table) === 'balance')];
    const expected =
      endpoints.length === 0
        ? ['is for a Service, which has no endpoint for this client']
        : endpoints.map((endpoint) => `is for a Service; of its endpoints this path has ${endpoint}`);
    expect(expected).toContain(sentence);
  });
});
