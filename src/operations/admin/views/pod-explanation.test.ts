import { describe, expect, it } from 'vitest';
import type { PodView } from '../../../api/object.ts';
import { type ExplainedAttachment, explainPod, type PodFacts } from './pod-explanation.ts';

const view: PodView = {
  name: 'shop/web-0',
  state: 'ok',
  owners: ['pod/shop/web-0/eth0@abc'],
  flows: { wanted: 4, held: 4, changed: 0 },
  host: { wanted: 0, held: 0, changed: 0 },
  differences: [],
  containerId: 'abc',
  interface: 'eth0',
  hostInterface: 'web0-1234567',
  addresses: ['10.10.0.5', 'fd00:10::5'],
  mac: '0e:00:00:00:00:05',
  netns: '/run/netns/x',
  wantedOfPort: 32_784,
  ofPort: 32_784,
  link: 'up',
  mtu: 1_450,
  egress: null,
  ingress: null,
  hostPorts: [],
};
const attachment: ExplainedAttachment = {
  view,
  gateways: ['10.10.0.1', 'fd00:10::1'],
  flows: [
    { table: 'classify', wanted: 1, held: 1 },
    { table: 'spoofGuard', wanted: 3, held: 3 },
  ],
  ageSeconds: 10_900,
  rivals: [],
};
const facts: PodFacts = {
  name: 'shop/web-0',
  node: 'n1',
  bridge: 'br-int',
  attachments: [attachment],
  known: { podIps: ['10.10.0.5'], hostNetwork: false, phase: 'Running' },
  services: [
    { service: 'shop/web', port: '80/TCP', addresses: ['10.96.0.10:80', 'node port 30080'] },
    { service: 'shop/api', port: '81/TCP', addresses: ['10.96.0.11:81'], why: 'not ready' },
  ],
  repairs: [],
  policies: 0,
  standing: { is: 'free', ingress: [], egress: [] },
  peers: [],
  pausedForSeconds: 0,
  notReady: undefined,
  warnings: [],
};
const linesOf = (more: Partial<PodFacts> = {}) => explainPod({ ...facts, ...more }).lines;

