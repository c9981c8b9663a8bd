import type { FlowLine, FlowLogState, FlowLosses, FlowSummaries } from '../../api/flow-log.ts';
import type { LoopTurns } from '../../base/async/loop-turns.ts';
import { idle } from '../../base/async/pause.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { type ClosesSettings, recordsEnds } from './closes-choices.ts';
import type { FlowLog } from './flow-log.ts';
import { flowView } from './flow-view.ts';
import type { OpenedFlowLog } from './open-flow-log.ts';
import { openNow } from './open-now.ts';
import { flowFilter } from './records/flow-filter.ts';
import type { RunningFlowLog } from './running-flow-log.ts';

/** Maximum number of readers that follow; other answers need room as well (`http-server.ts`). */
const followersMax = 6;
const lastMax = 65_536;
const lastDefault = 20;
const secondsMax = 86_400;
/** Interval between looks for new records, and between states, while nothing happens (ms). */
const POLL_MS = 200;
const STATE_EVERY_MS = 5_000;
const CHUNK_LENGTH = 64 * 1024;
/** Maximum number of open connections in an answer; further ones are counted. */
const OPEN_MAX = 100_000;
/** Number of a record of an earlier agent, and of an open connection: by it readers know that this agent lists them. */
const NOT_NUMBERED = -1;

export interface FlowLogPort {
  readonly config: { readonly nodeName: string } & ClosesSettings;
  /** @throws SeineError `UNAVAILABLE` until the node is known */
  readonly running: () => {
    readonly flowLog: Pick<OpenedFlowLog, 'running'>;
    readonly proxy: ReturnType<Parameters<typeof openNow>[0]['running']>['proxy'];
  };
  readonly turns: Pick<LoopTurns, 'due' | 'next'>;
}

/** Readers that follow at present. */
let followers = 0;

/**
 * `GET /v1/flow-log?last=20&since=600&follow=true&now=true&FILTER=…`: a line of JSON with the state, then records, the oldest first, then the state
 * again. With `now`, connections that are open instead of records. With `follow` it does not end: further records, and the state every few seconds. A reader that is too slow misses records, which
 * the state counts.
 *
 * @throws SeineError `INVALID_INPUT`; `UNAVAILABLE` if too many readers follow
 */
export function flowLogLines(port: FlowLogPort, query: URLSearchParams, signal: AbortSignal): AsyncIterable<string> {
  const matches = flowFilter(query);
  const seconds = numberIn(query, 'since', secondsMax);
  const follows = query.get('follow') === 'true';
  if (query.get('now') === 'true') {
    const { config } = port;
    if (config.ovsDatapathType === 'netdev' && !recordsEnds(config))
      throw new SeineError(
        'INVALID_INPUT',
        'now: on the userspace data path the log knows open connections only with flowLog.closes: always',
      );
    return openLines(port, matches);
  }
  const last = numberIn(query, 'last', lastMax) ?? (seconds === undefined ? (follows ? 0 : lastDefault) : lastMax);
  if (follows && followers >= followersMax)
    throw new SeineError('UNAVAILABLE', `${followersMax} readers follow the flow log already; end one of them`);
  const sinceMs = seconds === undefined ? 0 : Date.now() - seconds * 1_000;
  return linesOf(port, { matches, last, sinceMs, follows }, signal);
}

/** `GET /v1/flow-log/summary?seconds=60`: connections by workloads, Service, port, verdict and rule. @throws SeineError `INVALID_INPUT` */
export async function flowSummary(port: FlowLogPort, query: URLSearchParams): Promise<FlowSummaries> {
  const seconds = numberIn(query, 'seconds', 3_600) ?? 60;
  const log = port.running().flowLog.running();
  const askedMs = Date.now() - seconds * 1_000;
  await log?.count();
  const { sinceMs, items, others } = log?.flows.summariesSince(askedMs) ?? { sinceMs: askedMs, items: [], others: 0 };
  const state = stateOf(port, { sinceMs, skipped: 0 });
  return { state, since: new Date(sinceMs).toISOString(), items, others };
}

/** Yields connections that are open now, between two states. */
async function* openLines(port: FlowLogPort, matches: ReturnType<typeof flowFilter>): AsyncGenerator<string> {
  const log = port.running().flowLog.running()?.flows;
  let [shown, skipped] = [0, 0];
  const state = () => line({ state: stateOf(port, { sinceMs: 0, skipped }) });
  yield state();
  let piece = '';
  if (log)
    for await (const flow of openNow(port, log)) {
      if (!matches(flow)) continue;
      if (shown >= OPEN_MAX) {
        skipped++;
        continue;
      }
      shown++;
      piece += line({ flow: flowView({ ...flow, number: NOT_NUMBERED }, port.config.nodeName) });
      if (piece.length < CHUNK_LENGTH) continue;
      yield piece;
      piece = '';
    }
  if (piece !== '') yield piece;
  yield state();
}

interface ReadOptions {
  readonly matches: ReturnType<typeof flowFilter>;
  /** Maximum number of earlier records. */
  readonly last: number;
  readonly sinceMs: number;
  readonly follows: boolean;
}

