import { expect, it } from 'vitest';
import { exampleNode } from '../../../../../test/support/example-node.ts';
import type { Family } from '../../../../base/net/ip.ts';
import { associations } from '../../../compile/compile-associations.ts';
import { compileRefusals } from '../../../compile/compile-denied-packets.ts';
import { compileTimeExceeded } from '../../../compile/compile-time-exceeded.ts';
import type { NodeEnvironment } from '../../../compile/environment.ts';
import { nothing } from '../../../desired/host-entries.ts';
import { ownerOf } from '../../../pipeline/cookie.ts';
import type { Flow } from '../../../pipeline/flow.ts';
import { PatternFlow } from '../../../pipeline/flow-pattern.ts';
import { encodeBridgeEntries } from '../bridge-entry.ts';
import { learnStepsOf } from '../learned-flows.ts';

const environment: NodeEnvironment = { ...exampleNode, blindToSctp: true };
const shareFlows: readonly Flow[] = [
  ...associations(environment),
  ...associations({ ...environment, liveConnections: 'keep' }),
  ...compileRefusals(environment).flows,
  ...compileTimeExceeded(environment).flows,
].filter((flow) => flow instanceof PatternFlow);

function entryOf(flow: Flow): readonly (readonly [string, string])[] {
  return [...encodeBridgeEntries(ownerOf('node'), { ...nothing, flows: [flow] })];
}

const families: readonly Family[] = ['ipv4', 'ipv6'];

it('encodes each flow of a share like the flow without its pattern', () => {
  expect(shareFlows).toHaveLength(families.length * (2 * (256 + 64) + 64 + 64));
  for (const flow of shareFlows) {
    const { table, priority, match, steps } = flow;
    expect(entryOf(flow)).toEqual(entryOf({ table, priority, match, steps }));
  }
});

it('declares the learn steps of all shares', () => {
  const flows = associations(environment);
  const plain = flows.map(({ table, priority, match, steps }): Flow => ({ table, priority, match, steps }));
  const shapesOf = (steps: ReturnType<typeof learnStepsOf>): readonly string[] =>
    steps.map((step) => [step.do, step.family, 'side' in step ? `${step.side} ${step.as}` : ''].join(' ')).toSorted();
  expect(shapesOf(learnStepsOf(flows))).toEqual(shapesOf(learnStepsOf(plain)));
  expect(shapesOf(learnStepsOf(flows))).toEqual(
    families.flatMap((family) => ['answer', 'opener'].map((side) => `learnAssociation ${family} ${side} letIn`)),
  );
});
