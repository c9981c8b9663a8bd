import type { HealthCheck, HealthCheckResult } from '../../api/health/health-check.ts';
import type { FoundProblem } from '../../api/problem.ts';
import { idle } from '../../base/async/pause.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { AssumedConnections } from '../../dataplane/flow-walk/assumed-tracking.ts';
import { walkPacket } from '../../dataplane/flow-walk/flow-walk.ts';
import { described } from '../../dataplane/flow-walk/installed-flow.ts';
import type { WalkedFields } from '../../dataplane/flow-walk/packet-state.ts';
import { tableName } from '../../dataplane/pipeline/tables.ts';
import { podName } from '../../pods/ipam/lease.ts';
import { addressOf } from './trace-ends.ts';
import { DesiredFlows, FlowsInSwitch, withLearned } from './trace-flows.ts';
import { namesOf, type TracePort } from './trace-node.ts';
import { packetOf } from './trace-packet.ts';
import { isSameHop } from './trace-paths.ts';
import { traceQuestion } from './trace-question.ts';

/** Part of a CPU that the comparisons may take, and while they find differences. */
const CPU_SHARE = 0.001;
const FOUND_CPU_SHARE = 0.01;
/** CPU time that the first comparisons may take beyond their share (ms): their code is compiled. */
const WARM_UP_MS = 1_000;
/** Time after which a difference that remains is no change in progress (ms). */
const CHANGE_MS = 2_000;
/** Interval at which a check that is off looks whether it is on again (ms). */
const OFF_MS = 10_000;
/** Problems that are kept, and compared again each time. */
const KEPT_MAX = 10;
const ports = ['80/TCP', '443/TCP', '8080/TCP', '53/UDP', '5432/TCP', '1/TCP', 'icmp'] as const;

/** Connection for which flows are compared, as a query of a trace. */
type TraceCell = Readonly<Record<'from' | 'to' | 'port' | 'family', string>>;

export type TraceCellsPort = Omit<TracePort, 'policyOf' | 'connectionOf'> & {
  /** Returns a connection that a pod of this node opened, if one is recorded. @param chance from 0 to 1, without 1: selects it */
  readonly recorded?: (chance: number) => TraceCell | undefined;
};

interface TraceCellsOptions {
  readonly port: TraceCellsPort;
  /** Returns the shortest interval (ms); 0: no comparisons. It may change at any time. */
  readonly everyMs: () => number;
  /** Returns numbers from 0 to 1, without 1. */
  readonly random?: () => number;
  readonly changeMs?: number;
  readonly clocks?: () => ComparisonTimes;
}

/** Difference for a connection. */
interface FoundDifference {
  readonly cell: TraceCell;
  /** First flow that differs: all connections that meet it are one problem. */
  readonly flow: string;
  readonly problem: FoundProblem;
}

interface ComparisonTimes {
  /** Monotonic. */
  readonly wallMs: number;
  /** CPU time of the process. */
  readonly cpuMs: number;
}

/**
 * Compares the flows in OVS with those that the agent wants for a random connection of the node: a few per minute on a small node, and one
 * in some minutes where a comparison takes long, so that all of them take at most a thousandth of a CPU. The sweep compares flow by flow;
 * this compares what flows do.
 */
export class TraceCells implements HealthCheck {
  readonly name = 'trace.cells';
  readonly #options: TraceCellsOptions;
  readonly #clocks: () => ComparisonTimes;
  /** Differences by flow. */
  readonly #found = new Map<string, FoundDifference>();
  #settingMs: number;
  #nextMs = OFF_MS;
  /** CPU time of comparisons that their share has not covered at a time (ms). */
  #debt = { ms: -WARM_UP_MS, atMs: 0 };
  #checkNow: () => void = () => undefined;

  constructor(options: TraceCellsOptions) {
    this.#options = options;
    this.#clocks = options.clocks ?? clocks;
    this.#settingMs = options.everyMs();
  }

  get everyMs(): number {
    return this.#nextMs;
  }

  readonly onChange = (checkNow: () => void): void => {
    this.#checkNow = checkNow;
  };

