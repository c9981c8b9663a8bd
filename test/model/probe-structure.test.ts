import { describe, expect, it } from 'vitest';
import { type Cidr, cidrContains, type Ip, parseIp } from '../../src/base/net/ip.ts';
import { compileDeniedLog } from '../../src/dataplane/compile/compile-denied-packets.ts';
import { compileProbes } from '../../src/dataplane/compile/compile-probes.ts';
import type { NodeEnvironment } from '../../src/dataplane/compile/environment.ts';
import { drops } from '../../src/dataplane/pipeline/drops.ts';
import { reg } from '../../src/dataplane/pipeline/fields.ts';
import { type Flow, type Match, priority, type Step } from '../../src/dataplane/pipeline/flow.ts';
import { formatFlow } from '../../src/dataplane/pipeline/format.ts';
import type { Mark } from '../../src/dataplane/pipeline/registers.ts';
import { tables } from '../../src/dataplane/pipeline/tables.ts';
import { compileScene, exampleScene, ofOneFamily, type Scene, withDirectPeers } from './scene.ts';

const node = (change: Partial<NodeEnvironment>): Scene => ({ ...exampleScene, node: { ...exampleScene.node, ...change } });
const gre = node({ tunnel: { ...exampleScene.node.tunnel, type: 'gre', port: 0 } });

const scenes: Readonly<Record<string, Scene>> = {
  'the example': exampleScene,
  'IPv4 alone': ofOneFamily(exampleScene, 'ipv4'),
  'a tunnel of GRE': gre,
  'denied connections are refused': node({ denied: 'reject' }),
  'policies are not enforced': node({ policyMode: 'audit' }),
  'conntrack without SCTP ports': node({ blindToSctp: true }),
  'peers without a tunnel': withDirectPeers(exampleScene, 'all'),
  'established connections continue': node({ liveConnections: 'keep' }),
};

const isOfProbe = ({ match }: Flow): boolean => (match.regs ?? []).some(({ reg: number, value }) => number === 11 && value !== 0);
const leaves = (step: Step): boolean => ['output', 'outputToRegister', 'outputInPort', 'normal', 'answerArp'].includes(step.do);
const learns = (step: Step): boolean => step.do.startsWith('learn') && step.do !== 'learnUnknownTunnelPeer' && step.do !== 'learnFragments';

/** Reports whether the packet continues in the tables after these steps. */
function continues(step: Step): boolean {
  if (step.do === 'resubmit') return tables[step.table].miss !== 'return' && step.table !== 'affinity';
  return step.do === 'ct' ? step.next !== undefined : step.do === 'goto' || step.do === 'group';
}

/** At the end of these tables the packet continues in the table that visited them. */
const returns = ({ table }: Flow): boolean => tables[table].miss === 'return' || table === 'affinity';

const tells = ({ steps }: Flow): boolean =>
  steps.some((step) => step.do === 'toAgent' && step.reason !== 'denied') && !steps.some((step) => leaves(step) || continues(step));

/** Registers of a probe that have one value only. */
const certain: readonly Mark[] = [
  reg.probe('yes'),
  reg.halfOpenProbe('no'),
  reg.answerFrom('no'),
  reg.answerTo('no'),
  reg.reporterSaved('no'),
  reg.expired('no'),
];

/** Where a probe may have come from. */
const sources: readonly Mark[] = [reg.source('pod'), reg.source('tunnel'), reg.source('gateway')];

const isAfterState = ({ table }: Flow): boolean => tables[table].id > tables.state.id;

/** Reports whether a probe may match: an untagged IP packet with TTL 64, of a pod, a node or a host outside, which opens a connection. */
function isReachable(flow: Flow): boolean {
  const { match } = flow;
  const { regs = [], ctState = {} } = match;
  const isEcho = match.icmpType === undefined || match.icmpType === (match.protocol === 'icmp6' ? 128 : 8);
  const isOfOther = match.vlan !== undefined || match.payload === 'arp' || match.protocol === 'gre' || match.fragment !== undefined;
  const isExpired = match.ttl !== undefined && match.ttl !== 64;
  if (!isEcho || isOfOther || isExpired || match.tcpFlags === 'rst') return false;
  if ([...certain, reg.associationLearned('yes')].some((fact) => regs.some((mark) => contradicts(mark, fact)))) return false;
  if (regs.some((mark) => isSame(mark, reg.expired('yes')))) return false;
  if (isOfKernel(flow)) return false;
  // Connections that exist are those of other packets.
  if (ctState.rel === '+' || flow.table === 'errorEnds' || flow.table === 'errorTranslation') return false;
  return !isAfterState(flow) || (ctState.inv !== '+' && ctState.rpl !== '+');
}

