import type { Mark } from './registers.ts';
import type { PipelineTableName } from './tables.ts';

/** What a flow on the bridge says of the numbers that it was made with: an agent that starts reads there what its predecessor lent. */
export interface RecoveredFlow {
  readonly table: PipelineTableName;
  readonly priority: number;
  /** Of its owner (`cookieOf`). */
  readonly cookie: bigint;
  /** Port of the switch by which the packet came, if it matches one. */
  readonly inPort?: number;
  /** Network of the packet's source or destination, `Cidr.text`; absent if it is not for IP alone. */
  readonly network?: string;
  /** Registers that it matches, each under one mask. */
  readonly regs: readonly Omit<Mark, 'field'>[];
  /** Registers that it loads; one may be there several times, with other bits. */
  readonly loads: readonly Omit<Mark, 'field'>[];
}
