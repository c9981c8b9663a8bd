import { parseIp } from '../../../../src/base/net/ip.ts';
import { parseMac } from '../../../../src/base/net/mac.ts';
import { readTcpFrame } from '../../../../src/dataplane/packet-io/tcp-frame.ts';
import { tables } from '../../../../src/dataplane/pipeline/tables.ts';
import { readDeniedPacket } from '../../../../src/policy/denied-log/denied-packet.ts';
import { refuse } from '../../../../src/services/compile/refusal.ts';
import { encodeFrame } from '../../../support/frame.ts';
import type { Target } from '../target.ts';

const link = { ethSrc: parseMac('0e:aa:00:00:00:05'), ethDst: parseMac('0e:00:00:00:01:01'), ttl: 64 };
const ends = [
  { payload: 'ipv4', ipSrc: parseIp('10.10.0.5'), ipDst: parseIp('10.96.0.10') },
  { payload: 'ipv6', ipSrc: parseIp('fd00:10::5'), ipDst: parseIp('fd00:96::10') },
] as const;
const ports = { portSrc: 40_123, portDst: 80 } as const;
/** Hop-by-hop options, routing, a fragment, destination options, and TCP. Source: RFC 8200, section 4. */
const extensions = [
  ...[0x60, 0, 0, 0, 0, 52, 0, 64],
  ...Array.from({ length: 32 }, () => 0xfd),
  ...[43, 0, 5, 2, 0, 0, 1, 0],
  ...[44, 0, 0, 0, 0, 0, 0, 0],
  ...[60, 0, 0, 0, 0, 0, 0, 1],
  ...[6, 0, 1, 4, 0, 0, 0, 0],
  ...[0x9c, 0xbb, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0, 0, 0, 0, 0, 0],
];
/** Neighbour solicitation and advertisement. Source: RFC 4861, sections 4.3 and 4.4. */
const neighbour = (type: number, option: number) => [
  ...[0x60, 0, 0, 0, 0, 32, 58, 255],
  ...Array.from({ length: 32 }, (_, at) => (at === 0 || at === 16 ? 0xfe : at)),
  ...[type, 0, 0, 0, 0, 0, 0, 0],
  ...Array.from({ length: 16 }, (_, at) => at),
  ...[option, 1, 0x0e, 0, 0, 0, 0, 1],
];
const ethernet = (type: readonly number[], payload: readonly number[]) =>
  Buffer.from([0x0e, 0, 0, 0, 1, 1, 0x0e, 0xaa, 0, 0, 0, 5, ...type, ...payload]);

function seeds(): Uint8Array[] {
  const frames = ends.flatMap((each) => [
    encodeFrame({ ...link, ...each, protocol: 'tcp', ...ports, tcpFlags: 'syn' }),
    encodeFrame({ ...link, ...each, protocol: 'tcp', ...ports, tcpFlags: 'rst' }),
    encodeFrame({ ...link, ...each, protocol: 'udp', ...ports }, Buffer.alloc(40)),
  ]);
  const echo = [0x45, 0, 0, 28, 0, 1, 0, 0, 64, 1, 0, 0, 10, 10, 0, 5, 10, 96, 0, 10, 8, 0, 0xf7, 0xff, 0, 0, 0, 0];
  const unreachable = [...echo.slice(0, 20), 3, 4, 0, 0, 0, 0, 5, 0, ...echo];
  return [
    ...frames,
    ...[echo, unreachable].map((packet) => ethernet([8, 0], packet)),
    ...[extensions, neighbour(135, 1), neighbour(136, 2)].map((packet) => ethernet([0x86, 0xdd], packet)),
  ];
}

export const packetTarget: Target = {
  name: 'packet',
  what: 'frames from pods and external clients, as the bridge sends them: TCP, UDP, SCTP, ICMP, neighbour discovery',
  seeds,
  read: (data) => {
    const answer = refuse(data);
    if (answer !== undefined && answer.length > data.length + maxLonger)
      throw new Error(`an answer of ${answer.length} to ${data.length} bytes`);
    const denied = [tables.egressVerdict.id, tables.ingressVerdict.id].map((table) =>
      readDeniedPacket({ table, reason: 'action', fields: { in_port: 7, reg1: 7, reg0: 0 }, fullLength: data.length, data }),
    );
    return answer !== undefined || readTcpFrame(data) !== undefined || denied.some((each) => each !== undefined);
  },
};

/**
 * Headers of IPv6 and ICMPv6 around the rejected packet: a sender cannot cause more traffic than it sends. Source: RFC 4443, section 3.1.
 */
const maxLonger = 48;
