import { blockUnion, type PeerBlock, unionText } from './identities/block-union.ts';
import { type Selector, selectorText } from './selector.ts';

/** One peer of a rule: a set of addresses, by what it is told with. Two rules that say the same share one term. */
export type Term = PodsTerm | AnyPodTerm | BlockTerm;

export interface PodsTerm {
  readonly is: 'pods';
  readonly text: string;
  /** One namespace by name, or all that the selector matches. */
  readonly namespaces: string | Selector;
  readonly pods: Selector;
  /** `http/TCP`: only pods that have a port of that name; the port is part of what the term says of an address. */
  readonly portName?: string;
}

/** Every pod of the cluster, also those that are not known yet: addresses of pod networks that are no node's. */
interface AnyPodTerm {
  readonly is: 'any pod';
  readonly text: 'any pod';
}

/** All networks that one rule names. */
export interface BlockTerm {
  readonly is: 'block';
  readonly text: string;
  /** As of `blockUnion`. */
  readonly blocks: readonly PeerBlock[];
}

export const anyPod: AnyPodTerm = { is: 'any pod', text: 'any pod' };

export function podsTerm(namespaces: string | Selector, pods: Selector, portName?: string): PodsTerm {
  const where = typeof namespaces === 'string' ? `of ${JSON.stringify(namespaces)}` : `where ${selectorText(namespaces)}`;
  const port = portName === undefined ? '' : ` with ${JSON.stringify(portName)}`;
  return {
    is: 'pods',
    text: `pods ${where}: ${selectorText(pods)}${port}`,
    namespaces,
    pods,
    ...(portName === undefined ? {} : { portName }),
  };
}

/** @returns undefined if exceptions leave nothing of them */
export function blockTerm(blocks: readonly PeerBlock[]): BlockTerm | undefined {
  const union = blockUnion(blocks);
  return union.length === 0 ? undefined : { is: 'block', text: unionText(union), blocks: union };
}

/** Terms that look no further than a pod's namespace make the coarse part of an identity, the others the fine part. */
export function isWide(term: Term): boolean {
  return term.is !== 'pods' || (term.pods.length === 0 && term.portName === undefined);
}
