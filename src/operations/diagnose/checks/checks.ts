import type { GuardDropsPort } from '../entries/guard-drops.ts';
import {
  type AgentStatePort,
  agentState,
  associations,
  type ConnectionsPort,
  connections,
  type FlowDumpPort,
  forged,
  fragments,
  underlayForged,
  unknownTunnelPeers,
} from './agent-state.ts';
import { type ApiServerPort, apiServer } from './api-server.ts';
import type { Check } from './check.ts';
import { type NodePartsPort, wanted } from './desired-state.ts';
import { type PacketFiltersPort, packetFilters } from './filters.ts';
import { type DiskPort, disk, limits } from './host.ts';
import { type KernelPort, kernel } from './kernel.ts';
import { type PeerModesPort, peerModes } from './peer-modes.ts';
import { type PodLinksPort, podLinks } from './pods.ts';
import { type StandingPortsPort, standingPorts } from './ports.ts';
import { type OpenVswitchPort, openVswitch } from './switch.ts';
import { type TunnelPort, tunnel } from './tunnel.ts';
import { type EncryptionPort, wireGuard } from './wireguard.ts';

/** Ports of all checks: only the agent's wiring combines them. */
export type CheckPorts = AgentStatePort &
  OpenVswitchPort &
  ConnectionsPort &
  KernelPort &
  DiskPort &
  ApiServerPort &
  NodePartsPort &
  PodLinksPort &
  StandingPortsPort &
  PacketFiltersPort &
  FlowDumpPort &
  GuardDropsPort &
  PeerModesPort &
  EncryptionPort &
  TunnelPort;

/** All checks of an agent, in the order of their findings. Fast ones come first. */
export function checksOf(node: CheckPorts): readonly Check[] {
  return [
    agentState(node),
    openVswitch(node),
    connections(node),
    kernel(node),
    disk(node),
    limits,
    apiServer(node),
    wanted(node),
    podLinks(node),
    standingPorts(node),
    packetFilters(node),
    unknownTunnelPeers(node),
    forged(node),
    underlayForged(node),
    associations(node),
    fragments(node),
    peerModes(node),
    wireGuard(node),
    tunnel(node),
  ];
}
