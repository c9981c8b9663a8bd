import { readFileSync } from 'node:fs';
import type { Family } from '../../base/net/ip.ts';
import { errnoOf } from '../errno.ts';
import { familyNumber } from '../kernel-values.ts';
import { SOCK_RAW, SOL_IPV6 } from '../sockets/socket-address.ts';
import { getSocketOption, littleEndian, socket } from '../sys.ts';

/*
 * The tables of iptables from before nftables, which nftables does not show. Source: linux/netfilter_ipv4/ip_tables.h,
 * linux/netfilter_ipv6/ip6_tables.h, linux/netfilter/x_tables.h; the same numbers on every architecture.
 */

const SOL_IP = 0;
const IPPROTO_RAW = 255;
const IPT_SO_GET_INFO = 64;
const IPT_SO_GET_ENTRIES = 65;
const XT_TABLE_MAXNAMELEN = 32;
/** `struct ipt_getinfo`: name · u32 hooks · 5 × u32 entries · 5 × u32 underflows · u32 number · u32 size */
const INFO_BYTES = 84;
const SIZE_AT = 80;
/** `struct ipt_get_entries`: name · u32 size · 4 bytes of padding · the entries */
const ENTRIES_AT = 40;
/** A chain begins with an entry with the target `ERROR`, whose data is the chain’s name. */
const TARGET_NAME = Buffer.from('ERROR\0');
const TARGET_NAME_BEFORE = 30;

/** Maximum size of a table that is read: tens of thousands of rules take the kernel, and us, too long. */
const TABLE_BYTES_MAX = 4 * 1024 * 1024;

const families = {
  ipv4: { level: SOL_IP, names: '/proc/net/ip_tables_names' },
  ipv6: { level: SOL_IPV6, names: '/proc/net/ip6_tables_names' },
} as const;

/** Tables of the caller's network namespace. */
export interface LegacyIptables {
  tables(family: Family): readonly string[];
  hasChain(family: Family, table: string, chain: string): boolean;
}

export const legacyIptables: LegacyIptables = { tables: legacyTables, hasChain: hasLegacyChain };

/** Lists the existing tables. A request for a table that does not exist would create it. */
function legacyTables(family: Family): readonly string[] {
  return tableNamesIn(families[family].names);
}

/** Reads the kernel's list. A kernel that has not loaded the module has no list; without the right to read it, the list is empty. */
export function tableNamesIn(file: string): readonly string[] {
  try {
    return readFileSync(file, 'utf8').split('\n').filter(Boolean);
  } catch (thrown) {
    if (thrown instanceof Error && 'code' in thrown && ['ENOENT', 'EACCES', 'EPERM'].includes(String(thrown.code))) return [];
    throw thrown;
  }
}

/** Reports whether an existing table has a chain of that name; false also for a table that is too large to be read. */
function hasLegacyChain(family: Family, table: string, chain: string): boolean {
  const { level } = families[family];
  const fd = socket(familyNumber[family], SOCK_RAW, IPPROTO_RAW, 'raw socket');
  try {
    const named = Buffer.alloc(INFO_BYTES);
    named.write(table, 0, XT_TABLE_MAXNAMELEN - 1, 'latin1');
    const info = getSocketOption(fd.number, level, IPT_SO_GET_INFO, named);
    const size = new DataView(info.buffer, info.byteOffset, info.length).getUint32(SIZE_AT, littleEndian);
    if (size > TABLE_BYTES_MAX) return false;
    const wanted = Buffer.alloc(ENTRIES_AT + size);
    wanted.write(table, 0, XT_TABLE_MAXNAMELEN - 1, 'latin1');
    new DataView(wanted.buffer, wanted.byteOffset).setUint32(XT_TABLE_MAXNAMELEN, size, littleEndian);
    return beginsChain(Buffer.from(getSocketOption(fd.number, level, IPT_SO_GET_ENTRIES, wanted)), chain);
  } catch (thrown) {
    // It has grown since, or was deleted; the next check sees it.
    if (['EAGAIN', 'ENOENT', 'EINVAL', 'ENOPROTOOPT'].includes(errnoOf(thrown) ?? '')) return false;
    throw thrown;
  } finally {
    fd.close();
  }
}

function beginsChain(entries: Buffer, chain: string): boolean {
  const name = Buffer.from(`${chain}\0`, 'latin1');
  for (let at = entries.indexOf(name); at >= 0; at = entries.indexOf(name, at + 1)) {
    const target = at - TARGET_NAME_BEFORE;
    if (target >= 0 && entries.subarray(target, target + TARGET_NAME.length).equals(TARGET_NAME)) return true;
  }
  return false;
}