/** Packets from the gateway for pods of a peer without a tunnel: the agent sends no such probe (`probeEntry`). */
function isOfKernel({ table, priority: level, match: { regs = [] } }: Flow): boolean {
  return table === 'route' && level === priority.aboveHighest && regs.some((mark) => isSame(mark, reg.source('gateway')));
}

function isSame(a: Mark, b: Mark): boolean {
  return a.reg === b.reg && a.value === b.value && a.mask === b.mask;
}

function contradicts(a: Mark, b: Mark): boolean {
  const both = a.mask & b.mask;
  return a.reg === b.reg && ((a.value ^ b.value) & both) !== 0;
}

/** Reports whether each packet of the narrow match has the wide one, if it is a probe. */
function covers(wide: Match, narrow: Match, afterState: boolean): boolean {
  const known = [...certain, ...(narrow.regs ?? [])];
  const { regs = [], ctMarks = [], ctState = {}, ipDst, ipSrc, ...others } = wide;
  const states = { ...narrow.ctState, ...(afterState && { inv: '-', rpl: '-', trk: '+' }) };
  return (
    regs.every((mark) =>
      known.some((fact) => fact.reg === mark.reg && (fact.mask & mark.mask) >>> 0 === mark.mask && !contradicts(fact, mark)),
    ) &&
    ctMarks.every((mark) => (narrow.ctMarks ?? []).some((fact) => isSame(fact, mark))) &&
    Object.entries(ctState).every(([bit, sign]) => states[bit as 'inv'] === sign) &&
    (ipDst === undefined || isWithin(ipDst, narrow.ipDst)) &&
    (ipSrc === undefined || isWithin(ipSrc, narrow.ipSrc)) &&
    Object.entries(others).every(([field, value]) => JSON.stringify(value) === JSON.stringify(narrow[field as 'inPort']))
  );
}

function isWithin(wide: Ip | Cidr, narrow: Ip | Cidr | undefined): boolean {
  if (narrow === undefined || narrow.family !== wide.family) return false;
  const first = 'network' in narrow ? narrow.network : narrow;
  if (!('network' in wide)) return !('network' in narrow) && first.text === wide.text;
  return cidrContains(wide, first) && (!('network' in narrow) || narrow.prefixLength >= wide.prefixLength);
}

/** Reports whether a probe may have both matches. */
function overlap(a: Match, b: Match): boolean {
  const marks = (match: Match): readonly Mark[] => [...certain, ...(match.regs ?? [])];
  if (marks(a).some((x) => marks(b).some((y) => contradicts(x, y)))) return false;
  if ((a.ctMarks ?? []).some((x) => (b.ctMarks ?? []).some((y) => contradicts(x, y)))) return false;
  if (Object.entries(a.ctState ?? {}).some(([bit, sign]) => ![undefined, sign].includes(b.ctState?.[bit as 'new']))) return false;
  const addresses = [[a.ipDst, b.ipDst] as const, [a.ipSrc, b.ipSrc] as const];
  if (addresses.some(([x, y]) => x && y && !isWithin(x, y) && !isWithin(y, x))) return false;
  const fields = ['inPort', 'payload', 'protocol', 'portDst', 'tunSrc', 'tcpFlags'] as const;
  return fields.every((field) => a[field] === undefined || b[field] === undefined || JSON.stringify(a[field]) === JSON.stringify(b[field]));
}

function flowsOf(scene: Scene): readonly Flow[] {
  const log = scene.pods.flatMap(({ ofPort }) => compileDeniedLog(ofPort, scene.node).flows);
  return [...compileScene(scene).flows, ...log];
}

