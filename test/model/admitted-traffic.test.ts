import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Ip, parseIp } from '../../src/base/net/ip.ts';
import { ownAddresses } from '../../src/dataplane/compile/environment.ts';
import { ctMark, reg, unsettledToCtMark } from '../../src/dataplane/pipeline/fields.ts';
import { drop, type Flow, type Group, type Step } from '../../src/dataplane/pipeline/flow.ts';
import type { Mark } from '../../src/dataplane/pipeline/registers.ts';
import { zones } from '../../src/dataplane/pipeline/well-known.ts';
import { ConnectionTracker } from '../../src/dataplane/switch-model/connection-tracker.ts';
import type { Packet } from '../../src/dataplane/switch-model/packet.ts';
import { type Output, SwitchModel } from '../../src/dataplane/switch-model/switch-model.ts';
import { modelRuns } from '../support/model-runs.ts';
import { type Arrival, answerTo, type Conversation, conversations, nextOf } from './conversation.ts';
import { compileScene, exampleScene } from './scene.ts';

type Compiled = ReturnType<typeof compileScene>;

const { node, pods } = exampleScene;
const isPods = (port: number): boolean => pods.some(({ ofPort }) => ofPort === port);
const isAmong = (all: readonly Ip[], ip: Packet['ipSrc']): boolean => all.some(({ text }) => text === ip?.text);
const barredBit = unsettledToCtMark.to.first;

/** Deciding flows in the tables of policy: no pod may begin a connection, and answers are not checked. */
const nothingBegins: readonly Flow[] = pods.map(({ ofPort }) => ({
  table: 'egressEntry',
  priority: 60_000,
  match: { inPort: ofPort, regs: [reg.verdict(0)] },
  steps: drop,
}));

function bridge({ flows, groups }: Compiled, datapath: 'userspace' | 'kernel', choices: readonly number[]): SwitchModel {
  let turn = 0;
  const choose = ({ buckets }: Group) => (choices[turn++ % choices.length] ?? 0) % buckets.length;
  return new SwitchModel({ flows, groups, tracker: new ConnectionTracker(datapath), choose, tunnelPort: node.tunnel.ofPort });
}

/** Like `answerTo`, from a pod that received no request, but knows it. */
function forgedAnswer({ inPort, packet }: Arrival, { dst, dstPort }: { readonly dst: Packet['ipDst']; readonly dstPort: number }) {
  const pod = pods.find(({ addresses }) => addresses.some(({ text }) => text === dst?.text));
  if (!pod || !dst || pod.ofPort === inPort) return undefined;
  const asked = { ...packet, ipDst: dst, ...(packet.portDst !== undefined && { portDst: dstPort }), ethDst: pod.mac };
  return answerTo({ to: pod.ofPort, packet: asked });
}

/** Packets that leave the bridge, of a client and of the forged answers of each possible endpoint. */
function escaped(conversation: Conversation, model: SwitchModel): readonly Output[] {
  let answer: Arrival | undefined;
  const outputs: Output[] = [];
  for (const fromOpener of conversation.order) {
    const arrival = fromOpener ? nextOf(conversation, answer !== undefined) : answer;
    if (!arrival) continue;
    const walk = model.receive(arrival.inPort, arrival.packet);
    const [translation] = walk.translations;
    if (fromOpener && translation) answer = forgedAnswer(conversation.opening, translation);
    outputs.push(...walk.outputs.filter(({ to }) => !isAgent(to)));
  }
  return outputs;
}

const byPods = conversations(exampleScene).filter(({ opening: { inPort } }) => isPods(inPort));
const choices = fc.array(fc.nat(), { minLength: 1 });

/** Reports whether an unadmitted packet passes, in this number of conversations. */
function findsHole(compiled: Compiled, datapath: 'userspace' | 'kernel', numRuns: number): boolean {
  const closed = { ...compiled, flows: [...compiled.flows, ...nothingBegins] };
  const runs = fc.property(byPods, choices, (conversation, chosen) => {
    return escaped(conversation, bridge(closed, datapath, chosen)).length === 0;
  });
  return fc.check(runs, { numRuns, seed: 11, endOnFailure: true }).failed;
}

const whole = compileScene(exampleScene);
const inWhich = (table: Flow['table'], test: (flow: Flow) => boolean, change: (flow: Flow) => readonly Flow[]): Compiled => ({
  ...whole,
  flows: whole.flows.flatMap((flow) => (flow.table === table && test(flow) ? change(flow) : [flow])),
});
const marked = ({ match }: Flow, mark: Mark): boolean =>
  match.ctMarks?.some(({ field, value }) => field === mark.field && value === mark.value) === true;
const unbarred = (each: Step): Step =>
  each.do === 'ct' ? { ...each, exec: each.exec.filter((exec) => exec.do === 'mark' || exec.to.first !== barredBit) } : each;

