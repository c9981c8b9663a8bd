import { type Steps, tinyWork } from '../../base/async/steps.ts';
import { parseCidr } from '../../base/net/ip.ts';
import type { PolicyChange } from '../engine/policy-engine.ts';
import {
  classIn,
  haveSameClasses,
  type MatrixSubject,
  type PeerIdentity,
  type PolicyDecision,
  type PolicyDirection,
  type PolicyMatrix,
  policyDirections,
  policyTiers,
} from '../matrix/matrix.ts';
import type { DirectionFlows } from './direction-flows.ts';
import type { DirectionKeys, DirectionRows, FlowsMatrix, MatrixAfter, MatrixBefore, RowsBefore, RowsByKey } from './flows-matrix.ts';
import type { InheritedClasses, InheritedMatrix } from './inherited-rows.ts';
import { HeldIdentities } from './installed-identities.ts';
import { identityWithin, lengthsOf } from './round-moves.ts';

type ByDirection<T> = Readonly<Record<PolicyDirection, T>>;

/** Knowledge about pods and addresses besides the matrix. */
export interface Surroundings {
  /** Returns the OpenFlow port of a local pod that still has the entry flows from before the agent started; undefined for any other pod. */
  readonly adoptedAt: (pod: string) => number | undefined;
  /** Reports whether all pods and nodes of the cluster are known. Then an address that is not in the matrix has no owner. */
  readonly areAddressesKnown: () => boolean;
}

/** Matrix before a round, and the number of addresses for each identity. */
export interface HeldBefore {
  readonly matrix: MatrixBefore;
  readonly held: ByDirection<Pick<HeldIdentities, 'holdersOf' | 'prefixLengths'>>;
}

/** Rows of one direction before a round, and the number of addresses for each identity. */
interface PartBefore {
  readonly rows: RowsBefore;
  readonly held: HeldBefore['held'][PolicyDirection];
}

/**
 * Rows of a previous agent, in force until the bridge is swept. A round that moves pods away from them is a transition from them: their
 * content is known, but not their purpose. Addresses that the cluster no longer has keep a row until then, with the identity of their
 * network.
 */
export class PreviousAgentState {
  readonly #directions: ByDirection<DirectionFlows>;
  readonly #nextId: () => number;
  readonly #lingering: ByDirection<Set<string>> = { ingress: new Set(), egress: new Set() };
  /** Addresses that lose their row in the next round. */
  readonly #released: ByDirection<Set<string>> = { ingress: new Set(), egress: new Set() };

  constructor(directions: ByDirection<DirectionFlows>, nextId: () => number) {
    this.#directions = directions;
    this.#nextId = nextId;
  }

  /** Returns the pods with entry flows that a round moves to other classes. */
  movedPods(before: PolicyMatrix, after: PolicyMatrix, pods: Iterable<string>, adoptedAt: Surroundings['adoptedAt']): ReadonlySet<string> {
    const moved = new Set<string>();
    for (const pod of pods) {
      const [was, will] = [before.subjects.get(pod), after.subjects.get(pod)];
      if (!will) continue;
      const ofPort = was || !this.#isLeft ? undefined : adoptedAt(pod);
      const isMoved = was
        ? policyDirections.some((direction) => !haveSameClasses(was, will, direction))
        : ofPort !== undefined && this.#isForwardedElsewhere(ofPort, will);
      if (isMoved) moved.add(pod);
    }
    return moved;
  }

  get #isLeft(): boolean {
    return policyDirections.some((direction) => !this.#directions[direction].left.isEmpty);
  }

