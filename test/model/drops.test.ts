import { expect, it } from 'vitest';
import { compileVerdicts } from '../../src/dataplane/compile/compile-verdict.ts';
import { nothing } from '../../src/dataplane/desired/host-entries.ts';
import { ownerOf } from '../../src/dataplane/pipeline/cookie.ts';
import { type DropName, dropNames, dropOf } from '../../src/dataplane/pipeline/drops.ts';
import type { Flow, Step } from '../../src/dataplane/pipeline/flow.ts';
import { formatFlow } from '../../src/dataplane/pipeline/format.ts';
import { tables } from '../../src/dataplane/pipeline/tables.ts';
import { decodeFlowEntry, encodeBridgeEntries } from '../../src/dataplane/targets/bridge/bridge-entry.ts';
import { toOpenFlowMatch } from '../../src/dataplane/targets/bridge/encoding/to-openflow.ts';
import { decodeMatch, encodeMatch } from '../../src/openflow/match/match.ts';
import { dropOfFlow } from '../../src/operations/trace/drop-counters.ts';
import { compileScene, exampleScene, type Scene, withDirectPeers } from './scene.ts';

const gre: Scene = { ...exampleScene, node: { ...exampleScene.node, tunnel: { ...exampleScene.node.tunnel, type: 'gre', port: 0 } } };
const refusing: Scene = { ...exampleScene, node: { ...exampleScene.node, denied: 'reject' } };
const all: readonly Flow[] = [exampleScene, gre, refusing, withDirectPeers(exampleScene, 'all')].flatMap((scene) => [
  ...compileScene(scene).flows,
  ...compileVerdicts(scene.node),
]);

/** Reports whether a packet may go on after this step, to another table or out of the bridge. */
function goesOn(step: Step): boolean {
  if (step.do === 'resubmit') return tables[step.table].miss !== 'return' && step.table !== 'affinity';
  if (step.do === 'ct') return step.next !== undefined;
  return ['goto', 'group', 'output', 'outputToRegister', 'outputInPort', 'normal', 'answerArp'].includes(step.do);
}

/** Tables that return to the one that visited them: there the end of the actions is not the end of the packet. */
function returns({ table }: Flow): boolean {
  return tables[table].miss === 'return' || table === 'affinity';
}

const ends = all.filter((flow) => !returns(flow) && !flow.steps.some(goesOn));
const nameOf = ({ table, priority, match }: Flow): DropName | undefined =>
  dropOf({ table, priority, fields: Object.keys(decodeMatch(encodeMatch(toOpenFlowMatch(match)))) });

/** Flows as they are in OVS, each once. */
function encodedFlows(flows: readonly Flow[]) {
  return [...encodeBridgeEntries(ownerOf('node'), { ...nothing, flows })].map(([key, value]) => decodeFlowEntry(key, value));
}

it('every flow that ends a packet has a name for the drop', () => {
  expect(ends.length).toBeGreaterThan(60);
  expect(ends.filter((flow) => nameOf(flow) === undefined).map(formatFlow)).toEqual([]);
});

it('every table without a matching flow has a name for the drop, if that drops the packet', () => {
  const dropping = Object.entries(tables).filter(([, { miss }]) => miss === 'drop');
  const unnamed = dropping.filter(([table]) => dropOf({ table: table as Flow['table'], fields: [] }) === undefined);
  expect(unnamed.map(([table]) => table)).toEqual([]);
});

it('the counters name the drops of the flows as installed, and of no other flow', () => {
  const counted = new Map(
    encodedFlows(all).map((flow) => [`${flow.table} ${flow.priority} ${Buffer.from(flow.match).toString('hex')}`, dropOfFlow(flow)]),
  );
  const named = encodedFlows(ends).map((flow) => counted.get(`${flow.table} ${flow.priority} ${Buffer.from(flow.match).toString('hex')}`));
  expect(named.every((name) => name !== undefined)).toBe(true);
  expect([...counted.values()].filter((name) => name !== undefined)).toHaveLength(encodedFlows(ends).length);
});

it('every name belongs to a flow, or to a table without one', () => {
  const used = new Set([...ends.map(nameOf), ...Object.keys(tables).map((table) => dropOf({ table: table as Flow['table'], fields: [] }))]);
  expect(dropNames.filter((name) => !used.has(name))).toEqual([]);
});

it('a name means one kind of flow: invalid packets, replies that are not admitted and half-open connections differ', () => {
  const namesIn = (table: Flow['table']) => new Set(ends.filter((flow) => flow.table === table).map(nameOf));
  expect(namesIn('state')).toEqual(new Set(['neighbour.routed', 'connection.halfOpen', 'connection.notAdmitted', 'connection.invalid']));
  expect(namesIn('route').size).toBeGreaterThan(5);
});
