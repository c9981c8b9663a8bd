import { addressBits, type Ip, ipToBytes } from '../net/ip.ts';
import { familyNumber } from './kernel-values.ts';
import { type Batch, flag } from './message.ts';
import { ourProtocol } from './routes.ts';

/** A rule of the routing policy: packets from this one address are looked up in `table`, at `priority` (0 to 32765 come before the main table). */
interface NewRule {
  readonly source: Ip;
  readonly table: number;
  readonly priority: number;
}

/** Fails with `EEXIST` if there is the same one. Source: `struct fib_rule_hdr`, `FRA_*` (linux/fib_rules.h). */
export function addRule(batch: Batch, { source, table, priority }: NewRule): void {
  batch.message(RTM_NEWRULE, flag.create | flag.exclusive, `add rule for packets from ${source.text}`, () => {
    // u8 family · destination length · source length · TOS · table · 2 reserved · action, u32 flags
    batch.u8(familyNumber[source.family]).u8(0).u8(addressBits(source.family)).u8(0);
    batch.u8(0).u8(0).u8(0).u8(FR_ACT_TO_TBL).u32(0);
    batch.attribute(FRA_SRC, ipToBytes(source)).attributeU32(FRA_PRIORITY, priority).attributeU32(FRA_TABLE, table);
    batch.attributeU8(FRA_PROTOCOL, ourProtocol);
  });
}

const RTM_NEWRULE = 32;
const FR_ACT_TO_TBL = 1;
const FRA_SRC = 2;
const FRA_PRIORITY = 6;
const FRA_TABLE = 15;
const FRA_PROTOCOL = 21;
