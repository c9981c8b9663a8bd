import { SeineError } from '../errors/seine-error.ts';
import { addressBits, type Family, ipFromBytes } from '../net/ip.ts';
import { cookieWords, type Owner, ownerOf } from '../pipeline/cookie.ts';
import type { FlowPattern, TransportAddress } from '../pipeline/flow-pattern.ts';
import { nothing } from '../wanted/wanted.ts';
import { type BridgeKey, type BridgeValue, encodeBridgeEntries } from './bridge-entry.ts';

/** Encoded octets, some of which hold an endpoint's address or port. */
interface ByteTemplate {
  readonly octets: Buffer;
  /** Which octet of the endpoint goes to which offset: those of the address, then two of the port. */
  readonly patchOffsets: readonly number[];
}

interface EntryTemplate {
  readonly key: ByteTemplate;
  readonly value: ByteTemplate;
}

/** Owner of the probe flows: the cookie is written anew for each owner. */
const prober = ownerOf('node');

/**
 * Bridge entries from patterns. The offsets of address and port are found by encoding two endpoints that differ in
 * every octet; a third endpoint verifies them.
 */
export class FlowTemplates {
  /** For as long as somebody keeps the pattern. */
  readonly #known = new WeakMap<FlowPattern, Map<Family, readonly EntryTemplate[]>>();
  readonly #endpoint = new Uint8Array(18);
  readonly #view = new DataView(this.#endpoint.buffer);

  /**
   * The same entries that `encodeBridgeEntries` gives for the flows of one endpoint.
   *
   * @throws SeineError `INVARIANT` if the flows of the pattern differ by more than their endpoint
   */
  entriesOf(owner: Owner, pattern: FlowPattern, endpoint: TransportAddress): ReadonlyMap<BridgeKey, BridgeValue> {
    this.#load(endpoint);
    const { high, low } = cookieWords(owner);
    const entries = new Map<BridgeKey, BridgeValue>();
    for (const { key, value } of this.#templatesOf(pattern, endpoint.ip.family)) {
      value.octets.writeUInt32BE(high, 0);
      value.octets.writeUInt32BE(low, 4);
      entries.set(this.#fill(key) as BridgeKey, this.#fill(value) as BridgeValue);
    }
    return entries;
  }

  #fill({ octets, patchOffsets }: ByteTemplate): string {
    for (let at = 0; at < patchOffsets.length; at += 2) octets[patchOffsets[at] ?? 0] = this.#endpoint[patchOffsets[at + 1] ?? 0] ?? 0;
    return octets.toString('latin1');
  }

  #load({ ip: { family, value }, port }: TransportAddress): void {
    if (family === 'ipv4') this.#view.setUint32(0, Number(value));
    else {
      this.#view.setBigUint64(0, value >> 64n);
      this.#view.setBigUint64(8, BigInt.asUintN(64, value));
    }
    this.#view.setUint16(addressBits(family) / 8, port);
  }

  #templatesOf(pattern: FlowPattern, family: Family): readonly EntryTemplate[] {
    const known = this.#known.get(pattern)?.get(family);
    if (known) return known;
    const made = templatesOf(pattern, family);
    const byFamily = this.#known.get(pattern) ?? new Map<Family, readonly EntryTemplate[]>();
    this.#known.set(pattern, byFamily.set(family, made));
    return made;
  }
}

function templatesOf(pattern: FlowPattern, family: Family): readonly EntryTemplate[] {
  const [first, second, third] = [0x10, 0x40, 0xa0].map((base) => encodedAt(pattern, family, base));
  if (!first || !second || !third) throw new SeineError('INVARIANT', 'three probes');
  return first.map(([key, value], at) => {
    const others = [second[at], third[at]] as const;
    const template = {
      key: byteTemplateOf(family, [key, others[0]?.[0], others[1]?.[0]]),
      value: byteTemplateOf(family, [value, others[0]?.[1], others[1]?.[1]]),
    };
    return template;
  });
}

/** The endpoint whose octets are `base`, `base + 1` and so on: no other octet of an entry differs by as much between two of them. */
function encodedAt(pattern: FlowPattern, family: Family, base: number): readonly (readonly [BridgeKey, BridgeValue])[] {
  const octets = Uint8Array.from({ length: endpointOctets(family) }, (_, at) => base + at);
  const ip = ipFromBytes(octets.subarray(0, -2));
  const port = ((octets.at(-2) ?? 0) << 8) | (octets.at(-1) ?? 0);
  return [...encodeBridgeEntries(prober, { ...nothing, flows: pattern({ ip, port }) })];
}

function byteTemplateOf(family: Family, [first, second, third]: readonly [string, string | undefined, string | undefined]): ByteTemplate {
  if (second?.length !== first.length || third?.length !== first.length) throw misfit('their lengths differ');
  const patchOffsets: number[] = [];
  for (let at = 0; at < first.length; at++) {
    const [a, b, c] = [first.charCodeAt(at), second.charCodeAt(at), third.charCodeAt(at)];
    if (a === b && b === c) continue;
    const which = a - 0x10;
    if (which < 0 || which >= endpointOctets(family) || b !== which + 0x40 || c !== which + 0xa0)
      throw misfit(`octet ${at} is not part of an endpoint`);
    patchOffsets.push(at, which);
  }
  return { octets: Buffer.from(first, 'latin1'), patchOffsets: patchOffsets };
}

function endpointOctets(family: Family): number {
  return addressBits(family) / 8 + 2;
}

function misfit(why: string): SeineError {
  return new SeineError('INVARIANT', `flows of one pattern differ by more than their endpoint: ${why}`);
}
