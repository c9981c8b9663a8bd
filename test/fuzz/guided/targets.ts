import type { Target } from './target.ts';
import { apiTarget } from './targets/api.ts';
import { cniTarget, socketTarget } from './targets/cni.ts';
import { journalTarget } from './targets/journal.ts';
import { openflowTarget } from './targets/openflow.ts';
import { ovsdbTarget } from './targets/ovsdb.ts';
import { packetTarget } from './targets/packet.ts';

/** Every entry point. */
export const targets: readonly Target[] = [cniTarget, socketTarget, apiTarget, ovsdbTarget, openflowTarget, packetTarget, journalTarget];
