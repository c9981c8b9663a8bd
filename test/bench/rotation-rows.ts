import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { hostCidr, parseIp } from '../../src/base/net/ip.ts';
import { ProcessWireGuard } from '../../src/netlink/wireguard/process-wireguard.ts';
import type { WantedWireGuardPeer } from '../../src/netlink/wireguard/wireguard.ts';
import { WireGuardPrivateKey } from '../../src/netlink/wireguard/wireguard-key.ts';
import { joinedNamespaces, removeNamespaces, type UnderlayNamespace } from '../contract/wireguard-namespaces.ts';
import { socketFolder } from '../contract/wireguard-processes.ts';
import { until } from '../support/converge-lab.ts';
import { echo, UdpStream } from '../support/udp-stream.ts';
import type { Measured } from './row.ts';

export const rotationRowNames = ['wireguard.rotation.p99'] as const;

const rotations = 50;
/** Rotations in the other order, for comparison. The device keeps 128 packets until the handshake is complete. */
const otherOrder = 10;
/** Time by which the owner of a key changes after its peer, as an agent does (ms). */
const afterPeerMs = 100;
const port = 7_200;
const listenPort = 51_820;
const patienceMs = 60_000;
const keepaliveSeconds = 25;
const addresses = ['192.0.2.1', '192.0.2.2'] as const;

interface End extends UnderlayNamespace {
  readonly address: string;
  readonly wireGuard: ProcessWireGuard;
  readonly process: ChildProcess;
  key: WireGuardPrivateKey;
}

/**
 * Packets that are lost while a node replaces its key, in milliseconds, with 1,000 packets a second between two devices of `wireguard-go`:
 * the peer changes first, as agents do, and beside that the other order.
 */
export async function rotationRows(print: (text: string) => void): Promise<readonly Measured[]> {
  print(`${rotations} rotations of a WireGuard key under traffic`);
  const pair = joinedNamespaces();
  const ends: End[] = [];
  try {
    for (const [at, each] of pair.entries()) ends.push(await open(each, addresses[at] ?? ''));
    const [owner, peer] = ends;
    if (!owner || !peer) return [];
    for (const [one, other] of [
      [owner, peer],
      [peer, owner],
    ] as const)
      await one.wireGuard.apply(one.device, { privateKey: one.key, listenPort, put: [peerEntry(other)] }, signal());
    const close = await echo(peer.namespace, peer.address, port);
    try {
      return [await measured(owner, peer)];
    } finally {
      close();
    }
  } finally {
    for (const { process } of ends) if (process.kill()) await once(process, 'exit');
    removeNamespaces(pair);
  }
}

async function measured(owner: End, peer: End): Promise<Measured> {
  const gaps: number[] = [];
  for (let run = 0; run < rotations; run++) gaps.push(await gapOf(owner, peer, 'peer first'));
  const others: number[] = [];
  for (let run = 0; run < otherOrder; run++) others.push(await gapOf(owner, peer, 'owner first'));
  const p99 = gaps.toSorted((a, b) => a - b)[Math.ceil(0.99 * gaps.length) - 1] ?? 0;
  return { name: 'wireguard.rotation.p99', unit: 'ms', ours: [p99], peer: { name: 'the owner first', values: others } };
}

/** @returns the longest run of lost packets (ms) */
async function gapOf(owner: End, peer: End, order: 'peer first' | 'owner first'): Promise<number> {
  const stream = await UdpStream.start(owner.namespace, peer.address, port);
  await continued(stream);
  const before = owner.key.publicKey;
  owner.key = WireGuardPrivateKey.generate();
  const ofOwner = () => owner.wireGuard.apply(owner.device, { privateKey: owner.key }, signal());
  const ofPeer = () => peer.wireGuard.apply(peer.device, { put: [peerEntry(owner)], remove: [before] }, signal());
  const [first, second] = order === 'peer first' ? [ofPeer, ofOwner] : [ofOwner, ofPeer];
  await first();
  await sleep(afterPeerMs);
  await second();
  await continued(stream);
  return (await stream.stop()).longestGap;
}

async function continued(stream: UdpStream): Promise<void> {
  const before = stream.answered;
  await until(
    async () => stream.answered > before + 100,
    patienceMs,
    () => 'packets do not come back',
  );
}

async function open(end: UnderlayNamespace, address: string): Promise<End> {
  const { namespace, device } = end;
  const process = spawn('ip', ['netns', 'exec', namespace, 'wireguard-go', '-f', device], { stdio: 'ignore' });
  await until(
    async () => existsSync(`${socketFolder}/${device}.sock`),
    patienceMs,
    () => 'wireguard-go does not start',
  );
  for (const words of [
    ['address', 'add', `${address}/24`, 'dev', device],
    ['link', 'set', device, 'up'],
  ])
    execFileSync('ip', ['-n', namespace, ...words]);
  return { ...end, address, process, wireGuard: new ProcessWireGuard(socketFolder), key: WireGuardPrivateKey.generate() };
}

function peerEntry({ key, underlay, address }: End): WantedWireGuardPeer {
  return {
    publicKey: key.publicKey,
    endpoint: { address: parseIp(underlay.ipv4), port: listenPort },
    allowedNetworks: [hostCidr(parseIp(address))],
    keepaliveSeconds,
  };
}

const signal = () => AbortSignal.timeout(patienceMs);