describe('a pod, explained', () => {
  it('has sentences', () => {
    expect(linesOf()).toEqual([
      'Pod shop/web-0 on node n1 is ok.',
      'It has 10.10.0.5 and fd00:10::5 on eth0 (0e:00:00:00:00:05, MTU 1450); it reaches everything else by 10.10.0.1 and fd00:10::1.',
      'On the node that is web0-1234567, port 32784 of br-int.',
      'It has been on the bridge for 3 h, according to its oldest flow.',
      'All 4 flows that it needs are there: 1 in classify, 3 in spoofGuard.',
      'Services of this node have it as an endpoint: shop/web port 80/TCP (10.96.0.10:80, node port 30080).',
      'It is named by, and not used for: shop/api port 81/TCP (10.96.0.11:81), because it is not ready.',
      'No NetworkPolicy is in its namespace: it is free.',
      'No foreign change since the agent started.',
    ]);
    expect(explainPod(facts)).toMatchObject({ state: 'ok', problems: [], attachments: [{ ofPort: 32_784, ageSeconds: 10_900 }] });
  });

  it('reports the ways to other nodes if some are not in the tunnel', () => {
    const [tunnel, direct] = [
      { mode: 'tunnel', family: 'ipv4', peers: 2 },
      { mode: 'direct', family: 'ipv4', peers: 1 },
    ] as const;
    const waysOf = (...peers: PodFacts['peers']) => linesOf({ peers }).filter((line) => line.startsWith('Its packets reach'));
    expect(waysOf(tunnel)).toEqual([]);
    expect(waysOf(tunnel, direct)).toEqual([
      'Its packets reach pods of other nodes: IPv4: 2 through the tunnel, 1 without a tunnel; seinectl get nodes -o wide lists these nodes.',
    ]);
  });

  it('lists problems first, each with a mark', () => {
    const broken = {
      ...attachment,
      view: { ...view, ofPort: null, differences: ['port web0-1234567 is missing on the bridge'] },
      rivals: ['pod/x/y/eth0@f'],
    };
    const explained = explainPod({
      ...facts,
      attachments: [broken],
      notReady: 'ovs-vswitchd is not connected',
      warnings: ['a firewall drops'],
    });
    expect(explained.state).toBe('wrong');
    expect(explained.lines.slice(0, 5)).toEqual([
      'Pod shop/web-0 on node n1 is not ok: 4 problems.',
      '! port web0-1234567 is missing on the bridge.',
      '! pod/x/y/eth0@f also claims one of its addresses.',
      '! the agent is not ready: ovs-vswitchd is not connected.',
      '! a firewall drops.',
    ]);
    expect(explained.lines).toContain('On the node that is web0-1234567, port none of br-int instead of 32784.');
  });

  it('counts missing flows by table, and reports if all are missing', () => {
    const half = { ...attachment, flows: [{ table: 'classify', wanted: 2, held: 1 }], ageSeconds: null };
    expect(linesOf({ attachments: [half] })).toEqual(
      expect.arrayContaining(['1 of 2 flows that it needs are there: 1 in classify.', 'None of its flows is on the bridge.']),
    );
  });

  it.each([
    ['nothing has asked for its network', { attachments: [] }, 'the runtime has not requested its network yet'],
    [
      'the API server says other addresses',
      { known: { podIps: ['10.9.9.9'], hostNetwork: false, phase: 'Running' } },
      'in the API server it has 10.9.9.9',
    ],
    [
      'it is refused',
      { attachments: [{ ...attachment, view: { ...view, error: { message: '[REFUSED] OFPFMFC_TABLE_FULL' } } }] },
      'the node refuses its entries: OFPFMFC',
    ],
  ] as const)('reports that %s', (_, more, words) => {
    expect(explainPod({ ...facts, ...more }).problems.join()).toContain(words);
  });

  it('refers to the node for a pod in the node’s own network', () => {
    const explained = explainPod({ ...facts, attachments: [], known: { podIps: ['192.0.2.1'], hostNetwork: true, phase: 'Running' } });
    expect([explained.state, explained.lines]).toEqual([
      'ok',
      ["Pod shop/web-0 uses the own network of node n1: there is nothing of Seine's to explain."],
    ]);
  });

  it('reports repairs, their times, and a pause of repair', () => {
    const repairs = [
      { at: '2026-11-21T01:02:03.000Z', what: 'bridge', entries: 3 },
      { at: '2026-11-21T02:02:03.000Z', what: 'bridge', entries: null },
    ];
    const lines = linesOf({ repairs, pausedForSeconds: 60 });
    expect(lines).toContain(
      'Repaired 2 times, after foreign changes or a restart of Open vSwitch: 2026-11-21T01:02:03.000Z bridge, 3 of its entries; 2026-11-21T02:02:03.000Z bridge.',
    );
    expect(lines.at(-1)).toBe('Repair is paused: foreign changes to it stay for another 60 s.');
  });

  it.each<[string, Partial<PodFacts>, string]>([
    ['no policy selects', { policies: 2 }, 'It is free: none of the 2 NetworkPolicies of its namespace isolates it.'],
    ['the one policy does not select', { policies: 1 }, 'It is free: the NetworkPolicy of its namespace does not isolate it.'],
    [
      'policies isolate in ingress',
      { policies: 2, standing: { is: 'policed', ingress: ['shop/a', 'shop/b'], egress: [] } },
      'In ingress it is isolated by shop/a, shop/b: only what they allow passes.',
    ],
    [
      'a policy isolates in egress',
      { policies: 2, standing: { is: 'policed', ingress: [], egress: ['shop/c'] } },
      'In egress it is isolated by shop/c: only what they allow passes.',
    ],
    [
      'was adopted, with policies not known',
      { standing: { is: 'undecided', ingress: [], egress: [] } },
      'Its policies are not known yet: until then the flows of the bridge stay in force.',
    ],
    [
      'is closed',
      { standing: { is: 'closed', why: 'policies are not known yet', ingress: [], egress: [] } },
      '! it is blocked; only its node can reach it: policies are not known yet.',
    ],
  ])('reports the effect of policies on one that %s', (_, more, line) => {
    const lines = linesOf(more);
    expect(lines.filter((each) => /isolate|closed|not known yet|free/.test(each))).toEqual([line]);
  });

  it('limits the list of Services', () => {
    const services = Array.from({ length: 500 }, (_, at) => ({ service: `a/${at}`, port: '80/TCP', addresses: ['10.96.0.1:80'] }));
    expect(linesOf({ services }).join()).toContain(' and 480 more');
  });
});