  #isForwardedElsewhere(ofPort: number, will: MatrixSubject): boolean {
    return policyDirections.some((direction) => {
      const { left, contents } = this.#directions[direction];
      return policyTiers.some((tier) => {
        const [number, subject] = [left.classNumberAt(ofPort, tier), classIn(will, direction, tier)];
        if (!subject) return number !== undefined;
        return number === undefined || number !== contents.classPool(subject).heldNumberOf(contents.names.class(subject));
      });
    });
  }

  /**
   * Returns the rows on the bridge: those of the last round, and those of the previous agent where there are none. From now on, addresses
   * without an owner are tracked.
   */
  *seen(before: PolicyMatrix, after: PolicyMatrix, { adoptedAt, areAddressesKnown }: Surroundings): Steps<HeldBefore> {
    const { ingress, egress } = this.#directions;
    if (!this.#isLeft) return { matrix: before, held: { ingress: ingress.held, egress: egress.held } };
    const left = {
      ingress: yield* ingress.left.read([after, before], this.#nextId),
      egress: yield* egress.left.read([after, before], this.#nextId),
    };
    const areKnown = areAddressesKnown();
    const parts = {
      ingress: yield* this.#partOf('ingress', before, after, left.ingress, areKnown),
      egress: yield* this.#partOf('egress', before, after, left.egress, areKnown),
    };
    const inheritedSubject = (pod: string): MatrixSubject | undefined => {
      const ofPort = adoptedAt(pod);
      if (ofPort === undefined) return undefined;
      return inheritedSubjectOf({ ingress: left.ingress.classes.get(ofPort), egress: left.egress.classes.get(ofPort) });
    };
    return {
      matrix: {
        subjects: { get: (pod) => before.subjects.get(pod) ?? inheritedSubject(pod) },
        ingress: parts.ingress.rows,
        egress: parts.egress.rows,
      },
      held: { ingress: parts.ingress.held, egress: parts.egress.held },
    };
  }

  *#partOf(
    direction: PolicyDirection,
    before: PolicyMatrix,
    after: PolicyMatrix,
    left: InheritedMatrix,
    areKnown: boolean,
  ): Steps<PartBefore> {
    const flows = this.#directions[direction];
    const held = new HeldIdentities();
    const identities = new Map<string, PeerIdentity>();
    let work = 0;
    for (const [cidr, identity] of left.identities) {
      if (++work % tinyWork === 0) yield;
      if (flows.isIdentified(cidr)) continue;
      identities.set(cidr, identity);
      held.note(parseCidr(cidr), undefined, identity);
      if (areKnown && !after[direction].identities.has(cidr)) this.#lingering[direction].add(cidr);
    }
    const rows: RowsBefore = {
      identities: { get: (cidr) => before[direction].identities.get(cidr) ?? identities.get(cidr) },
      relations: new Layers(before[direction].relations, left.relations),
    };
    return {
      rows,
      held: {
        holdersOf: (identity: PeerIdentity) => flows.held.holdersOf(identity) + held.holdersOf(identity),
        prefixLengths: () => [...flows.held.prefixLengths(), ...held.prefixLengths()],
      },
    };
  }

  /** Adds rows for addresses without an owner. */
  withLingering<M extends FlowsMatrix | MatrixAfter>(
    matrix: M,
    change: PolicyChange,
  ): { readonly matrix: M; readonly change: PolicyChange } {
    const sizes = policyDirections.map((direction) => this.#lingering[direction].size + this.#released[direction].size);
    if (sizes.every((size) => size === 0)) return { matrix, change };
    return {
      matrix: {
        ...matrix,
        ingress: this.#rowsOf('ingress', matrix.ingress, change),
        egress: this.#rowsOf('egress', matrix.egress, change),
      },
      change: { subjects: change.subjects, ingress: this.#keysOf('ingress', change), egress: this.#keysOf('egress', change) },
    };
  }

  #rowsOf<R extends DirectionRows>(direction: PolicyDirection, rows: R, change: PolicyChange): R {
    const lingering = this.#lingering[direction];
    const lengths = lengthsOf(this.#directions[direction].held.prefixLengths(), change[direction].identities);
    const identities: RowsByKey<PeerIdentity> = {
      get: (cidr) => rows.identities.get(cidr) ?? (lingering.has(cidr) ? identityWithin(cidr, rows.identities, lengths) : undefined),
    };
    return { ...rows, identities };
  }

  #keysOf(direction: PolicyDirection, change: PolicyChange): DirectionKeys {
    const { identities, relations } = change[direction];
    return { identities: new Set([...identities, ...this.#lingering[direction], ...this.#released[direction]]), relations };
  }

  /** Notes that a round has processed the released addresses. */
  released(): void {
    for (const direction of policyDirections) this.#released[direction].clear();
  }

  /**
   * Notes that the rows of the previous agent are gone.
   *
   * @returns true if there are rows for addresses without an owner, which the next round removes
   */
  swept(): boolean {
    for (const direction of policyDirections) {
      this.#directions[direction].left.clear();
      for (const cidr of this.#lingering[direction]) this.#released[direction].add(cidr);
      this.#lingering[direction].clear();
    }
    return policyDirections.some((direction) => this.#released[direction].size > 0);
  }
}

function inheritedSubjectOf(classes: Readonly<Record<PolicyDirection, InheritedClasses | undefined>>): MatrixSubject {
  const own = policyDirections.flatMap((direction) => {
    const subject = classes[direction]?.networkPolicy;
    return subject ? [[direction, subject] as const] : [];
  });
  const cluster = policyDirections.map((direction) => {
    const { admin, baseline } = classes[direction] ?? {};
    return [direction, { ...(admin && { admin }), ...(baseline && { baseline }) }] as const;
  });
  return { addresses: [], ...Object.fromEntries(own), cluster: Object.fromEntries(cluster) };
}

/** Two layers of rows: those of the second count where the first has none. */
class Layers implements RowsByKey<PolicyDecision>, Iterable<readonly [string, PolicyDecision]> {
  readonly #first: ReadonlyMap<string, PolicyDecision>;
  readonly #then: ReadonlyMap<string, PolicyDecision>;

  constructor(first: ReadonlyMap<string, PolicyDecision>, then: ReadonlyMap<string, PolicyDecision>) {
    this.#first = first;
    this.#then = then;
  }

  get(key: string): PolicyDecision | undefined {
    return this.#first.get(key) ?? this.#then.get(key);
  }

  *[Symbol.iterator](): Generator<readonly [string, PolicyDecision]> {
    yield* this.#first;
    for (const row of this.#then) if (!this.#first.has(row[0])) yield row;
  }
}
