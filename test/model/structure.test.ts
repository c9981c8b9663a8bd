import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Family, ipFromValue, parseCidr, parseIp } from '../../src/base/net/ip.ts';
import { parseMac } from '../../src/base/net/mac.ts';
import type { Flow, Step } from '../../src/dataplane/pipeline/flow.ts';
import { formatFlow } from '../../src/dataplane/pipeline/format.ts';
import { type PipelineTableName, tableNames, tables } from '../../src/dataplane/pipeline/tables.ts';
import { podOfPorts } from '../../src/dataplane/pipeline/well-known.ts';
import { encodeBridgeEntries } from '../../src/dataplane/targets/bridge/bridge-entry.ts';
import type { Service } from '../../src/kubernetes/resources/service.ts';
import { exampleProxying } from '../support/example-node.ts';
import { sceneService } from '../support/scene-service.ts';
import { compileScene, exampleScene, ofOneFamily, type Scene, wantedByOwner } from './scene.ts';

/** Nodes with any number of pods, peers and Services, of one family or both. */
const scenes: fc.Arbitrary<Scene> = fc
  .record({
    families: fc.constantFrom<Family | 'both'>('ipv4', 'ipv6', 'both'),
    type: fc.constantFrom<'geneve' | 'vxlan' | 'gre'>('geneve', 'vxlan', 'gre'),
    pods: fc.integer({ min: 0, max: 5 }),
    peers: fc.integer({ min: 0, max: 5 }),
    endpoints: fc.array(fc.oneof(fc.integer({ min: 0, max: 4 }), fc.constantFrom(9, 66, 250)), { maxLength: 6 }),
  })
  .map(({ families, type, pods, peers, endpoints }) => {
    const port = { geneve: 6081, vxlan: 4789, gre: 0 }[type];
    const scene: Scene = {
      node: { ...exampleScene.node, tunnel: { ...exampleScene.node.tunnel, type, port } },
      pods: numbers(pods).map((n) => ({
        ofPort: podOfPorts.first + n,
        mac: parseMac(`0e:aa:00:00:00:0${n}`),
        addresses: [parseIp(`10.10.0.${n + 5}`), parseIp(`fd00:10::${n + 5}`)],
      })),
      peers: numbers(peers).map((n) => ({
        name: `n${n}`,
        podCidrs: [parseCidr(`10.10.${4 * (n + 1)}.0/22`), parseCidr(`fd00:10:0:${n + 1}::/64`)],
        transport: [parseIp(`192.168.77.${n + 2}`), parseIp(`fd00:77::${n + 2}`)],
      })),
      services: endpoints.map((count, n) =>
        sceneService({
          name: `s${n}`,
          protocol: n % 2 === 0 ? 'TCP' : 'UDP',
          clusterIp: ipFromValue('ipv4', parseIp('10.96.0.10').value + BigInt(n >> 1)).text,
          port: 80,
          nodePort: 30_000 + n,
          endpoints: numbers(count).map((e) => `10.10.${e % 2}.${e + 5} ${8080 + (n % 3)} n${1 + (e % 2)}`),
          more: {
            externalIps: [`198.51.100.${n + 1}`],
            externalTrafficPolicy: n % 3 === 0 ? 'Local' : 'Cluster',
            ...(n % 4 === 1 ? { affinitySeconds: 60 } : {}),
            ...(n % 5 === 2 ? lessOpen(`198.51.100.${100 + n}`) : {}),
          },
        }),
      ),
      proxying: exampleProxying,
    };
    return families === 'both' ? scene : ofOneFamily(scene, families);
  });

function lessOpen(ip: string): Partial<Service> {
  return {
    type: 'LoadBalancer',
    loadBalancerIngress: [{ ip, ipMode: 'VIP' }],
    loadBalancerSourceRanges: ['0.0.0.0/0', '10.0.0.0/8', '10.1.0.0/8'],
  };
}

function numbers(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index);
}

/** Tables that a packet may visit after these steps. */
function nextTables(steps: readonly Step[]): PipelineTableName[] {
  return steps.flatMap((step) =>
    step.do === 'goto' || step.do === 'resubmit' ? [step.table] : step.do === 'ct' && step.next ? [step.next] : [],
  );
}