async function* linesOf(port: FlowLogPort, options: ReadOptions, signal: AbortSignal): AsyncGenerator<string> {
  const { sinceMs, follows } = options;
  if (follows) followers++;
  try {
    await port.running().flowLog.running()?.count();
    yield line({ state: stateOf(port, { sinceMs, skipped: 0 }) });
    const running = port.running().flowLog.running();
    const log = running?.flows;
    const next = log?.numbers.next ?? 0;
    if (running && sinceMs > 0) yield* stored(port, running, options);
    if (log) yield* earlier(port, log, options);
    if (follows) yield* later(port, { ...options, log, next }, signal);
    else yield line({ state: stateOf(port, { sinceMs, skipped: 0 }) });
  } finally {
    if (follows) followers--;
  }
}

/** Yields records on disk from before the log was turned on: those since then are in memory. */
async function* stored(
  port: FlowLogPort,
  { files, flows }: RunningFlowLog,
  { matches, last, sinceMs }: ReadOptions,
): AsyncGenerator<string> {
  let left = last;
  for await (const flow of files.read(sinceMs, flows.startMs)) {
    if (left > 0 && matches(flow)) {
      left--;
      yield line({ flow: flowView({ ...flow, number: NOT_NUMBERED }, port.config.nodeName) });
    }
    if (port.turns.due) await port.turns.next();
  }
}

async function* earlier(port: FlowLogPort, log: FlowLog, { matches, last, sinceMs }: ReadOptions): AsyncGenerator<string> {
  const numbers: number[] = [];
  for (let number = log.numbers.next - 1; number >= log.numbers.oldest && numbers.length < last; number--) {
    if (port.turns.due) await port.turns.next();
    const flow = log.get(number);
    if (flow && flow.timeMs < sinceMs) break;
    if (flow && matches(flow)) numbers.push(number);
  }
  let piece = '';
  for (const number of numbers.reverse()) {
    const flow = log.get(number);
    if (flow) piece += line({ flow: flowView(flow, port.config.nodeName) });
    if (piece.length >= CHUNK_LENGTH) {
      yield piece;
      piece = '';
    }
    if (port.turns.due) await port.turns.next();
  }
  if (piece !== '') yield piece;
}

interface FollowedLog extends ReadOptions {
  /** Log of which records were read so far; undefined if it was off. */
  readonly log: FlowLog | undefined;
  /** Number of its next record. */
  readonly next: number;
}

async function* later(port: FlowLogPort, { matches, sinceMs, log, next }: FollowedLog, signal: AbortSignal): AsyncGenerator<string> {
  let [read, at, skipped, stateMs] = [log, next, 0, performance.now()];
  while (!signal.aborted) {
    const now = port.running().flowLog.running()?.flows;
    if (now !== read) [read, at] = [now, 0]; // it was turned off or on
    let piece = '';
    while (read && at < read.numbers.next && piece.length < CHUNK_LENGTH) {
      const { oldest } = read.numbers;
      if (at < oldest) [skipped, at] = [skipped + oldest - at, oldest];
      const flow = read.get(at++);
      if (flow && matches(flow)) piece += line({ flow: flowView(flow, port.config.nodeName) });
      if (port.turns.due) await port.turns.next();
    }
    if (performance.now() - stateMs >= STATE_EVERY_MS) {
      stateMs = performance.now();
      piece += line({ state: stateOf(port, { sinceMs, skipped }) });
    }
    if (piece !== '') yield piece;
    if (!read || at >= read.numbers.next) await idle(POLL_MS, signal);
  }
}

function stateOf(port: FlowLogPort, { sinceMs, skipped }: { readonly sinceMs: number; readonly skipped: number }): FlowLogState {
  const running = port.running().flowLog.running();
  const log = running?.flows;
  return {
    node: port.config.nodeName,
    enabled: log !== undefined,
    ...(running && running.sampling > 1 && { sampling: running.sampling }),
    sources: log ? sourcesOf(port.config) : [],
    ...(log && { completeFrom: new Date(Math.max(log.completeFromMs, sinceMs)).toISOString() }),
    losses: log?.lossesSince(sinceMs) ?? noLosses,
    skipped,
  };
}

function sourcesOf(config: FlowLogPort['config']): readonly string[] {
  const isUserspace = config.ovsDatapathType === 'netdev';
  const closed = isUserspace ? ['closed of TCP', 'bytes estimated'] : ['closed'];
  return ['opened', ...(isUserspace ? ['seen'] : []), 'denied', 'refused', ...(recordsEnds(config) ? closed : [])];
}

const noLosses: FlowLosses = { sampling: 0, meter: 0, rate: 0, queue: 0, ends: 0, denied: 0, names: 0, kernel: 0, disk: 0 };

function line(value: FlowLine): string {
  return `${JSON.stringify(value)}\n`;
}

function numberIn(query: URLSearchParams, key: string, most: number): number | undefined {
  const text = query.get(key);
  if (text === null) return undefined;
  if (!/^\d{1,6}$/.test(text) || Number(text) > most)
    throw new SeineError('INVALID_INPUT', `${key}: ${JSON.stringify(text.slice(0, 32))} is not a whole number up to ${most}`);
  return Number(text);
}
