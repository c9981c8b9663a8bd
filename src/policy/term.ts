import { type Cidr, cidrContains } from '../net/ip.ts';
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

export interface BlockTerm {
  readonly is: 'block';
  readonly text: string;
  readonly cidr: Cidr;
  /** All within `cidr`, none within another. */
  readonly except: readonly Cidr[];
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

/** @returns undefined if an except takes all of it away */
export function blockTerm(cidr: Cidr, excepted: readonly Cidr[]): BlockTerm | undefined {
  if (excepted.some((each) => isWithin(cidr, each))) return undefined;
  const except: Cidr[] = [];
  // Whatever lies in another one comes behind it.
  for (const each of excepted.toSorted(byAddress)) {
    const last = except.at(-1);
    if (isWithin(each, cidr) && !(last && isWithin(each, last))) except.push(each);
  }
  return { is: 'block', text: ['block', cidr.text, ...except.map(({ text }) => `-${text}`)].join(' '), cidr, except };
}

function isWithin(inner: Cidr, outer: Cidr): boolean {
  return inner.prefixLength >= outer.prefixLength && cidrContains(outer, inner.network);
}

/** Larger networks first where both begin with one address. */
export function byAddress(a: Cidr, b: Cidr): number {
  if (a.network.value === b.network.value) return a.prefixLength - b.prefixLength;
  return a.network.value < b.network.value ? -1 : 1;
}

/** Terms that look no further than a pod's namespace make the coarse part of an identity, the others the fine part. */
export function isWide(term: Term): boolean {
  return term.is !== 'pods' || (term.pods.length === 0 && term.portName === undefined);
}