  /** Applies another interval at once: the present one may last for days. */
  settingsChanged(): void {
    const settingMs = this.#options.everyMs();
    if (settingMs === this.#settingMs) return;
    this.#settingMs = settingMs;
    this.#checkNow();
  }

  async run(signal: AbortSignal): Promise<HealthCheckResult> {
    const everyMs = this.#options.everyMs();
    if (everyMs === 0) {
      this.#found.clear();
      this.#nextMs = OFF_MS;
      return { problems: [] };
    }
    const before = this.#clocks();
    try {
      return await this.#compareAll(signal);
    } finally {
      this.#nextMs = Math.max(everyMs, Math.round(this.#waitMs(before)));
    }
  }

  /** Returns the wait (ms) that keeps comparisons within their share of a CPU. */
  #waitMs(before: ComparisonTimes): number {
    const now = this.#clocks();
    // Both contain what else the agent does meanwhile; one the waiting for OVS and other processes, too.
    const spentMs = Math.min(now.wallMs - before.wallMs, now.cpuMs - before.cpuMs);
    // A known problem ends soon after its cause.
    if (this.#found.size > 0) return spentMs / FOUND_CPU_SHARE;
    const { ms, atMs } = this.#debt;
    const left = ms > 0 ? Math.max(0, ms - (before.wallMs - atMs) * CPU_SHARE) : ms;
    this.#debt = { ms: left + spentMs, atMs: before.wallMs };
    return Math.max(0, this.#debt.ms) / CPU_SHARE;
  }

  async #compareAll(signal: AbortSignal): Promise<HealthCheckResult> {
    for (const [flow, { cell }] of [...this.#found]) {
      const found = await this.#compared(cell, signal);
      this.#found.delete(flow);
      if (found) this.#found.set(found.flow, found); // it may be at another flow by now
    }
    if (this.#found.size < KEPT_MAX) await this.#compareNext(signal);
    return { problems: [...this.#found.values()].map(({ problem }) => problem) };
  }

  async #compareNext(signal: AbortSignal): Promise<void> {
    const cell = this.#drawn();
    if (!cell) return;
    const first = await this.#compared(cell, signal);
    if (!first || this.#found.has(first.flow)) return;
    await idle(this.#options.changeMs ?? CHANGE_MS, signal);
    const found = await this.#compared(cell, signal);
    if (found) this.#found.set(found.flow, found);
  }

  /** Draws a connection from a pod of this node, half of them from those that are recorded; undefined without pods. */
  #drawn(): TraceCell | undefined {
    const { running, sources, recorded } = this.#options.port;
    const known = this.#random() < 0.5 ? recorded?.(this.#random()) : undefined;
    if (known) return known;
    const { ipam, environment } = running();
    const own = ipam.leases().filter(({ state, attached }) => state === 'allocated' && attached);
    const pod = this.#oneOf(own);
    if (!pod) return undefined;
    const others = [...sources.policyPods.replica.entries()].filter(([, { podIps }]) => podIps.length > 0);
    const other = this.#oneOf(others)?.[0] ?? 'outside';
    const neighbour = this.#oneOf(own.filter((each) => each !== pod));
    const drawn = this.#oneOf([other, other, neighbour ? podName(neighbour) : 'outside', 'outside']) ?? 'outside';
    const to = drawn === podName(pod) ? 'outside' : drawn; // a pod's packets to itself do not leave it
    const family = this.#oneOf(environment.podCidrs)?.family ?? 'ipv4';
    return { from: podName(pod), to, port: this.#oneOf(ports) ?? 'icmp', family };
  }

  #oneOf<T>(all: readonly T[]): T | undefined {
    return all[Math.floor(this.#random() * all.length)];
  }

  #random(): number {
    return (this.#options.random ?? Math.random)();
  }

  async #compared(cell: TraceCell, signal: AbortSignal): Promise<FoundDifference | undefined> {
    const { port } = this.#options;
    const packet = packetFor(port, cell);
    if (!packet) return undefined;
    const bridge = new FlowsInSwitch(port.openflow, signal);
    const walk = async (source: typeof bridge | ReturnType<typeof withLearned>) =>
      await walkPacket(source, packet, { tracking: new AssumedConnections(), choose: () => 0 });
    const installed = await walk(bridge);
    const wanted = await walk(withLearned(new DesiredFlows(port.nodeState.bridge), bridge));
    const at = wanted.hops.findIndex((hop, index) => !isSameHop(hop, installed.hops[index]));
    if (at < 0 && wanted.hops.length === installed.hops.length) return undefined;
    const hop = at < 0 ? installed.hops[wanted.hops.length] : wanted.hops[at];
    const table = tableName(hop?.table ?? 0) ?? String(hop?.table);
    const { from, to, port: portText, family } = cell;
    const problem: FoundProblem = {
      kind: 'trace.disagrees',
      about: `${from} ${table}`,
      message: `packets of ${from} to ${to} ${portText} (${family}) meet another flow in table ${table} than the agent requires`,
      remedy: `seinectl trace ${from} ${to} ${portText} --family ${family}`,
    };
    return { cell, flow: hop?.flow ? described(hop.flow) : table, problem };
  }
}

function clocks(): ComparisonTimes {
  const { user, system } = process.cpuUsage();
  return { wallMs: performance.now(), cpuMs: (user + system) / 1_000 };
}

/** @returns undefined if an end is gone, or the ends have no addresses of the family */
function packetFor(port: TraceCellsPort, cell: TraceCell): WalkedFields | undefined {
  const { environment, ipam } = port.running();
  const leases = ipam.leases();
  try {
    const question = traceQuestion(new URLSearchParams({ ...cell }), namesOf(port, environment, leases));
    const [family] = question.families;
    if (!family) return undefined;
    const ends = { source: addressOf(question.from.addresses, family), destination: addressOf(question.to.addresses, family) };
    return packetOf(question, ends, environment, leases);
  } catch (thrown) {
    const error = SeineError.from(thrown, 'trace a cell');
    if (error.code === 'INVALID_INPUT') return undefined;
    throw error;
  }
}
