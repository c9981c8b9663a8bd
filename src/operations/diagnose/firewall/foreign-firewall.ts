import { randomBytes } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { SeineError } from '../../../base/errors/seine-error.ts';
import { addressBits, cidrAddress, type Family, type Ip } from '../../../base/net/ip.ts';
import type { Mac } from '../../../base/net/mac.ts';
import type { NodeEnvironment } from '../../../dataplane/compile/environment.ts';
import { type FrameSender, sendFrames } from '../../../dataplane/packet-io/packet-out.ts';
import { serviceNextHop, virtualMac } from '../../../dataplane/pipeline/well-known.ts';
import { getLink } from '../../../netlink/links.ts';
import { FrameTap } from '../../../netlink/packets/frame-tap.ts';
import type { NetlinkSocket } from '../../../netlink/socket.ts';
import { isForwarding } from '../../../netlink/sysctl.ts';
import { encodeTestPacket, isForwarded } from './test-packet.ts';

/** `forward`: from pods through the node; `input`: from pods to the node itself. */
export interface Blocked {
  readonly family: Family;
  readonly hook: 'forward' | 'input';
}

/** Connection of the bridge, which sends the packets, and the kernel, which receives them. */
export interface TestPacketPort extends FrameSender {
  readonly host: { readonly socket: NetlinkSocket };
}

/** Maximum time of a packet in the node's own stack (ms), and number of attempts before it counts as dropped. */
const PATIENCE_MS = 250;
const ATTEMPTS = 4;
/** `discard` (RFC 863): no answer is sent. */
const DISCARD_PORT = 9;

/**
 * Sends packets through the node's own stack as if they came from a pod, and reports which of them do not come out: other firewall rules
 * drop them, and an `accept` in our table does not undo that. A family that the kernel does not forward is not tested.
 *
 * One packet is forwarded to the address of hairpin connections, where the bridge drops it; the other is for a port of ours.
 */
export async function findBlocked(port: TestPacketPort, environment: NodeEnvironment, signal: AbortSignal): Promise<readonly Blocked[]> {
  // If the kernel does not forward, no firewall is to blame.
  const tests = environment.podCidrs.flatMap(({ family }) => {
    const hooks = isForwarding(family, environment.gateway.name) ? (['forward', 'input'] as const) : (['input'] as const);
    return hooks.map((hook) => ({ family, hook }));
  });
  const blocked: Blocked[] = [];
  for (const test of tests) if (!(await comesThrough(port, environment, test, signal))) blocked.push(test);
  return blocked;
}

async function comesThrough(port: TestPacketPort, environment: NodeEnvironment, test: Blocked, signal: AbortSignal): Promise<boolean> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    if (
      test.hook === 'forward'
        ? await isForwardedOn(port, environment, test.family, signal)
        : await isTakenIn(port, environment, test.family, signal)
    )
      return true;
    signal.throwIfAborted();
  }
  return false;
}

interface Ends {
  readonly mac: Mac;
  readonly gateway: Ip;
  /** Address of the pod network that no pod has, or whose pod does not see the packet. */
  readonly pod: Ip;
}

function endsOf({ gateway, podCidrs }: NodeEnvironment, family: Family): Ends {
  const cidr = podCidrs.find((each) => each.family === family);
  const address = gateway.addresses.find((ip) => ip.family === family);
  if (!cidr || !address) throw new SeineError('INVARIANT', `no ${family} pod network`);
  const last = (1n << BigInt(addressBits(family) - cidr.prefixLength)) - 2n;
  return { mac: gateway.mac, gateway: address, pod: cidrAddress(cidr, last) };
}

async function isForwardedOn(port: TestPacketPort, environment: NodeEnvironment, family: Family, signal: AbortSignal): Promise<boolean> {
  const { mac, pod } = endsOf(environment, family);
  const link = getLink(port.host.socket, environment.gateway.name);
  if (!link) throw new SeineError('UNAVAILABLE', `there is no ${environment.gateway.name}`);
  const data = randomBytes(16);
  const came = Promise.withResolvers<boolean>();
  const tap = FrameTap.open(link.index, (frame) => isForwarded(frame, data) && came.resolve(true));
  try {
    const to = serviceNextHop[family];
    const frame = encodeTestPacket({ ethSrc: virtualMac, ethDst: mac, from: pod, to, port: DISCARD_PORT, data });
    sendFrames(port, environment.gateway.ofPort, [frame], signal);
    return await Promise.race([came.promise, sleep(PATIENCE_MS, false, { signal })]);
  } finally {
    tap.close();
  }
}

async function isTakenIn(port: TestPacketPort, environment: NodeEnvironment, family: Family, signal: AbortSignal): Promise<boolean> {
  const { mac, pod, gateway } = endsOf(environment, family);
  const data = randomBytes(16);
  const came = Promise.withResolvers<boolean>();
  const socket = createSocket(family === 'ipv4' ? 'udp4' : 'udp6', (message) => message.equals(data) && came.resolve(true));
  try {
    socket.on('error', () => came.resolve(false));
    socket.bind(0, gateway.text);
    await once(socket, 'listening', { signal });
    const frame = encodeTestPacket({ ethSrc: virtualMac, ethDst: mac, from: pod, to: gateway, port: socket.address().port, data });
    sendFrames(port, environment.gateway.ofPort, [frame], signal);
    return await Promise.race([came.promise, sleep(PATIENCE_MS, false, { signal })]);
  } finally {
    socket.close();
  }
}
