import { digests } from '../../base/bytes/digest.ts';
import { type Owner, ownerOf } from '../../dataplane/pipeline/cookie.ts';
import type {
  DecidedRange,
  PeerClass,
  PolicyDecision,
  PolicyDirection,
  PolicyOutcome,
  PolicyTier,
  SubjectClass,
} from '../matrix/matrix.ts';
import { verdictText } from '../matrix/verdict-text.ts';
import { addressRows } from './address-rows.ts';

/**
 * Names of contents, and of rows by their numbers. Equal contents have the same name in every agent and after every start. Users who write
 * policies cannot find two contents with the same name: a number of one content must not come to stand for another one.
 */
export class ContentNames {
  readonly #direction: PolicyDirection;
  readonly #known = new WeakMap<object, string>();
  /** Names of peer classes, cached because each is needed for every address of the class. */
  readonly #peers = { coarse: new WeakMap<PeerClass, Owner>(), fine: new WeakMap<PeerClass, Owner>() };
  readonly #addresses: string;
  readonly #ports: string;

  constructor(direction: PolicyDirection) {
    this.#direction = direction;
    this.#addresses = addressRows[direction].owners;
    this.#ports = this.#owner('ports', '');
  }

  class(subject: SubjectClass): Owner {
    return this.#owner(
      'class',
      this.#hash(subject, () => subject.text),
    );
  }

  coarse(peers: PeerClass): Owner {
    return this.#peersOwner('coarse', peers);
  }

  fine(peers: PeerClass): Owner {
    return this.#peersOwner('fine', peers);
  }

  decision(decision: PolicyDecision): Owner {
    return this.#owner(
      'decision',
      ...tierPath(decision.tier),
      this.#hash(decision, () => decisionContent(decision)),
    );
  }

  /**
   * Name of a row that matches numbers; other rows name the contents of these numbers.
   *
   * @param outcome outcome of a row that sets a verdict itself: its counters are attributed to this rule
   */
  relation(numbers: readonly number[], outcome?: PolicyOutcome, tier?: PolicyTier): Owner {
    return this.#owner('relation', ...tierPath(tier), ...numbers.map(String), ...(outcome ? [this.outcome(outcome)] : []));
  }

  /** Name of a transition row: it gives the contents of its numbers another decision than they have by themselves. */
  passing(numbers: readonly number[], tier?: PolicyTier): Owner {
    return this.#owner('passing', ...tierPath(tier), ...numbers.map(String));
  }

  /** Name of a port range of a decision; it includes the decision's number. */
  range(decision: number, { protocol, first, last, outcome }: DecidedRange): Owner {
    return `${this.#ports}${decision}/${protocol}/${first}-${last}/${this.outcome(outcome)}` as Owner;
  }

  /** Text of an outcome: the rule if there is exactly one, else a hash. */
  outcome(outcome: PolicyOutcome): string {
    const [only, ...others] = outcome.by;
    if (only !== undefined && others.length === 0) return `${verdictText(outcome)} ${only}`;
    return this.#hash(outcome, () => JSON.stringify(outcomeContent(outcome)));
  }

  address(cidr: string): Owner {
    return `${this.#addresses}${cidr}` as Owner;
  }

  #peersOwner(kind: 'coarse' | 'fine', peers: PeerClass): Owner {
    const known = this.#peers[kind].get(peers);
    if (known !== undefined) return known;
    const owner = this.#owner(
      kind,
      this.#hash(peers, () => JSON.stringify(peers.terms)),
    );
    this.#peers[kind].set(peers, owner);
    return owner;
  }

  #owner(...path: readonly string[]): Owner {
    return ownerOf('policy', this.#direction, ...path);
  }

  /** Cached by object: equal contents are mostly one object, whose text may be long. */
  #hash(of: object, text: () => string): string {
    const known = this.#known.get(of);
    if (known !== undefined) return known;
    const hash = digests.base64url(text()).slice(0, 20);
    this.#known.set(of, hash);
    return hash;
  }
}

/** Part of a name that tells tiers of cluster policies apart, whose numbers are allocated separately. */
function tierPath(tier: PolicyTier | undefined): readonly string[] {
  return tier === undefined || tier === 'networkPolicy' ? [] : [tier];
}

function decisionContent({ ranges, otherwise }: PolicyDecision): string {
  return JSON.stringify([
    ranges.map(({ protocol, first, last, outcome }) => [protocol, first, last, outcomeContent(outcome)]),
    outcomeContent(otherwise),
  ]);
}

function outcomeContent(outcome: PolicyOutcome): readonly unknown[] {
  return [verdictText(outcome), outcome.by];
}
