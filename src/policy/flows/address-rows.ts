import { addressBits, type Cidr, hostCidr } from '../../base/net/ip.ts';
import type { Owner } from '../../dataplane/pipeline/cookie.ts';
import { ownerOf } from '../../dataplane/pipeline/cookie.ts';
import type { Flow } from '../../dataplane/pipeline/flow.ts';
import type { NumberedRow, NumberedRows } from '../../dataplane/pipeline/flow-pattern.ts';
import type { PolicyDirection } from '../matrix/matrix.ts';
import { addressFlow, directionTables, type IdentityNumbers, identityOf } from './rows.ts';

/** Rows from address to identity, in each direction. */
export const addressRows: Readonly<Record<PolicyDirection, NumberedRows>> = { ingress: rowsOf('ingress'), egress: rowsOf('egress') };

/** Makes the row of a network or of one address. The compact form is for single addresses, of which there are many. */
export function addressRow(direction: PolicyDirection, cidr: Cidr, numbers: IdentityNumbers): NumberedRow | readonly Flow[] {
  const identity = identityOf(directionTables[direction], numbers);
  if (cidr.prefixLength < addressBits(cidr.family)) return [addressFlow(directionTables[direction], cidr, identity)];
  return { rows: addressRows[direction], ip: cidr.network, number: identity.value };
}

function rowsOf(direction: PolicyDirection): NumberedRows {
  const tables = directionTables[direction];
  const identity = identityOf(tables, { coarse: 0, fine: 0 });
  return {
    owners: ownerOf('policy', direction, 'address', ''),
    flowOf: (ip, number) => addressFlow(tables, hostCidr(ip), { ...identity, value: number }),
  };
}

/** Sorts owners by prefix length, the longest first. @param addresses by owner, whose name ends with the prefix length */
export function longestFirst<V>(addresses: ReadonlyMap<Owner, V>): ReadonlyMap<Owner, V> {
  const byLength = Map.groupBy(addresses, ([owner]) => Number(owner.slice(owner.lastIndexOf('/') + 1)));
  if (byLength.size <= 1) return addresses;
  return new Map([...byLength].sort(([a], [b]) => b - a).flatMap(([, all]) => all));
}
