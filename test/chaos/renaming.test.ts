import { expect, it } from 'vitest';
import { compareRenamed } from './renaming.ts';

const pod = (port: number, mac: string): string[] => [
  `flow cookie=0x1, table=0, priority=200,in_port=${port} actions=set_field:0x3/0xf->reg0,goto_table:4`,
  `flow cookie=0x1, table=4, priority=200,ip,in_port=${port},dl_src=${mac} actions=goto_table:12`,
  `flow cookie=0x1, table=72, priority=200,dl_dst=${mac} actions=set_field:0x${port.toString(16)}->reg1`,
];
const peers = (fine: number, coarse: number, ip: string): string =>
  `flow cookie=0x2, table=38, priority=200,ip,nw_dst=${ip} actions=set_field:0x${(fine + coarse * 2 ** 20).toString(16)}->reg9`;
const decided = (fine: number, group: number): string =>
  `flow cookie=0x2, table=42, priority=200,reg9=0x${fine.toString(16)}/0xfffff,reg13=0x1000/0x3ff800 actions=group:${group}`;
const same = { more: [], missing: [] };

it('treats numbers as equal if one renaming makes all lines equal', () => {
  expect(compareRenamed([...pod(32_784, 'a'), ...pod(32_785, 'b')], [...pod(32_790, 'b'), ...pod(32_784, 'a')])).toEqual(same);
  expect(compareRenamed([peers(1, 2, 'x'), peers(2, 0, 'y'), decided(1, 7)], [peers(5, 1, 'x'), peers(6, 0, 'y'), decided(5, 8)])).toEqual(
    same,
  );
});

it('tries numbers with equal colours', () => {
  const ring = (...ports: readonly number[]): string[] =>
    ports.map((port, index) => `flow table=8, in_port=${port} actions=output:${ports[(index + 1) % ports.length]}`);
  const six = ring(40_000, 40_001, 40_002, 40_003, 40_004, 40_005);
  expect(compareRenamed(six, ring(40_005, 40_001, 40_003, 40_000, 40_002, 40_004))).toEqual(same);
  const twoOfThree = [...ring(40_000, 40_001, 40_002), ...ring(40_003, 40_004, 40_005)];
  expect(compareRenamed(six, twoOfThree).more).not.toEqual([]);
});

it('detects an additional line, a missing line, and a replaced number', () => {
  const wanted = [...pod(32_784, 'a'), ...pod(32_785, 'b')];
  expect(compareRenamed([...wanted, decided(1, 2)], wanted)).toEqual({ more: [decided(1, 2)], missing: [] });
  expect(compareRenamed(wanted.slice(1), wanted)).toEqual({ more: [], missing: [expect.stringContaining('table=0')] });
  const crossed = [
    ...pod(32_784, 'a').slice(0, 2),
    ...pod(32_785, 'a').slice(2),
    ...pod(32_785, 'b').slice(0, 2),
    ...pod(32_784, 'b').slice(2),
  ];
  expect(compareRenamed(crossed, wanted).more).not.toEqual([]);
  expect(
    compareRenamed([peers(1, 0, 'x'), decided(1, 7), decided(2, 8)], [peers(1, 0, 'x'), decided(2, 7), decided(3, 8)]).more,
  ).not.toEqual([]);
});

it('does not rename a fixed number', () => {
  const gateway = (port: number): string[] => [`flow table=0, in_port=${port} actions=drop`];
  expect(compareRenamed(gateway(32_768), gateway(32_769)).more).toEqual(gateway(32_768));
});

it('distinguishes classes of the two directions, also if one direction uses the tables of the other', () => {
  const subject = (egress: number, ingress: number): string[] => {
    const load = (number: number) => `set_field:0x${(number * 2 ** 11).toString(16)}/0x3ff800->reg13`;
    return [
      `flow table=36, priority=200,in_port=40000 actions=${load(egress)},goto_table:37`,
      `flow table=36, priority=220,ct_state=+rpl+trk,in_port=40000 actions=${load(ingress)},resubmit(,82,ct),goto_table:81`,
      `flow table=80, priority=200,reg1=0x9c40 actions=${load(ingress)},goto_table:81`,
      `flow table=80, priority=230,ct_state=+rpl+trk,reg1=0x9c40 actions=${load(egress)},resubmit(,38,ct),resubmit(,42)`,
    ];
  };
  expect(compareRenamed(subject(2, 3), subject(2, 2))).toEqual(same);
  const crossed = [...subject(2, 3).slice(0, 3), ...subject(3, 3).slice(3)];
  expect(compareRenamed([...crossed, ...subject(2, 3)], [...subject(2, 3), ...subject(2, 3)]).more).not.toEqual([]);
});

it('renames the cookie of a row whose owner has allocated numbers', () => {
  const row = (cookie: string, decision: number, port: number): string =>
    `flow cookie=${cookie}, table=43, priority=220,tcp,reg12=0x${decision.toString(16)},tp_dst=${port} actions=goto_table:46`;
  expect(compareRenamed([row('0xa', 1, 80), row('0xa', 1, 81)], [row('0xb', 2, 80), row('0xb', 2, 81)])).toEqual(same);
  expect(compareRenamed([row('0xa', 1, 80), row('0xa', 1, 81)], [row('0xb', 2, 80), row('0xc', 2, 81)]).more).not.toEqual([]);
  const class2 = 'flow cookie=0xa, table=36, priority=200,in_port=40000 actions=set_field:0x1000/0x3ff800->reg13,goto_table:37';
  expect(compareRenamed([class2], [class2.replace('0xa', '0xb')]).more).not.toEqual([]);
});
