import { fnv1aOf } from './fnv-1a.ts';
/**
 * Generation of the pipeline's layout. Incremented when tables or registers move, so that a dump shows which version of the agent wrote a
 * flow.
 */
export const generation = 1;

/** Purpose of a flow. Numbers are in cookies on live bridges: add new ones, never reuse one. */
export const features = {
  node: 1,
  peer: 2,
  pod: 3,
  service: 4,
  endpoint: 5,
  policy: 6,
  subject: 7,
  probe: 8,
  flowLog: 9,
  learned: 255,
} as const;
type Feature = keyof typeof features;

/** Owner as a string, `feature` or `feature/…`: `node`, `peer/worker-1`, `pod/default/web-0/eth0@4f5e…`, `service/default/web:http`. */
export type Owner = string & { readonly brand: 'Owner' };

export function ownerOf(feature: Feature, ...path: readonly string[]): Owner {
  return [feature, ...path].join('/') as Owner;
}

const featureNames = new Map<number, Feature>((Object.keys(features) as Feature[]).map((name) => [features[name], name]));

/**
 * Returns the 64-bit cookie of everything that `owner` wants: generation 16, feature 8, hash of the owner's name 40 bits. Cookies are for
 * operators, dumps and removal by mask; they do not identify a flow.
 */
export function cookieOf(owner: Owner): bigint {
  const { high, low } = cookieWords(owner);
  return (BigInt(high) << 32n) | BigInt(low);
}

interface CookieWords {
  readonly high: number;
  readonly low: number;
}

/** Returns the two halves of `cookieOf` as numbers, which are cheaper: there are many owners. */
export function cookieWords(owner: Owner): CookieWords {
  return wordsOf(featureNumber(owner), hashStateOf(owner));
}

/**
 * Returns `cookieWords` for owners with a common beginning, as a function of the rest: there may be a hundred thousand of a kind. @param
 * beginning with its feature and a slash
 */
export function cookieWordsAfter(beginning: string): (rest: string) => CookieWords {
  const [feature, state] = [featureNumber(beginning), hashStateOf(beginning)];
  return (rest) => wordsOf(feature, hashStateOf(rest, state));
}

function featureNumber(owner: string): number {
  const slash = owner.indexOf('/');
  return features[(slash < 0 ? owner : owner.slice(0, slash)) as Feature] ?? 0;
}

function wordsOf(feature: number, state: HashState): CookieWords {
  const { first, last } = folded(state);
  return { high: (generation << 16) | (feature << 8) | (first >>> 24), low: ((first << 8) | last) >>> 0 };
}

/** Returns the feature that a cookie names, if it is one of Seine's. */
export function cookieFeature(cookie: bigint): Feature | undefined {
  return featureNames.get(Number((cookie >> 40n) & 0xffn));
}

/** Cookie of flows that OVS itself adds by `learn`; no owner wants them individually, but a desired step declares them (`LearnStep`). */
export const learnedCookie: bigint = (BigInt(generation) << 48n) | (BigInt(features.learned) << 40n);

/** Mask of the part of a cookie that all learned flows have in common. */
export const learnedCookieMask = 0xffff_ff00_0000_0000n;

/** Like `learnedCookie`, for flows learned for one owner: they can be found and counted by their cookie. */
export function learnedCookieOf(owner: Owner): bigint {
  const { first, last } = hash40(owner);
  return learnedCookie | (BigInt(first) << 8n) | BigInt(last);
}

/** Numbers of shares of learned SCTP associations: the last byte of the address for a local pod, the last six bits for any other sender. */
export const associationShares = { pods: 256, others: 64 } as const;

/** Returns the cookie of the associations in one share. Open vSwitch limits learned flows by their cookie. */
export function associationCookieOf(share: number): bigint {
  return learnedCookie | BigInt(associationNumberOf(share));
}

/** Returns the last 32 bits of the cookie of a share. */
export function associationNumberOf(share: number): number {
  return share + 1;
}

/** Reverse of `associationNumberOf`. */
export function shareOfNumber(number: number): number {
  return number - 1;
}

/** Returns the share of a learned association from its cookie; undefined for any other learned flow. */
export function associationShareOf(cookie: bigint): number | undefined {
  const share = Number(cookie - learnedCookie) - 1;
  return share >= 0 && share < associationShares.pods + associationShares.others ? share : undefined;
}

/**
 * Cookie of flows with which root opens a pod while no agent runs (see docs/troubleshooting.md). It belongs to no owner: no name hashes to
 * it.
 */
export const operatorOverrideCookie: bigint = (BigInt(generation) << 48n) | (254n << 40n);

/**
 * Reports whether a flow has the cookie of a learned flow. Other programs can write such a cookie: `LearnedFlows` reports whether a desired
 * step creates the flow.
 */
export function isLearned(cookie: bigint): boolean {
  return ((cookie >> 40n) & 0xffn) === BigInt(features.learned);
}

/**
 * Returns the number that identifies another node's packets on the bridge: 32 bits, the same in every agent and after every start. Two
 * nodes with one number could send as each other's pods; with 5,000 nodes that happens in one cluster of three hundred.
 */
export function peerNumber(name: string): number {
  return hash40(ownerOf('peer', name)).first;
}

/** Like `peerNumber`, for a tunnel address that several nodes share. @param address canonical text */
export function tunnelNumber(address: string): number {
  return hash40(ownerOf('peer', 'tunnel', address)).first;
}

/** FNV-1a and a second 32-bit hash over the same characters. */
interface HashState {
  readonly first: number;
  readonly second: number;
  readonly length: number;
}

function hashStateOf(text: string, before?: HashState): HashState {
  const begin = before?.length ?? 0;
  let second = before?.second ?? 0x01000193;
  for (let at = 0; at < text.length; at++) second = Math.imul(second ^ (text.charCodeAt(at) + begin + at), 0x85ebca6b) >>> 0;
  return { first: fnv1aOf(text, before?.first), second, length: begin + text.length };
}

/** Folds to 40 bits: the first 32, and the last 8. */
function folded({ first, second }: HashState): { readonly first: number; readonly last: number } {
  return { first, last: (second ^ (second >>> 16)) & 0xff };
}

function hash40(text: string): { readonly first: number; readonly last: number } {
  return folded(hashStateOf(text));
}