describe.each(Object.entries(scenes))('for probes, with %s', (_, scene) => {
  const all = flowsOf(scene);
  const probes = all.filter(isOfProbe);
  const others = all.filter((flow) => !isOfProbe(flow) && isReachable(flow));

  /** Flows without a copy that sends probes to the agent instead. */
  const withoutCopy = (flows: readonly Flow[]): string[] =>
    flows
      .filter(
        (flow) =>
          !all.some(
            (copy) =>
              copy.table === flow.table &&
              copy.priority > flow.priority &&
              (isOfProbe(copy) || tells(copy)) &&
              covers(copy.match, flow.match, isAfterState(flow)),
          ),
      )
      .map(formatFlow);

  it('every flow that ends a packet has a copy', () => {
    const ends = others.filter((flow) => !returns(flow) && !tells(flow) && !flow.steps.some((step) => continues(step) || leaves(step)));
    expect(ends.length).toBeGreaterThan(40);
    expect(withoutCopy(ends)).toEqual([]);
  });

  it('every flow that outputs a packet has a copy that does not deliver it', () => {
    const outputs = others.filter(({ steps }) => steps.some(leaves));
    expect(outputs.length).toBeGreaterThan(5);
    expect(withoutCopy(outputs)).toEqual([]);
    const delivering = probes.filter(({ steps }) => steps.some(leaves));
    expect(delivering.map(({ match }) => match.regs)).toEqual([[reg.probe('yes'), reg.expired('no'), reg.destination('tunnel')]]);
  });

  it('every flow that learns has a copy', () => {
    expect(withoutCopy(others.filter(({ steps }) => steps.some(learns)))).toEqual([]);
  });

  const ended = others.filter((flow) => !flow.steps.some((step) => continues(step) || leaves(step)));
  /** Reports whether a flow that ends packets is above this one for all probes of the copy. */
  const isEnded = (copy: Flow, source: Mark, flow: Flow): boolean =>
    ended.some(
      ({ table, priority, match }) =>
        table === copy.table &&
        priority >= flow.priority &&
        covers(match, { ...copy.match, regs: [...(copy.match.regs ?? []), source] }, isAfterState(copy)),
    );

  it('no copy takes the place of a flow that passes packets on', () => {
    const taken = probes
      // A probe that belongs to a connection ends.
      .filter(({ table }) => table !== 'state')
      .flatMap((copy) =>
        others
          .filter(({ table, priority }) => table === copy.table && priority < copy.priority && priority > 0)
          .filter((flow) => flow.steps.some(continues) && !flow.steps.some(leaves) && !flow.steps.some(learns))
          .filter(({ match }) => overlap(copy.match, match))
          // A denied packet is refused by the agent.
          .filter(({ steps }) => !steps.some((step) => step.do === 'goto' && step.table === 'refusals'))
          .filter((flow) => !sources.every((source) => !overlap({ regs: [source] }, flow.match) || isEnded(copy, source, flow)))
          .map((flow) => `${formatFlow(copy)} above ${formatFlow(flow)}`),
      );
    expect(taken).toEqual([]);
  });

  it('there are at most eighty flows, with names of drops', () => {
    const { flows } = compileProbes(scene.node);
    expect(flows.length).toBeLessThanOrEqual(80);
    const details = flows.flatMap(({ steps }) => steps.flatMap((step) => (step.do === 'toAgent' ? [step.detail ?? ''] : [])));
    expect(details.filter((detail) => !(detail in drops)).toSorted()).toEqual(expect.arrayContaining(['output', 'tunnel', 'affinity']));
    expect(new Set(details.filter((detail) => !(detail in drops)))).toEqual(new Set(['output', 'tunnel', 'affinity']));
  });
});

it('the test finds a missing copy', () => {
  const flows = flowsOf(exampleScene);
  const multicast = flows.find(
    ({ table, match }) => table === 'route' && match.ipDst !== undefined && isWithin(match.ipDst, parseIp('224.0.0.1')),
  );
  expect(multicast && isReachable(multicast)).toBe(true);
  expect(flows.some((copy) => copy.table === 'route' && isOfProbe(copy) && multicast && covers(copy.match, multicast.match, true))).toBe(
    true,
  );
  expect(covers({ payload: 'ipv4', regs: [reg.source('pod')] }, multicast?.match ?? {}, true)).toBe(false);
});
