import { afterAll, beforeAll, expect, it } from 'vitest';
import { nodePaths } from '../../lab/plan/names.ts';
import type { CheckEvent, Finding } from '../../src/api/check.ts';
import { ConvergeLab } from '../support/converge-lab.ts';

/** `seinectl check` if the node's other firewall rules see tunnel packets. */
let lab: ConvergeLab;

beforeAll(async () => {
  lab = await ConvergeLab.start(2);
});
afterAll(async () => {
  await lab?.remove();
});

/** Findings of node 1, by check. */
async function findings(): Promise<ReadonlyMap<string, readonly Finding[]>> {
  const { apiSocket } = nodePaths(lab.plan.dir, lab.node(1).name);
  const lines = await lab.exec(1, 'curl', '-s', '--unix-socket', apiSocket, '-X', 'POST', 'http://agent/v1/check?seconds=120');
  const events = lines
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as CheckEvent);
  return Map.groupBy(
    events.flatMap((event) => (event.kind === 'finding' ? event.finding : [])),
    ({ check }) => check,
  );
}

function bad(found: ReadonlyMap<string, readonly Finding[]>): readonly string[] {
  return [...found.values()].flat().flatMap(({ check, state, what }) => (state === 'ok' ? [] : `${check} ${state}: ${what}`));
}

it('finds no problem, with the kernel’s modules loaded', async () => {
  const found = await findings();
  expect(bad(found)).toEqual([]);
  expect(found.get('kernel.modules')?.[0]?.what).toBe('openvswitch, geneve, nf_conntrack, nf_tables: there');
  expect(found.get('ovs.features')?.[0]?.what).toBe('has the data path system and geneve tunnels');
});

it('finds a filter that drops tunnel packets on the other node, and on this one', async () => {
  const rules =
    'add table inet hard; add chain inet hard in { type filter hook input priority 0; }; add rule inet hard in udp dport 6081 drop';
  for (const node of [2, 1]) {
    await lab.exec(node, 'nft', rules);
    const [finding, ...others] = (await findings()).get('tunnel.reach') ?? [];
    expect([node, finding, others]).toEqual([
      node,
      expect.objectContaining({
        state: 'problem',
        what: expect.stringContaining(`${lab.node(2).ips[0]} answers outside of the tunnel`),
        remedy: expect.stringContaining('iptables -I INPUT -p udp --dport 6081 -s'),
      }),
      [],
    ]);
    await lab.exec(node, 'nft', 'delete table inet hard');
  }
  expect(bad(await findings())).toEqual([]);
});