describe.each(['userspace', 'kernel'] as const)('on the %s data path', (datapath) => {
  it('a connection that was not admitted is not answered, whatever its endpoints forge', () => {
    expect(findsHole(whole, datapath, 2_000)).toBe(false);
  });

  it.each<[string, Compiled]>([
    [
      'passes answers to what is barred',
      inWhich(
        'state',
        (flow) => marked(flow, ctMark.unadmitted('yes')) && flow.steps.length === 0,
        () => [],
      ),
    ],
    [
      'takes all that is new for settled',
      inWhich(
        'state',
        ({ match }) => match.ctState?.new === '+',
        (flow) => [{ ...flow, steps: flow.steps.filter((step) => step.do !== 'load' || step.mark.field !== 'unsettled') }],
      ),
    ],
    [
      'bars nothing that it translates',
      {
        // Members of flows from a pattern are not their own properties.
        flows: whole.flows.map(({ table, priority, match, steps }) => ({ table, priority, match, steps: steps.map(unbarred) })),
        groups: whole.groups.map((group) => ({
          ...group,
          buckets: group.buckets.map((bucket) => ({ ...bucket, steps: bucket.steps.map(unbarred) })),
        })),
      },
    ],
  ])('detects that on a bridge that %s', (_, compiled) => {
    expect(findsHole(compiled, datapath, 2_000)).toBe(true);
  });

  it('a connection of a pod to itself through a Service that was not admitted continues with its next packet, once it is allowed', () => {
    const [{ ofPort, mac, addresses } = fail()] = pods;
    const [ipSrc = fail()] = addresses;
    const tracker = new ConnectionTracker(datapath);
    const own = { flows: whole.flows, groups: whole.groups, tracker, choose: () => 0, tunnelPort: node.tunnel.ofPort };
    const denied: readonly Flow[] = [true, false].map((known) => ({
      table: 'egressEntry',
      priority: known ? 60_001 : 60_000,
      match: { inPort: ofPort, payload: 'ipv4', regs: [reg.verdict('none')], ...(known && { ctState: { new: '-', inv: '-', trk: '+' } }) },
      steps: known ? [{ do: 'ct', zone: zones.ipv4.main, commit: true, exec: [{ do: 'mark', mark: ctMark.unadmitted('yes') }] }] : drop,
    }));
    const open = new SwitchModel(own);
    const shut = new SwitchModel({ ...own, flows: [...whole.flows, ...denied] });
    const tuple = { ipSrc, ipDst: parseIp('10.96.0.10'), portSrc: 40_000, portDst: 80 };
    const asked: Packet = { ethSrc: mac, ethDst: node.gateway.mac, payload: 'ipv4', ttl: 64, protocol: 'tcp', tcpFlags: 'syn', ...tuple };
    const [received] = open.receive(ofPort, asked).outputs;
    const answer = received && answerTo(received);
    if (!answer) throw new Error('the pod does not reach itself');
    const later: Packet = { ...asked, tcpFlags: 'ack' };
    const arrives = (bridge: SwitchModel, packet: Packet): boolean =>
      bridge.receive(ofPort, packet).outputs.some(({ to }) => to === ofPort);
    expect([arrives(open, answer.packet), arrives(open, later)]).toEqual([true, true]);
    expect([arrives(shut, later), arrives(open, answer.packet)]).toEqual([false, false]);
    expect([arrives(open, later), arrives(open, answer.packet)]).toEqual([true, true]);
  });

  it.each(['egressEntry', 'ingressEntry'] as const)('a pod without its flow in %s sends nothing, or receives nothing', (table) => {
    const [{ ofPort, addresses } = fail()] = pods;
    const isItsOwn = ({ match }: Flow) => match.inPort === ofPort || match.regs?.some(({ value }) => value === ofPort) === true;
    const without = inWhich(table, isItsOwn, () => []);
    expect(without.flows.length).toBe(whole.flows.length - 1);
    const runs = fc.property(conversations(exampleScene), choices, (talk, chosen) => {
      const closed = bridge(without, datapath, chosen);
      for (const { inPort, packet } of arrivalsOf(talk, bridge(whole, datapath, chosen))) {
        const came = closed.receive(inPort, packet).outputs.filter(({ to, packet: { payload } }) => !isAgent(to) && payload !== 'arp');
        // Its own node reaches it, and so does it itself.
        const alwaysLetIn =
          inPort === ofPort || (inPort === node.gateway.ofPort && isAmong([...ownAddresses(node), ...addresses], packet.ipSrc));
        if (table === 'egressEntry' ? inPort === ofPort && came.length > 0 : !alwaysLetIn && came.some(({ to }) => to === ofPort))
          return false;
      }
      return true;
    });
    fc.assert(runs, { numRuns: modelRuns(1_000) });
  });
});

/** Packets of a conversation as they arrive if all parties are reachable. */
function arrivalsOf(conversation: Conversation, open: SwitchModel): readonly Arrival[] {
  const arrivals: Arrival[] = [];
  let last: readonly Output[] = [];
  for (const fromOpener of conversation.order) {
    const [received] = last;
    const arrival = fromOpener ? conversation.opening : received && answerTo(received);
    if (!arrival) continue;
    arrivals.push(arrival);
    last = open.receive(arrival.inPort, arrival.packet).outputs;
  }
  return arrivals;
}

function fail(): never {
  throw new Error('the scene has no pod');
}

function isAgent(to: Output['to']): boolean {
  return typeof to === 'string' && to.startsWith('agent');
}
