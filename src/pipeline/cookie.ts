/** Shape of the pipeline. Grows when tables or registers move, so that a dump shows which agent wrote a flow. */
export const generation = 1;

/** What a flow is for. Numbers are in cookies on live switches: added to, never re-used. */
export const features = { node: 1, peer: 2, pod: 3, service: 4, endpoint: 5, policy: 6, learned: 255 } as const;
export type Feature = keyof typeof features;

/** An owner as a text, `feature` or `feature/…`: `node`, `peer/worker-1`, `pod/default/web-0/eth0@4f5e…`, `service/default/web:http`. */
export type Owner = string & { readonly brand: 'Owner' };

export function ownerOf(feature: Feature, ...path: readonly string[]): Owner {
  return [feature, ...path].join('/') as Owner;
}

const featureNames = new Map<number, Feature>((Object.keys(features) as Feature[]).map((name) => [features[name], name]));

/**
 * The 64-bit cookie of everything `owner` asks for: generation 16, feature 8, hash of the owner's name 40 bits. Cookies
 * are for people, dumps and sweeps by mask; they do not identify a flow.
 */
export function cookieOf(owner: Owner): bigint {
  const { high, low } = cookieWords(owner);
  return (BigInt(high) << 32n) | BigInt(low);
}

/** The two halves of `cookieOf`: numbers, for there are many owners. */
export function cookieWords(owner: Owner): { readonly high: number; readonly low: number } {
  const slash = owner.indexOf('/');
  const feature = slash < 0 ? owner : owner.slice(0, slash);
  const { first, last } = hash40(owner);
  return { high: (generation << 16) | ((features[feature as Feature] ?? 0) << 8) | (first >>> 24), low: ((first << 8) | last) >>> 0 };
}

/** The feature a cookie names, if it is one of ours at all. */
export function cookieFeature(cookie: bigint): Feature | undefined {
  return featureNames.get(Number((cookie >> 40n) & 0xffn));
}

/** Flows that the switch itself adds by `learn`; nobody wants them one by one, so they are neither compared nor swept. */
export const learnedCookie: bigint = (BigInt(generation) << 48n) | (BigInt(features.learned) << 40n);

/** As `learnedCookie`, for what is learned for one owner: its flows can be found, and counted, by their cookie. */
export function learnedCookieOf(owner: Owner): bigint {
  const { first, last } = hash40(owner);
  return learnedCookie | (BigInt(first) << 8n) | BigInt(last);
}

export function isLearned(cookie: bigint): boolean {
  return ((cookie >> 40n) & 0xffn) === BigInt(features.learned);
}

/**
 * What a packet of another node is known by on the bridge: 32 bits, the same in every agent and after every start. Two nodes of one
 * number could send as each other's pods; among 5,000 nodes there are such two in one cluster of three hundred.
 */
export function peerNumber(name: string): number {
  return hash40(ownerOf('peer', name)).first;
}

/** As `peerNumber`, for a tunnel address of several nodes. @param address canonical text */
export function tunnelNumber(address: string): number {
  return hash40(ownerOf('peer', 'tunnel', address)).first;
}

/** FNV-1a over UTF-16 code units, two 32-bit lanes folded to 40 bits: the first 32 of them, and the last 8. */
function hash40(text: string): { readonly first: number; readonly last: number } {
  let a = 0x811c9dc5;
  let b = 0x01000193;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    a = Math.imul(a ^ unit, 0x01000193) >>> 0;
    b = Math.imul(b ^ (unit + at), 0x85ebca6b) >>> 0;
  }
  return { first: a, last: (b ^ (b >>> 16)) & 0xff };
}
