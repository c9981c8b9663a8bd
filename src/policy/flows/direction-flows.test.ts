import { expect, it } from 'vitest';
import { finish } from '../../base/async/steps.ts';
import type { PolicyDecision, SubjectClass } from '../matrix/matrix.ts';
import { DirectionFlows } from './direction-flows.ts';

it('desires a row as long as one of two classes with the same content has it', () => {
  const flows = new DirectionFlows('ingress', ['ipv4'], []);
  const denied: PolicyDecision = { ranges: [], otherwise: { verdict: 'deny', by: ['shop/all'] } };
  const [one, other]: readonly [SubjectClass, SubjectClass] = [
    { id: 1, text: 'unused', isolatedBy: [] },
    { id: 2, text: 'unused', isolatedBy: [] },
  ];
  const owner = flows.names.class(one);
  const round = (pods: Readonly<Record<string, SubjectClass | undefined>>, relations: readonly string[], changed: readonly string[]) => {
    const subjects = new Map(Object.entries(pods).map(([pod, ingress]) => [pod, { addresses: [], ...(ingress ? { ingress } : {}) }]));
    const ingress = { identities: new Map(), relations: new Map(relations.map((key) => [key, denied])) };
    const matrix = { subjects, ownNode: new Set<string>(), ingress, egress: ingress };
    const keys = { identities: new Set<string>(), relations: new Set(changed) };
    return finish(flows.round(matrix, new Set(subjects.keys()), keys)).rows.get(owner)?.length;
  };
  expect(round({ a: one, b: other }, ['1', '2'], ['1', '2'])).toBe(1);
  // The owner is not in the result: its desired rows are unchanged.
  expect(round({ a: undefined }, ['2'], ['1'])).toBeUndefined();
  expect(round({ b: undefined }, [], ['2'])).toBe(0);
});
