import { expect, it } from 'vitest';
import { capabilitiesOf, type DatapathFacts, datapathFeatures, missingIn } from './datapath-features.ts';

const facts: DatapathFacts = {
  type: 'system',
  capabilities: new Map([
    ['ct_zone', 'true'],
    ['ct_state_nat', 'false'],
    ['max_hash_alg', '1'],
    ['max_mpls_depth', 'many'],
  ]),
  interfaceTypes: new Set(['geneve']),
  meters: { maxMeters: 7, maxBands: 1, bands: 0b10, capabilities: 0b0001 },
  groups: { types: 0b10, maxSelectGroups: 9 },
  tracksSctp: true,
  fillsChecksums: true,
};

it('is yes, no, a number, or unknown', () => {
  expect(capabilitiesOf(facts)).toMatchObject({
    ...{ ct_zone: true, ct_state_nat: false, ct_mark: null, max_hash_alg: 1, max_mpls_depth: null },
    ...{
      geneve: true,
      gre: false,
      meters_max: 7,
      meters_kbps: true,
      meters_pktps: false,
      meters_burst: false,
      groups_select: true,
      groups_max: 9,
      sctp: true,
    },
  });
});

it('reports neither features nor missing ones of a switch without data', () => {
  const silent: DatapathFacts = { ...facts, capabilities: undefined, interfaceTypes: undefined, meters: undefined, groups: undefined };
  const abilities = capabilitiesOf({ ...silent, tracksSctp: undefined });
  expect(new Set(Object.entries(abilities).map(([name, value]) => (name === 'checksums' ? null : value)))).toEqual(new Set([null]));
  expect(missingIn(abilities)).toEqual([]);
});

it('names missing features and their effect on traffic', () => {
  expect(missingIn(capabilitiesOf(facts))).toEqual([
    { feature: 'ct_state_nat', consequence: datapathFeatures.ct_state_nat.without },
    { feature: 'meters_pktps', consequence: datapathFeatures.meters_pktps.without },
  ]);
});
