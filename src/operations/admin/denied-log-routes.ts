import type { DeniedLogView, DeniedPairView, WouldDenyView } from '../../api/denied-log.ts';
import type { LoopTurns } from '../../base/async/loop-turns.ts';
import { idle } from '../../base/async/pause.ts';
import { within } from '../../base/async/time-limit.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { NodeEnvironment } from '../../dataplane/compile/environment.ts';
import type { PolicyController } from '../../policy/controller/policy-controller.ts';
import { readDeniedCounts, type VerdictCounts } from '../../policy/denied-log/denied-counts.ts';
import type { DeniedLog } from '../../policy/denied-log/denied-log.ts';
import { DeniedPairs } from '../../policy/denied-log/denied-pairs.ts';
import { type LoggedPods, logSecondsMax } from '../../policy/denied-log/logged-pods.ts';
import { deniedConnections } from '../../policy/denied-log/open-connections.ts';
import type { NodeServices } from '../../services/controller/open-services.ts';
import { type ApiAnswer, json } from './answer.ts';

const watchSecondsMax = 600;
/** Interval of the blanks that keep the answer alive (ms): a client gives up after fifteen seconds without data. */
const CHUNK_EVERY_MS = 5_000;
const COUNTS_PATIENCE_MS = 1_000;
const kubernetesName = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;

export interface DeniedLogPort {
  readonly config: {
    readonly policy: { readonly logDenied: DeniedLogView['setting'] };
    readonly ovsDatapathType: 'system' | 'netdev';
  };
  /** @throws SeineError `UNAVAILABLE` until the node is known */
  readonly running: () => {
    readonly environment: NodeEnvironment;
    readonly denied: {
      readonly log: Pick<DeniedLog, 'collect' | 'describe'>;
      readonly pods: Pick<LoggedPods, 'logFor' | 'endRequests' | 'requests'>;
    };
    readonly policy: Pick<PolicyController, 'matrix' | 'pods'>;
    /** Tracker of the kernel, which is the bridge's own on the kernel data path. */
    readonly proxy: { readonly tracked: Pick<NodeServices['tracked'], 'list'> };
  };
  readonly openflow: Parameters<typeof readDeniedCounts>[0];
  readonly turns: Pick<LoopTurns, 'due' | 'next'>;
}

export function deniedLog(port: DeniedLogPort): ApiAnswer {
  const view: DeniedLogView = { setting: port.config.policy.logDenied, requests: port.running().denied.pods.requests };
  return json(view);
}

/**
 * `POST /v1/policy/log?seconds=600&namespace=NS&pod=NAME`: logs denied connections of these pods for that time, of all pods without
 * namespace. Without `seconds` it ends all requested logging.
 *
 * @throws SeineError `INVALID_INPUT`
 */
export function setDeniedLog(port: DeniedLogPort, query: URLSearchParams): ApiAnswer {
  const { pods } = port.running().denied;
  const [namespace, pod] = [nameIn(query, 'namespace'), nameIn(query, 'pod')];
  if (pod !== undefined && namespace === undefined) throw new SeineError('INVALID_INPUT', 'pod: its namespace is missing');
  if (query.get('seconds') === null) pods.endRequests();
  else {
    const request = { ...(namespace === undefined ? {} : { namespace }), ...(pod === undefined ? {} : { pod }) };
    pods.logFor(secondsIn(query, logSecondsMax), request);
  }
  return deniedLog(port);
}

/**
 * `POST /v1/policy/would-deny?seconds=10`: connections that policies deny meanwhile, or would if they were enforced. Begins with blanks
 * while it waits.
 */
export function wouldDeny(port: DeniedLogPort, query: URLSearchParams, signal: AbortSignal): ApiAnswer {
  const seconds = secondsIn(query, watchSecondsMax);
  return { status: 200, contentType: 'application/json', body: watched(port, seconds, signal) };
}

async function* watched(port: DeniedLogPort, seconds: number, signal: AbortSignal): AsyncGenerator<string> {
  const { denied, environment } = port.running();
  const { pairs, end } = denied.log.collect();
  try {
    const before = await countsOf(port, signal);
    for (let leftMs = seconds * 1_000; leftMs > 0 && !signal.aborted; leftMs -= CHUNK_EVERY_MS) {
      yield ' ';
      await idle(Math.min(leftMs, CHUNK_EVERY_MS), signal);
    }
    const after = await countsOf(port, signal);
    const views = pairs.pairs.map(({ pod, packet, packets }): DeniedPairView => ({ ...denied.log.describe(pod, packet), packets }));
    const counted = before && after && since(before, after);
    const mode = environment.policyMode ?? 'enforce';
    const all = {
      mode,
      seconds,
      pairs: views,
      morePackets: pairs.others,
      ...(await livingOf(port, signal)),
      ...(counted ? { counted } : {}),
    };
    yield `${JSON.stringify(all satisfies WouldDenyView)}\n`;
  } finally {
    end();
  }
}

/** Tracked connections that policies deny now; none if they cannot be listed: the observed ones are reported all the same. */
async function livingOf(
  { config, running, turns }: DeniedLogPort,
  signal: AbortSignal,
): Promise<Pick<WouldDenyView, 'living' | 'moreLiving'>> {
  if (config.ovsDatapathType !== 'system' || signal.aborted) return {};
  const { denied, policy, proxy } = running();
  const connections = await proxy.tracked.list(['tcp', 'udp', 'sctp']).catch(() => undefined);
  if (connections === undefined) return {};
  const policed = new Set([...policy.pods()].flatMap(([pod, { is }]) => (is === 'policed' ? [pod] : [])));
  const found = new DeniedPairs();
  for (const each of deniedConnections(connections, { matrix: policy.matrix, policed })) {
    if (each) found.note(each.pod, each.attempt);
    else if (turns.due) await turns.next();
  }
  return {
    living: found.pairs.map(({ pod, packet, packets }) => ({ ...denied.log.describe(pod, packet), connections: packets })),
    moreLiving: found.others,
  };
}

/** Undefined if OVS does not answer: the observed connections are reported all the same. */
async function countsOf({ openflow }: DeniedLogPort, signal: AbortSignal): Promise<VerdictCounts | undefined> {
  return await readDeniedCounts(openflow, within(signal, COUNTS_PATIENCE_MS)).catch(() => undefined);
}

function since(before: VerdictCounts, after: VerdictCounts): NonNullable<WouldDenyView['counted']> {
  const between = (direction: keyof VerdictCounts): string => {
    const packets = after[direction] - before[direction];
    return String(packets < 0n ? after[direction] : packets); // flows that were recreated meanwhile count from 0
  };
  return { ingress: between('ingress'), egress: between('egress') };
}

function nameIn(query: URLSearchParams, key: string): string | undefined {
  const name = query.get(key);
  if (name === null) return undefined;
  if (!kubernetesName.test(name)) throw new SeineError('INVALID_INPUT', `${key}: ${JSON.stringify(name)} is not a valid name`);
  return name;
}

function secondsIn(query: URLSearchParams, most: number): number {
  const text = query.get('seconds') ?? '';
  const seconds = Number(text);
  if (!/^\d{1,6}$/.test(text) || seconds < 1 || seconds > most)
    throw new SeineError('INVALID_INPUT', `seconds: a whole number from 1 to ${most}`);
  return seconds;
}
