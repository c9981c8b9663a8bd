import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { Flow } from '../../src/dataplane/pipeline/flow.ts';
import { PolicyEngine } from '../../src/policy/engine/policy-engine.ts';
import { PolicyFlows } from '../../src/policy/flows/policy-flows.ts';
import { portPrefixes } from '../../src/policy/flows/port-prefixes.ts';
import { type DirectionMatrix, type PolicyDecision, policyDirections } from '../../src/policy/matrix/matrix.ts';
import { largeNode } from '../support/large-policy-node.ts';
import { provenNode, put } from './policy-proof.ts';
import { policyHistories } from './random-policies.ts';

type Families = readonly ('ipv4' | 'ipv6')[];

function flowsOf(engine: PolicyEngine, families: Families): readonly Flow[] {
  const change = engine.update();
  const { wanted } = new PolicyFlows({ families }).update(engine.matrix, change);
  return [...wanted.values()].flat();
}

/**
 * The published formula: rows of networks and addresses, a row for each part of an identity, relations, and for each decision its ports and
 * the rest.
 */
function expected({ identities, relations }: DirectionMatrix, families: Families): number {
  const own = [...identities].filter(([cidr]) => families.includes(cidr.includes(':') ? 'ipv6' : 'ipv4')).map(([, identity]) => identity);
  const parts = (kind: 'coarse' | 'fine') => new Set(own.map(({ [kind]: { id } }) => id).filter((id) => id !== 0)).size;
  const decisions = new Map<string, PolicyDecision>();
  for (const decision of relations.values()) if (decision.ranges.length > 0) decisions.set(JSON.stringify(decision), decision);
  const rows = [...decisions.values()].map(
    ({ ranges }) => 1 + families.length * ranges.reduce((sum, range) => sum + portPrefixes(range).length, 0),
  );
  return own.length + parts('coarse') + parts('fine') + relations.size + rows.reduce((sum, each) => sum + each, 0);
}

it('equals the formula', () => {
  fc.assert(
    fc.property(policyHistories, ({ objects }) => {
      const engine = new PolicyEngine(provenNode);
      for (const each of objects) put(engine, each);
      const flows = flowsOf(engine, ['ipv4', 'ipv6']);
      expect(flows.length).toBe(policyDirections.reduce((sum, direction) => sum + expected(engine.matrix[direction], ['ipv4', 'ipv6']), 0));
    }),
    { numRuns: 50 },
  );
});

it('is 15,000 at most for one family on a node with 110 pods of 60 namespaces with 6,000 pods', () => {
  const { engine } = largeNode();
  const flows = flowsOf(engine, ['ipv4']);
  expect(engine.matrix.subjects.size).toBe(110);
  process.stdout.write(`${flows.length} flows\n`);
  expect(flows.length).toBeGreaterThan(12_000);
  expect(flows.length).toBeLessThan(15_000);
});
