import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { encodeBridgeEntries } from '../../src/datapath/bridge-entry.ts';
import { type Family, ipFromValue, parseCidr, parseIp } from '../../src/net/ip.ts';
import { parseMac } from '../../src/net/mac.ts';
import type { Flow, Step } from '../../src/pipeline/flow.ts';
import { formatFlow } from '../../src/pipeline/format.ts';
import { type TableName, tableNames, tables } from '../../src/pipeline/tables.ts';
import { podOfPorts } from '../../src/pipeline/well-known.ts';
import { compileScene, exampleScene, ofOneFamily, type Scene, wantedByOwner } from './scene.ts';

/** Nodes with any number of pods, peers and Services, of one family or both. */
const scenes: fc.Arbitrary<Scene> = fc
  .record({
    families: fc.constantFrom<Family | 'both'>('ipv4', 'ipv6', 'both'),
    type: fc.constantFrom<'geneve' | 'vxlan' | 'gre'>('geneve', 'vxlan', 'gre'),
    pods: fc.integer({ min: 0, max: 5 }),
    peers: fc.integer({ min: 0, max: 5 }),
    endpoints: fc.array(fc.integer({ min: 0, max: 4 }), { maxLength: 6 }),
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
      services: endpoints.map((count, n) => ({
        transport: n % 2 === 0 ? 'tcp' : 'udp',
        clusterIp: ipFromValue('ipv4', parseIp('10.96.0.10').value + BigInt(n >> 1)),
        port: 80,
        groupId: n + 1,
        endpoints: numbers(count).map((e) => ({ ip: parseIp(`10.10.0.${e + 5}`), port: 8080 + (n % 3) })),
      })),
    };
    return families === 'both' ? scene : ofOneFamily(scene, families);
  });

function numbers(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index);
}

/** Tables that a packet may see after these steps. */
function nextTables(steps: readonly Step[]): TableName[] {
  return steps.flatMap((step) => (step.do === 'goto' || step.do === 'resubmit' ? [step.table] : step.do === 'ct' ? [step.next] : []));
}

describe('whatever a node knows', () => {
  it('no owner wants two flows of one key, and no two owners disagree', () => {
    fc.assert(
      fc.property(scenes, (scene) => {
        const all = new Map<string, string>();
        for (const [owner, wanted] of wantedByOwner(scene)) {
          const entries = encodeBridgeEntries(owner, wanted);
          expect(entries.size).toBe(wanted.flows.length + wanted.groups.length);
          for (const [key, value] of entries) {
            expect(all.get(key) ?? value).toBe(value);
            all.set(key, value);
          }
        }
      }),
    );
  });

  it('packets only move on', () => {
    fc.assert(
      fc.property(scenes, (scene) => {
        const { flows, groups } = compileScene(scene);
        const backwards = flows.filter(({ table, steps }) => nextTables(steps).some((next) => tables[next].id <= tables[table].id));
        expect(backwards.map(formatFlow)).toEqual([]);
        const balanced = groups.flatMap(({ buckets }) => buckets.flatMap(({ steps }) => nextTables(steps)));
        expect(balanced.filter((next) => tables[next].id <= tables.balance.id)).toEqual([]);
      }),
    );
  });

  it('whoever goes on does so last, and nothing else follows', () => {
    fc.assert(
      fc.property(scenes, (scene) => {
        const ends = (step: Step): boolean => step.do === 'goto' || step.do === 'ct';
        const wrong = compileScene(scene).flows.filter(({ steps }) => steps.slice(0, -1).some(ends));
        expect(wrong.map(formatFlow)).toEqual([]);
      }),
    );
  });

  it('every group that is used is wanted by the same owner', () => {
    fc.assert(
      fc.property(scenes, (scene) => {
        for (const { flows, groups } of wantedByOwner(scene).values()) {
          const used = flows.flatMap(({ steps }) => steps.flatMap((step) => (step.do === 'group' ? [step.group] : [])));
          expect(used).toEqual(groups.map(({ id }) => id));
        }
      }),
    );
  });
});

it('decides about a packet that nobody wants as its table says', () => {
  const misses = new Map(compileScene(exampleScene).flows.flatMap((flow) => (flow.priority === 0 ? [[flow.table, flow]] : [])));
  for (const name of tableNames) {
    const { miss } = tables[name];
    if (miss === 'return') expect(misses.get(name)).toBeUndefined();
    else if (miss === 'drop') expect(misses.get(name)).toMatchObject({ match: {}, steps: [] });
    else if (miss in tables) expect(misses.get(name)).toMatchObject({ match: {}, steps: [{ do: 'goto', table: miss }] });
    else expect(misses.get(name)?.steps.length).toBeGreaterThan(0);
  }
});

it('holds the same for both families, but for ARP and neighbour discovery', () => {
  const isNeighbour = ({ table, match }: Flow) => table === 'neighbour' || match.payload === 'arp' || match.icmpType !== undefined;
  const isMulticast = ({ match }: Flow) => match.ipDst !== undefined && /^(224|255|ff)/.test(match.ipDst.text);
  const shape = (family: Family) => {
    const { node, pods, peers } = ofOneFamily(exampleScene, family);
    const transport = node.transport.map(({ family: same }) => parseIp({ ipv4: '192.168.77.2', ipv6: 'fd00:77::2' }[same]));
    const scene = { node, pods, services: [], peers: peers.map((peer) => ({ ...peer, transport })) };
    const flows = compileScene(scene).flows.filter((flow) => !isNeighbour(flow) && !isMulticast(flow));
    return flows
      .map(({ table, priority, match, steps }) => `${table} ${priority} ${Object.keys(match)} ${steps.map((step) => step.do)}`)
      .toSorted();
  };
  expect(shape('ipv6')).toEqual(shape('ipv4'));
});
