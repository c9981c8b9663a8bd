import type { HealthCheck, HealthCheckResult } from '../../api/health/health-check.ts';
import type { FoundProblem } from '../../api/problem.ts';
import { idle } from '../../base/async/pause.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { AssumedConnections } from '../../dataplane/flow-walk/assumed-tracking.ts';
import { walkPacket } from '../../dataplane/flow-walk/flow-walk.ts';
import type { WalkedFields } from '../../dataplane/flow-walk/packet-state.ts';
import { tableName } from '../../dataplane/pipeline/tables.ts';
import { podName } from '../../pods/ipam/lease.ts';
import { addressOf } from './trace-ends.ts';
import { DesiredFlows, FlowsInSwitch, withLearned } from './trace-flows.ts';
import { namesOf, type TracePort } from './trace-node.ts';
import { packetOf } from './trace-packet.ts';
import { isSameHop } from './trace-paths.ts';
import { traceQuestion } from './trace-question.ts';

/** Part of a CPU that the comparisons may take. */
const CPU_SHARE = 0.001;
/** Time after which a difference that remains is no change in progress (ms). */
const CHANGE_MS = 2_000;
/** Interval at which a check that is off looks whether it is on again (ms). */
const OFF_MS = 10_000;
/** Problems that are kept, and compared again each time. */
const KEPT_MAX = 10;
const ports = ['80/TCP', '443/TCP', '8080/TCP', '53/UDP', '5432/TCP', '1/TCP', 'icmp'] as const;

/** Connection for which flows are compared, as a query of a trace. */
type TraceCell = Readonly<Record<'from' | 'to' | 'port' | 'family', string>>;

export type TraceCellsPort = Omit<TracePort, 'policyOf' | 'connectionOf'>;

interface TraceCellsOptions {
  readonly port: TraceCellsPort;
  /** Returns the shortest interval (ms); 0: no comparisons. It may change at any time. */
  readonly everyMs: () => number;
  /** Returns numbers from 0 to 1, without 1. */
  readonly random?: () => number;
  readonly changeMs?: number;
}

/**
 * Compares the flows in OVS with those that the agent wants for a random connection of the node: a few per minute on a small node, and one
 * in some minutes where a comparison takes long, so that all of them take at most a thousandth of a CPU. The sweep compares flow by flow;
 * this compares what flows do.
 */
export class TraceCells implements HealthCheck {
  readonly name = 'trace.cells';
  readonly #options: TraceCellsOptions;
  readonly #found = new Map<string, { readonly cell: TraceCell; readonly problem: FoundProblem }>();
  #costMs = 0;
  #nextMs = OFF_MS;

  constructor(options: TraceCellsOptions) {
    this.#options = options;
  }

  /** Interval since the last comparison: a setting that changes meanwhile counts from the next one on. */
  get everyMs(): number {
    return this.#nextMs;
  }

  async run(signal: AbortSignal): Promise<HealthCheckResult> {
    const everyMs = this.#options.everyMs();
    if (everyMs === 0) {
      this.#found.clear();
      this.#nextMs = OFF_MS;
      return { problems: [] };
    }
    try {
      return await this.#compareAll(signal);
    } finally {
      // A known problem ends soon after its cause, whatever the comparison takes.
      this.#nextMs = this.#found.size > 0 ? everyMs : Math.max(everyMs, Math.round(this.#costMs / CPU_SHARE));
    }
  }

  async #compareAll(signal: AbortSignal): Promise<HealthCheckResult> {
    for (const [key, { cell }] of [...this.#found]) {
      const problem = await this.#compared(cell, signal);
      if (problem) this.#found.set(key, { cell, problem });
      else this.#found.delete(key);
    }
    if (this.#found.size < KEPT_MAX) await this.#compareNext(signal);
    return { problems: [...this.#found.values()].map(({ problem }) => problem) };
  }

  async #compareNext(signal: AbortSignal): Promise<void> {
    const cell = this.#drawn();
    if (!cell) return;
    const startedMs = performance.now();
    const first = await this.#compared(cell, signal);
    this.#costMs = performance.now() - startedMs;
    if (!first) return;
    await idle(this.#options.changeMs ?? CHANGE_MS, signal);
    const problem = await this.#compared(cell, signal);
    if (problem) this.#found.set(JSON.stringify(cell), { cell, problem });
  }

  /** Draws a connection from or to a pod of this node; undefined without pods. */
  #drawn(): TraceCell | undefined {
    const { running, sources } = this.#options.port;
    const { ipam, environment } = running();
    const own = ipam.leases().filter(({ state, attached }) => state === 'allocated' && attached);
    const pod = this.#oneOf(own);
    if (!pod) return undefined;
    const others = [...sources.policyPods.replica.entries()].filter(([, { podIps }]) => podIps.length > 0);
    const other = this.#oneOf(others)?.[0] ?? 'outside';
    const neighbour = this.#oneOf(own);
    const to = this.#oneOf([other, other, neighbour ? podName(neighbour) : 'outside', 'outside']) ?? 'outside';
    const family = this.#oneOf(environment.podCidrs)?.family ?? 'ipv4';
    return { from: podName(pod), to, port: this.#oneOf(ports) ?? 'icmp', family };
  }

  #oneOf<T>(all: readonly T[]): T | undefined {
    return all[Math.floor((this.#options.random ?? Math.random)() * all.length)];
  }

  /** @returns the problem, if the flows differ */
  async #compared(cell: TraceCell, signal: AbortSignal): Promise<FoundProblem | undefined> {
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
    return {
      kind: 'trace.disagrees',
      about: `${from} ${table}`,
      message: `packets of ${from} to ${to} ${portText} (${family}) meet another flow in table ${table} than the agent requires`,
      remedy: `seinectl trace ${from} ${to} ${portText} --family ${family}`,
    };
  }
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
