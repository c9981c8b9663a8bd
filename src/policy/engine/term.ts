import { blockUnion, type PeerBlock, unionText } from './identities/block-union.ts';
import { type Selector, selectorText } from './selector.ts';

/** Peer of a rule: a set of addresses and how it is selected. Equivalent peers of two rules share one term. */
export type Term = PodsTerm | AnyPodTerm | UnknownPodTerm | NodesTerm | BlockTerm;

export interface PodsTerm {
  readonly is: 'pods';
  readonly text: string;
  /** One namespace by name, or all namespaces that the selector matches. */
  readonly namespaces: string | Selector;
  readonly pods: Selector;
  /** Name of a port, such as `http/TCP`: selects only pods that have a port of this name. Its number is part of the holding. */
  readonly portName?: string;
}

/** Every pod of the cluster, including pods that are not known yet: addresses of pod networks that do not belong to a node. */
interface AnyPodTerm {
  readonly is: 'any pod';
  readonly text: 'any pod';
}

/** Pods that are not known: addresses of pod networks without a known pod or node, and pods of namespaces that are not known. */
interface UnknownPodTerm {
  readonly is: 'unknown pod';
  readonly text: 'unknown pod';
}

/** Addresses of the nodes with these labels, and their gateway addresses. */
interface NodesTerm {
  readonly is: 'nodes';
  readonly text: string;
  readonly nodes: Selector;
}

/** All networks that one rule names. */
export interface BlockTerm {
  readonly is: 'block';
  readonly text: string;
  /** Disjoint blocks, as returned by `blockUnion`. */
  readonly blocks: readonly PeerBlock[];
}

export const anyPod: AnyPodTerm = { is: 'any pod', text: 'any pod' };
export const unknownPod: UnknownPodTerm = { is: 'unknown pod', text: 'unknown pod' };

export function nodesTerm(nodes: Selector): NodesTerm {
  return { is: 'nodes', text: `nodes where ${selectorText(nodes)}`, nodes };
}

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

/** Makes the term of blocks. @returns undefined if their exceptions leave nothing */
export function blockTerm(blocks: readonly PeerBlock[]): BlockTerm | undefined {
  const union = blockUnion(blocks);
  return union.length === 0 ? undefined : { is: 'block', text: unionText(union), blocks: union };
}

/** Reports whether a term selects by namespace only. Such terms make the coarse part of an identity, the others the fine part. */
export function isWide(term: Term): boolean {
  return term.is !== 'pods' || (term.pods.length === 0 && term.portName === undefined);
}
