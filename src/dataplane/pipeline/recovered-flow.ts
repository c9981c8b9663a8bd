import type { Mark } from './registers.ts';
import type { PipelineTableName } from './tables.ts';

/** Numbers in a flow of the bridge: a starting agent reads from them which ones the previous agent allocated. */
export interface RecoveredFlow {
  readonly table: PipelineTableName;
  readonly priority: number;
  /** Cookie of its owner (`cookieOf`). */
  readonly cookie: bigint;
  /** OpenFlow port by which the packet came, if the flow matches one. */
  readonly inPort?: number;
  /** Network of the packet's source or destination, `Cidr.text`; absent if the flow is not only for IP. */
  readonly network?: string;
  /** Registers that it matches, each under one mask. */
  readonly regs: readonly Omit<Mark, 'field'>[];
  /** Registers that it loads; one may appear several times, with different bits. */
  readonly loads: readonly Omit<Mark, 'field'>[];
}
