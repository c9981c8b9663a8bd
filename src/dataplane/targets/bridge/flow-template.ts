import { addressBits, type Family, ipFromBytes } from '../../../base/net/ip.ts';
import { nothing } from '../../desired/host-entries.ts';
import { type Owner, ownerOf } from '../../pipeline/cookie.ts';
import type { TransportAddress } from '../../pipeline/flow.ts';
import type { FlowPattern } from '../../pipeline/flow-pattern.ts';
import { type BridgeKey, type BridgeValue, encodeBridgeEntries } from './bridge-entry.ts';
import { type EntryTemplate, entryTemplates, filledEntries } from './entry-template.ts';

/** Owner of the probe flows: the cookie is overwritten for each owner. */
const prober = ownerOf('node');

/** Encoder of bridge entries from patterns, each of which is encoded once. */
export class FlowTemplates {
  /** Templates by pattern and family, kept as long as the pattern is in use. */
  readonly #known = new WeakMap<FlowPattern, Map<Family, readonly EntryTemplate[]>>();
  /** Bytes of the address, then two of the port. */
  readonly #endpoint = new Uint8Array(18);
  readonly #view = new DataView(this.#endpoint.buffer);

  /**
   * Returns the same entries as `encodeBridgeEntries` for the flows of one endpoint.
   *
   * @throws SeineError `INVARIANT` if the flows of the pattern differ by more than their endpoint
   */
  entriesOf(owner: Owner, pattern: FlowPattern, endpoint: TransportAddress): ReadonlyMap<BridgeKey, BridgeValue> {
    this.#load(endpoint);
    return filledEntries(this.#templatesOf(pattern, endpoint.ip.family), owner, this.#endpoint);
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
  const given = addressBits(family) / 8 + 2;
  return entryTemplates(given, (bytes) => {
    const [ip, port] = [ipFromBytes(bytes.subarray(0, -2)), new DataView(bytes.buffer).getUint16(given - 2)];
    return encodeBridgeEntries(prober, { ...nothing, flows: pattern({ ip, port }) });
  });
}
