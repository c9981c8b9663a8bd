import { expect, it } from 'vitest';
import { byPod } from './pre-plugged.ts';

const rows = (name: string, number: number): readonly string[] => [
  `Port name=${name} interfaces=[${name}] external_ids={}`,
  `Interface name=${name} ofport=${number} ofport_request=${number}`,
];
const bridge = (...ports: readonly string[]): string => `Bridge name=br-int ports=[${ports.join(',')}] controller=[]`;

it('names the port of a pod by the pod, whatever number it has', () => {
  const one = byPod({ numbered: rows('sp-32785', 32_785), plain: ['link sp-32785 mtu=1450'] }, new Map([['sp-32785', 'web']]));
  const other = byPod({ numbered: rows('sp-40000', 40_000), plain: ['link sp-40000 mtu=1450'] }, new Map([['sp-40000', 'web']]));
  expect(one.plain).toEqual(other.plain);
  expect(one.plain).toEqual(['link sp of web mtu=1450']);
  // The number itself is allocated like any port's.
  expect(one.numbered).toEqual([
    'Port name=sp of web interfaces=[sp of web] external_ids={}',
    'Interface name=sp of web ofport=32785 ofport_request=32785',
  ]);
});

it('does not count free ports, and reports one that differs from the others', () => {
  const of = (...numbers: readonly number[]) => ({
    numbered: [
      bridge('antrea-gw0', ...numbers.map((number) => `sp-${number}`)),
      ...numbers.flatMap((number) => rows(`sp-${number}`, number)),
    ],
    plain: numbers.flatMap((number) => [`far link far-${number} mtu=1450`, `sysctl ipv4/conf/sp-${number}/rp_filter:0`]),
  });
  const none = new Map<string, string>();
  expect(byPod(of(1), none)).toEqual(byPod(of(7, 8, 12), none));
  expect(byPod(of(1), none).numbered).toEqual([bridge('antrea-gw0')]);
  const damaged = { ...of(7, 8), plain: of(7, 8).plain.map((line) => line.replace('far-8 mtu=1450', 'far-8 mtu=600')) };
  expect(byPod(damaged, none).plain).toHaveLength(2);
  const halfGone = { ...of(7, 8), plain: of(7, 8).plain.slice(1) };
  expect(byPod(halfGone, none).plain).toHaveLength(2);
});

it('keeps unrelated lines', () => {
  const without = { numbered: ['flow in_port=32785', bridge('antrea-gw0', 'web0-0123456')], plain: ['link web0-0123456 mtu=1450'] };
  expect(byPod(without, new Map())).toEqual(without);
});