describe('any knowledge of a node', () => {
  it('no owner desires two flows of one key, and no two owners disagree', () => {
    fc.assert(
      fc.property(scenes, (scene) => {
        const all = new Map<string, string>();
        for (const [owner, wanted] of wantedByOwner(scene)) {
          const entries = encodeBridgeEntries(owner, wanted);
          expect(entries.size).toBe(wanted.flows.length + wanted.groups.length + wanted.meters.length);
          for (const [key, value] of entries) {
            expect(all.get(key) ?? value).toBe(value);
            all.set(key, value);
          }
        }
      }),
    );
  });

  it('packets only move to later tables', () => {
    fc.assert(
      fc.property(scenes, (scene) => {
        const { flows, groups } = compileScene(scene);
        const backwards = flows.filter(({ table, steps }) => nextTables(steps).some((next) => tables[next].id <= tables[table].id));
        // The record for later fragments of a datagram is written once, then the first passes the table that it is in; and a packet without
        // a free tuple returns, which is counted.
        const once = ({ steps }: Flow): boolean =>
          steps.some((step) => step.do === 'learnFragments' || (step.do === 'load' && step.mark.field === 'tries'));
        // And an answer that is looked up again, which no flow with that mark matches.
        const isMarked = ({ match, steps }: Flow): boolean =>
          steps.some(
            (step) =>
              step.do === 'load' &&
              /^answer/.test(step.mark.field) &&
              match.regs?.some(({ field, value }) => field === step.mark.field && value !== step.mark.value),
          );
        // And a trace probe from the tunnel, without its key.
        const isProbe = ({ steps }: Flow): boolean => steps.some((step) => step.do === 'probeFromTunnel');
        expect(backwards.filter((flow) => !once(flow) && !isMarked(flow) && !isProbe(flow)).map(formatFlow)).toEqual([]);
        const balanced = groups.flatMap(({ buckets }) => buckets.flatMap(({ steps }) => nextTables(steps)));
        // A packet to be remembered returns, in another state.
        expect(balanced.filter((next) => tables[next].id < tables.sourceRanges.id)).toEqual([]);
      }),
    );
  });

  it('a goto is the last step, and nothing follows it', () => {
    fc.assert(
      fc.property(scenes, (scene) => {
        const ends = (step: Step): boolean => step.do === 'goto' || (step.do === 'ct' && step.next !== undefined);
        const wrong = compileScene(scene).flows.filter(({ steps }) => steps.slice(0, -1).some(ends));
        expect(wrong.map(formatFlow)).toEqual([]);
      }),
    );
  });

  it('every meter in use is desired by the same owner, and is applied first in its flow', () => {
    fc.assert(
      fc.property(scenes, (scene) => {
        for (const { flows, meters } of wantedByOwner(scene).values()) {
          const used = flows.flatMap(({ steps }) => steps.flatMap((step, index) => (step.do === 'meter' ? [[step.meter, index]] : [])));
          expect(used.every(([, index]) => index === 0)).toBe(true);
          const ofCopies = flows.flatMap(({ steps }) => steps.flatMap((step) => (step.do === 'toAgent' ? (step.meter ?? []) : [])));
          expect(new Set([...used.map(([id]) => id), ...ofCopies])).toEqual(new Set(meters.map(({ id }) => id)));
        }
      }),
    );
  });

  it('every group in use is desired by the same owner', () => {
    fc.assert(
      fc.property(scenes, (scene) => {
        for (const { flows, groups } of wantedByOwner(scene).values()) {
          const used = flows.flatMap(({ steps }) => steps.flatMap((step) => (step.do === 'group' ? [step.group] : [])));
          expect([...new Set(used)].toSorted()).toEqual(groups.map(({ id }) => id).toSorted());
        }
      }),
    );
  });
});

it("a packet without a matching flow is handled by its table's miss", () => {
  const misses = new Map(compileScene(exampleScene).flows.flatMap((flow) => (flow.priority === 0 ? [[flow.table, flow]] : [])));
  for (const name of tableNames) {
    const { miss } = tables[name];
    if (miss === 'return') expect(misses.get(name)).toBeUndefined();
    else if (miss === 'drop') expect(misses.get(name)).toMatchObject({ match: {}, steps: [] });
    else if (miss in tables) expect(misses.get(name)).toMatchObject({ match: {}, steps: [{ do: 'goto', table: miss }] });
    else expect(misses.get(name)?.steps.length).toBeGreaterThan(0);
  }
});

it('has the same for both families, except ARP, neighbour discovery and the source addresses of ICMPv6 errors', () => {
  const isNeighbour = ({ table, match }: Flow) => table === 'neighbour' || match.payload === 'arp' || match.icmpType !== undefined;
  const isMulticast = ({ match }: Flow) => match.ipDst !== undefined && /^(224|255|ff)/.test(match.ipDst.text);
  const isErrorSource = ({ table, steps }: Flow) =>
    (table === 'snat' || table === 'errorTranslation') && steps.some((step) => step.do === 'setIpSrc' || step.do === 'setIpSrcToOpened');
  const shape = (family: Family) => {
    const { node, pods, peers } = ofOneFamily(exampleScene, family);
    const transport = node.transport.map(({ family: same }) => parseIp({ ipv4: '192.168.77.2', ipv6: 'fd00:77::2' }[same]));
    const scene = { node, pods, services: [], proxying: exampleProxying, peers: peers.map((peer) => ({ ...peer, transport })) };
    const flows = compileScene(scene).flows.filter((flow) => !isNeighbour(flow) && !isMulticast(flow) && !isErrorSource(flow));
    return flows
      .map(({ table, priority, match, steps }) => `${table} ${priority} ${Object.keys(match)} ${steps.map((step) => step.do)}`)
      .toSorted();
  };
  expect(shape('ipv6')).toEqual(shape('ipv4'));
});
