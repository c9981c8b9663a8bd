import { SeineError } from '../../base/errors/seine-error.ts';
import { announcementsOwner, compileAnnouncements } from '../../dataplane/compile/compile-announcements.ts';
import { compileRefusals, refusalsOwner } from '../../dataplane/compile/compile-denied-packets.ts';
import { compileSubject } from '../../dataplane/compile/compile-entry.ts';
import { compileNode } from '../../dataplane/compile/compile-node.ts';
import { compileOpenings, openingsOwner } from '../../dataplane/compile/compile-openings.ts';
import { compilePeer } from '../../dataplane/compile/compile-peer.ts';
import { compilePod } from '../../dataplane/compile/compile-pod.ts';
import { compileProbes, probesOwner } from '../../dataplane/compile/compile-probes.ts';
import { compileUnservedPorts, unservedPortsOwner } from '../../dataplane/compile/compile-service-path.ts';
import { compileTimeExceeded, timeExceededOwner } from '../../dataplane/compile/compile-time-exceeded.ts';
import { nothing, type Wanted } from '../../dataplane/desired/host-entries.ts';
import { type Owner, ownerOf } from '../../dataplane/pipeline/cookie.ts';
import { type BridgeKey, type BridgeValue, encodeBridgeEntries } from '../../dataplane/targets/bridge/bridge-entry.ts';
import { LearnedFlows } from '../../dataplane/targets/bridge/learned-flows.ts';
import { compileEndpoint, compileService } from '../../services/compile/compile-service.ts';
import { endpointOwner } from '../../services/compile/endpoint-owner.ts';
import { askedRanges, translatedEndpoints } from '../../services/compile/service-intent.ts';
import { compileSourceRanges, rangeSetOf } from '../../services/compile/source-ranges.ts';
import type { NodeInputs, ServiceInput } from './node-inputs.ts';

/** Bridge that results from inputs. */
export interface CompiledBridge {
  readonly entries: ReadonlyMap<BridgeKey, BridgeValue>;
  /** Flows that they may teach the switch. */
  readonly learned: Pick<LearnedFlows, 'covers'>;
  readonly owners: ReadonlySet<Owner>;
  /** Owners that the compilers refused; the agent also leaves such an owner out, and reports it. */
  readonly failures: readonly { readonly owner: Owner; readonly error: SeineError }[];
}

interface CompileOptions {
  /** Owners to compile; absent: all. */
  readonly only?: ReadonlySet<string>;
  /** Called with the entries of each owner. */
  readonly compiled?: (owner: Owner, entries: ReadonlyMap<BridgeKey, BridgeValue>) => void;
}

/** Compiles the flows and groups of a node from its inputs alone: the desired state of the agent that recorded them. Pure. */
export function compileInputs(inputs: NodeInputs, options: CompileOptions = {}): CompiledBridge {
  const bridge = new Assembly(new Map(inputs.disputes.map(({ key, owner }) => [key, owner])), options);
  const { environment } = inputs;
  bridge.want(ownerOf('node'), () => compileNode(environment));
  bridge.want(announcementsOwner, () => compileAnnouncements());
  bridge.want(unservedPortsOwner, () => compileUnservedPorts(environment));
  bridge.want(timeExceededOwner, () => compileTimeExceeded(environment));
  bridge.want(refusalsOwner, () => compileRefusals(environment));
  bridge.want(probesOwner, () => compileProbes(environment));
  for (const peer of inputs.peers) bridge.want(ownerOf('peer', peer.name), () => compilePeer(peer, environment));
  for (const { owner, intent } of inputs.pods) bridge.want(owner, () => compilePod(intent));
  for (const { owner, intent } of inputs.subjects) bridge.want(owner, () => ({ ...nothing, flows: compileSubject(intent) }));
  for (const { owner, intent } of inputs.subjects)
    if (compileOpenings(intent) !== nothing) bridge.want(openingsOwner(owner), () => compileOpenings(intent));
  for (const service of inputs.services) wantService(bridge, service, inputs.proxy);
  bridge.learned.complete();
  return bridge;
}

function wantService(bridge: Assembly, { owner, intent, groups }: ServiceInput, node: NodeInputs['proxy']): void {
  const groupId = (name: string): number => {
    const id = groups.get(name);
    if (id === undefined) throw new SeineError('INVALID_INPUT', `${owner} has no number for group ${name}`);
    return id;
  };
  for (const endpoint of translatedEndpoints(intent))
    bridge.want(endpointOwner(intent.transport, endpoint), () => compileEndpoint(intent.transport, endpoint));
  const ranges = askedRanges(intent);
  if (ranges) bridge.want(rangeSetOf(ranges).owner, () => compileSourceRanges(ranges, node));
  bridge.want(owner, () => compileService(intent, { owner, groupId }));
}

class Assembly implements CompiledBridge {
  readonly entries = new Map<BridgeKey, BridgeValue>();
  readonly learned = new LearnedFlows();
  readonly owners = new Set<Owner>();
  readonly failures: { readonly owner: Owner; readonly error: SeineError }[] = [];
  readonly #winners: ReadonlyMap<BridgeKey, Owner>;
  readonly #options: CompileOptions;

  constructor(winners: ReadonlyMap<BridgeKey, Owner>, options: CompileOptions) {
    this.#winners = winners;
    this.#options = options;
  }

  /** Several Services may have the same endpoint; it is compiled once. */
  want(owner: Owner, compile: () => Wanted): void {
    const { only, compiled } = this.#options;
    if (this.owners.has(owner) || only?.has(owner) === false) return;
    this.owners.add(owner);
    try {
      const wanted = compile();
      this.learned.declare(owner, wanted.flows);
      const entries = encodeBridgeEntries(owner, wanted);
      compiled?.(owner, entries);
      for (const [key, value] of entries) if (!this.entries.has(key) || this.#mayReplace(key, owner)) this.entries.set(key, value);
    } catch (thrown) {
      this.failures.push({ owner, error: SeineError.from(thrown, `compile ${owner}`) });
    }
  }

  #mayReplace(key: BridgeKey, owner: Owner): boolean {
    const winner = this.#winners.get(key);
    return winner === undefined || winner === owner;
  }
}
