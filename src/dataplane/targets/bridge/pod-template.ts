import { type Family, ipFromBytes, ipToBytes } from '../../../base/net/ip.ts';
import { macFromBytes, macToBytes } from '../../../base/net/mac.ts';
import { nothing } from '../../desired/host-entries.ts';
import { type Owner, ownerOf } from '../../pipeline/cookie.ts';
import type { PodPattern, PodPlace } from '../../pipeline/flow-pattern.ts';
import { type BridgeKey, type BridgeValue, encodeBridgeEntries } from './bridge-entry.ts';
import { type EntryTemplate, entryTemplates, filledEntries } from './entry-template.ts';

type Families = readonly Family[];

/** Owner of the probe flows: the cookie is overwritten for each owner. */
const prober = ownerOf('node');

/** Bit by which the interface identifier that Linux derives from a MAC differs from it. Source: RFC 4291 appendix A. */
const turnedBit = 2;
/**
 * Positions of the variable bytes. Flipping the bit in a probe's byte gives the value two positions further: that is where the MAC's first
 * byte with its bit flipped is given.
 */
const at = { macFirst: 0, macFirstTurned: turnedBit, macSecond: 1, macRest: 3, ofPort: 7, ipv4: 11, ipv6: 15, end: 31 } as const;

/**
 * Encoder of pods' entries. Pods with addresses of the same families are encoded once, from the second pod on: a pattern may be used by a
 * single pod.
 */
export class PodTemplates {
  /** Templates by pattern and families, kept as long as the pattern is in use. */
  readonly #known = new WeakMap<PodPattern, Map<string, readonly EntryTemplate[] | 'one pod'>>();
  readonly #given = new Uint8Array(at.end);

  /**
   * Returns the same entries as `encodeBridgeEntries` for the flows of the pod.
   *
   * @throws SeineError `INVARIANT` if the flows of the pattern differ by more than the place
   */
  entriesOf(owner: Owner, pattern: PodPattern, place: PodPlace): ReadonlyMap<BridgeKey, BridgeValue> {
    const templates = this.#templatesOf(pattern, place);
    if (templates === 'one pod') return encodeBridgeEntries(owner, { ...nothing, flows: pattern(place) });
    const given = this.#given;
    write(given, place);
    return filledEntries(templates, owner, given);
  }

  #templatesOf(pattern: PodPattern, { addresses }: PodPlace): readonly EntryTemplate[] | 'one pod' {
    const families = addresses.map(({ family }) => family);
    const byFamilies = this.#known.get(pattern) ?? new Map<string, readonly EntryTemplate[] | 'one pod'>();
    const known = byFamilies.get(families.join());
    if (known !== undefined && known !== 'one pod') return known;
    const made = known === undefined ? 'one pod' : templatesOf(pattern, families);
    this.#known.set(pattern, byFamilies.set(families.join(), made));
    return made;
  }
}

function templatesOf(pattern: PodPattern, families: Families): readonly EntryTemplate[] {
  return entryTemplates(at.end, (bytes) => encodeBridgeEntries(prober, { ...nothing, flows: pattern(placeOf(bytes, families)) }));
}

function write(given: Uint8Array, { ofPort, mac, addresses }: PodPlace): void {
  const [first = 0, second = 0, ...rest] = macToBytes(mac);
  given[at.macFirst] = first;
  given[at.macFirstTurned] = first ^ turnedBit;
  given[at.macSecond] = second;
  given.set(rest, at.macRest);
  new DataView(given.buffer).setUint32(at.ofPort, ofPort);
  for (const ip of addresses) given.set(ipToBytes(ip), at[ip.family]);
}

/** Returns the place of a probe from its variable bytes; flipping the bit gives the byte two positions further. */
function placeOf(given: Uint8Array, families: Families): PodPlace {
  const mac = [given[at.macFirst] ?? 0, given[at.macSecond] ?? 0, ...given.subarray(at.macRest, at.ofPort)];
  const bytes = { ipv4: given.subarray(at.ipv4, at.ipv6), ipv6: given.subarray(at.ipv6, at.end) };
  return {
    ofPort: new DataView(given.buffer).getUint32(at.ofPort),
    mac: macFromBytes(Uint8Array.from(mac)),
    addresses: families.map((family) => ipFromBytes(bytes[family])),
  };
}
