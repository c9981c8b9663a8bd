import { agentState, connections, forged, strangers } from './agent-state.ts';
import { apiServer } from './api-server.ts';
import type { Check } from './check.ts';
import { packetFilters } from './filters.ts';
import { kernel } from './kernel.ts';
import { disk, limits } from './machine.ts';
import { podLinks } from './pods.ts';
import { openVswitch } from './switch.ts';
import { tunnel } from './tunnel.ts';
import { wanted } from './wanted.ts';

/** All that an agent can look at itself. What is quick comes first. */
export const checks: readonly Check[] = [
  agentState,
  openVswitch,
  connections,
  kernel,
  disk,
  limits,
  apiServer,
  wanted,
  podLinks,
  packetFilters,
  strangers,
  forged,
  tunnel,
];
