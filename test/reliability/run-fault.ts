import { setTimeout as sleep } from 'node:timers/promises';
import { clusterIps } from '../../lab/demo/workload.ts';
import { type ConvergeLab, until } from '../support/converge-lab.ts';
import type { Fault, FaultContext } from './fault.ts';
import { servicePort, Traffic, type TrafficCount } from './traffic.ts';

const afterwardsMs = 1_000;
const answerWithinMs = 60_000;
const serviceName = 'traffic';
const sameNode = 'same node';

export interface FaultRow {
  readonly name: string;
  readonly what: string;
  readonly udpSent: number;
  readonly udpLost: number;
  readonly udpLostOnTheNode: number;
  /** Longest time without an answered datagram on any stream (ms). */
  readonly udpGapMs: number;
  readonly connects: number;
  readonly connectsFailed: number;
  readonly slowestConnectMs: number;
  /** Longest wait for an answer on an earlier connection (ms). */
  readonly stallMs: number;
  readonly broken: number;
  readonly firstBackMs: number | undefined;
  readonly allBackMs: number | undefined;
  readonly cachedLost: number | undefined;
  readonly notes: readonly string[];
  /** Violations, in words; empty if there are none. */
  readonly problems: readonly string[];
}

const families = { ipFamilyPolicy: 'RequireDualStack', ipFamilies: ['IPv4', 'IPv6'] };
const ports = ['TCP', 'UDP'].map((protocol) => ({ name: protocol.toLowerCase(), port: servicePort, targetPort: servicePort, protocol }));

/** Starts the pods, and their Service. */
export async function prepare(lab: ConvergeLab): Promise<void> {
  const object = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: serviceName },
    spec: { selector: { app: 'web' }, ports, ...families },
  };
  await lab.startPods([{ collection: '/api/v1/namespaces/demo/services', object }]);
  await lab.untilReached(lab.pod('client-1'), lab.pod('web-1'), answerWithinMs);
  await lab.untilReached(lab.pod('client-1'), lab.pod('web-2'), answerWithinMs);
}

/** Input of a run of faults, apart from the lab. */
export interface FaultRun extends Pick<FaultContext, 'random' | 'rounds' | 'print' | 'signal'> {
  /** Datagrams, new connections and messages a second on each stream. */
  readonly hertz: number;
  readonly datapath: 'netdev' | 'system';
}

/**
 * Runs one fault under traffic from a pod to one of its node, to one of another node, and to a Service of both; and judges it. @throws only
 * if the traffic cannot be started
 */
export async function runFault(fault: Fault, lab: ConvergeLab, more: FaultRun): Promise<FaultRow> {
  const [client, near, far] = [lab.pod('client-1'), lab.pod('web-1'), lab.pod('web-2')];
  const traffic = await Traffic.start(
    [near, far],
    [
      { name: sameNode, from: client, addresses: near.ips, service: false },
      { name: 'other node', from: client, addresses: far.ips, service: false },
      { name: 'Service', from: client, addresses: await clusterIps(lab.api, serviceName, more.signal), service: true },
    ],
    more.hertz,
  );
  const problems: string[] = [];
  let notes: readonly string[] = [];
  let healedMs = performance.now();
  let cachedLost: number | undefined;
  try {
    await answered(traffic);
    const outcome = await fault.act({ lab, traffic, ...more });
    healedMs = outcome.healedMs ?? performance.now();
    notes = outcome.notes ?? [];
    cachedLost = outcome.cachedLost;
    await answered(traffic);
    await sleep(afterwardsMs);
  } catch (thrown) {
    problems.push(thrown instanceof Error ? thrown.message : String(thrown));
  }
  const back = traffic.backAfter(healedMs);
  const row = { ...summary(fault, await traffic.stop()), firstBackMs: back?.firstMs, allBackMs: back?.allMs, cachedLost, notes };
  const limits = more.datapath === 'system' ? (fault.kernelLimits ?? {}) : fault.limits;
  return { ...row, problems: [...problems, ...exceeded(limits, row)] };
}

async function answered(traffic: Traffic): Promise<void> {
  const fromMs = performance.now();
  await until(
    () => traffic.silentSince(fromMs).length === 0,
    answerWithinMs,
    () => `no answer on ${traffic.silentSince(fromMs).join(', ')}`,
  );
}

function summary({ name, what }: Fault, { streams, broken }: TrafficCount) {
  const of = (kind: string) => streams.filter((stream) => stream.kind === kind);
  const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);
  return {
    name,
    what,
    udpSent: sum(of('udp').map(({ sent }) => sent)),
    udpLost: sum(of('udp').map(({ lost }) => lost)),
    udpLostOnTheNode: sum(of('udp').map(({ name, lost }) => (name.includes(sameNode) ? lost : 0))),
    udpGapMs: Math.max(...of('udp').map(({ gapMs }) => gapMs)),
    connects: sum(of('connect').map(({ sent }) => sent)),
    connectsFailed: sum(of('connect').map(({ lost }) => lost)),
    slowestConnectMs: Math.max(...of('connect').map(({ slowestMs }) => slowestMs)),
    stallMs: Math.max(...of('talk').map(({ slowestMs }) => slowestMs)),
    broken,
  };
}

function exceeded(limits: Fault['limits'], row: Omit<FaultRow, 'problems'>): string[] {
  return (Object.keys(limits) as (keyof typeof limits)[]).flatMap((key) => {
    const [limit, seen] = [limits[key], row[key]];
    return limit !== undefined && (seen ?? Infinity) > limit ? [`${key} is ${seen ?? 'endless'}, at most ${limit} was asked`] : [];
  });
}
