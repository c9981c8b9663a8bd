import { closeSync, openSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { bytesOf } from '../../src/base/bytes/bytes.ts';
import { addressBits } from '../../src/base/net/ip.ts';
import { parseMac } from '../../src/base/net/mac.ts';
import type { Wanted } from '../../src/dataplane/desired/host-entries.ts';
import type { Owner } from '../../src/dataplane/pipeline/cookie.ts';
import { tables } from '../../src/dataplane/pipeline/tables.ts';
import { type PipelinePacketInReason, packetInReason } from '../../src/dataplane/pipeline/well-known.ts';
import type { Output } from '../../src/dataplane/switch-model/switch-model.ts';
import { type BridgeKey, type BridgeValue, encodeBridgeEntries } from '../../src/dataplane/targets/bridge/bridge-entry.ts';
import { BridgeTarget } from '../../src/dataplane/targets/bridge/bridge-target.ts';
import { packetInController } from '../../src/dataplane/targets/bridge/encoding/to-openflow.ts';
import { OpenFlowConnection } from '../../src/openflow/connection/connection.ts';
import { writeSetConfig, writeSetControllerId, writeUsePacketIn2 } from '../../src/openflow/control.ts';
import type { PacketIn } from '../../src/openflow/packet.ts';
import { decodeUnsolicited } from '../../src/openflow/unsolicited.ts';
import type { Arrival } from '../model/conversation.ts';
import { type Scene, wantedByOwner } from '../model/scene.ts';
import { decodeFrame, encodeFrame, encodeTunnelled } from './frame.ts';
import { startSwitch, type TestSwitch } from './open-vswitch.ts';
import { Unixctl } from './unixctl.ts';

const underlay = { bridge: 'br-phy', port: 'p0', mac: parseMac('0e:77:00:00:00:01'), peerMac: parseMac('0e:77:00:00:00:02') };

/**
 * A real switch that takes packets byte by byte: userspace data path with its own conntrack and tunnels, our flows installed by our own
 * codec, and ports that are files (`type=dummy`, as in Open vSwitch's own tests).
 */
export class PacketBench {
  readonly ovs: TestSwitch;
  readonly control: Unixctl;
  readonly #scene: Scene;
  readonly #stop: AbortController;
  readonly #captures: ReadonlyMap<number, Capture>;
  readonly #connection: OpenFlowConnection;
  readonly #toAgent: Output[];
  #entries: ReadonlyMap<BridgeKey, BridgeValue> = new Map();

  private constructor(parts: {
    ovs: TestSwitch;
    control: Unixctl;
    scene: Scene;
    stop: AbortController;
    captures: ReadonlyMap<number, Capture>;
    connection: OpenFlowConnection;
    toAgent: Output[];
  }) {
    this.ovs = parts.ovs;
    this.control = parts.control;
    this.#scene = parts.scene;
    this.#stop = parts.stop;
    this.#captures = parts.captures;
    this.#connection = parts.connection;
    this.#toAgent = parts.toAgent;
  }

  static async start(scene: Scene): Promise<PacketBench> {
    const ovs = startSwitch('--enable-dummy');
    const stop = new AbortController();
    try {
      const ports = portNames(scene);
      ovs.exec('ovs-vsctl', ...bridges(scene, ovs.runDir, ports));
      addressUnderlay(ovs, scene);
      const captures = new Map([...ports].map(([ofPort, name]) => [ofPort, new Capture(captureFile(ovs.runDir, name))]));
      captures.set(scene.node.tunnel.ofPort, new Capture(captureFile(ovs.runDir, underlay.port)));
      const toAgent: Output[] = [];
      const connection = agentConnection(ovs.runDir, toAgent);
      void connection.run(stop.signal);
      await connection.untilUp(stop.signal);
      const control = await Unixctl.open(ovs.runDir);
      const bench = new PacketBench({ ovs, control, scene, stop, captures, connection, toAgent });
      await bench.become(wantedByOwner(scene));
      return bench;
    } catch (error) {
      stop.abort();
      await ovs.stop();
      throw error;
    }
  }

  /** Sends a packet into a port. */
  async send({ inPort, packet }: Arrival): Promise<void> {
    const tunnel = inPort === this.#scene.node.tunnel.ofPort;
    const link = { ethSrc: underlay.peerMac, ethDst: underlay.mac };
    const bytes = tunnel ? encodeTunnelled(packet, link) : encodeFrame(packet);
    const name = tunnel ? underlay.port : (portNames(this.#scene).get(inPort) ?? noPod);
    await this.control.run('netdev-dummy/receive', name, Buffer.from(bytes).toString('hex'));
  }

  /** Sends a packet into a port and returns all outputs. */
  async receive(arrival: Arrival): Promise<readonly Output[]> {
    await this.send(arrival);
    // The daemon's loop serves ports before commands: when it answers again, the packet has been processed.
    await this.control.run('version');
    await this.#connection.barrier(this.#stop.signal);
    const sent = [...this.#captures].flatMap(([to, capture]) => capture.take().map((frame) => ({ to, frame })));
    const outputs = sent.map(({ to, frame }) => ({ to, packet: decodeFrame(frame) }));
    // The underlay also carries packets of the node's own stack.
    const ours = outputs.filter(({ to, packet: { tunDst } }) => (to === this.#scene.node.tunnel.ofPort) === (tunDst !== undefined));
    return [...ours, ...this.#toAgent.splice(0)];
  }

  /** Changes its entries to the desired ones. Resolves when packets match only those. */
  async become(wanted: ReadonlyMap<Owner, Wanted>): Promise<void> {
    const entries = new Map([...wanted].flatMap(([owner, each]) => [...encodeBridgeEntries(owner, withoutLimits(each))]));
    const put = new Map([...entries].filter(([key, value]) => this.#entries.get(key) !== value));
    const remove = new Set([...this.#entries.keys()].filter((key) => !entries.has(key)));
    await new BridgeTarget(this.#connection).apply({ put, remove }, this.#stop.signal);
    this.#entries = entries;
    // The revalidation that ends first may have begun before the change.
    for (let look = 0; look < 2; look++) await this.control.run('revalidator/wait');
  }

  async forgetConnections(): Promise<void> {
    await this.control.run('dpctl/flush-conntrack');
  }

  /** Drops associations of SCTP, which conntrack does not distinguish. */
  forgetAssociations(): void {
    this.ovs.exec('ovs-ofctl', '-O', 'OpenFlow15', 'del-flows', 'br-int', `table=${tables.associations.id}`);
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    this.control.close();
    for (const capture of this.#captures.values()) capture.close();
    await this.ovs.stop();
  }
}

/** Meters of packets that limit nothing: a fast host sends more packets to the agent than one sender may. */
function withoutLimits(wanted: Wanted): Wanted {
  const limits = { rate: 1_000_000, burst: 1_000_000 };
  return { ...wanted, meters: wanted.meters.map((meter) => (meter.unit === 'packets' ? { ...meter, ...limits } : meter)) };
}

/** A port of the bridge outside of the scene. */
const noPod = 'none';

function portNames({ node, pods }: Scene): Map<number, string> {
  return new Map([[node.gateway.ofPort, 'gateway'], ...pods.map(({ ofPort }, index) => [ofPort, `pod${index}`] as const)]);
}

function captureFile(runDir: string, port: string): string {
  return join(runDir, `${port}.pcap`);
}

function bridges({ node }: Scene, runDir: string, ports: ReadonlyMap<number, string>): string[] {
  const dummy = (bridge: string, name: string, ofPort: number): string[] => {
    const settings = ['type=dummy', `ofport_request=${ofPort}`, `options:tx_pcap=${captureFile(runDir, name)}`];
    return ['--', 'add-port', bridge, name, '--', 'set', 'interface', name, ...settings];
  };
  const addBridge = (name: string, ...settings: string[]): string[] => [
    ...['--', 'add-br', name, '--', 'set', 'bridge', name, 'datapath_type=netdev', ...settings],
  ];
  const tunnel = [`type=${node.tunnel.type}`, 'options:remote_ip=flow', 'options:local_ip=flow', 'options:key=flow'];
  return [
    ...addBridge(underlay.bridge, `other-config:hwaddr=${underlay.mac}`),
    ...dummy(underlay.bridge, underlay.port, 1),
    ...addBridge('br-int', 'fail_mode=secure'),
    ...['--', 'add-port', 'br-int', 'tunnel', '--', 'set', 'interface', 'tunnel', ...tunnel, `ofport_request=${node.tunnel.ofPort}`],
    ...[...ports].flatMap(([ofPort, name]) => dummy('br-int', name, ofPort)),
    ...dummy('br-int', noPod, 40_000),
  ];
}

/** The node's own addresses, and its peers: nothing answers on this link. */
function addressUnderlay(ovs: TestSwitch, { node, peers }: Scene): void {
  for (const ip of node.transport) {
    const prefix = addressBits(ip.family) === 32 ? 24 : 64;
    ovs.exec('ip', 'addr', 'add', `${ip.text}/${prefix}`, 'dev', underlay.bridge, ...(ip.family === 'ipv6' ? ['nodad'] : []));
  }
  ovs.exec('ip', 'link', 'set', underlay.bridge, 'up');
  for (const { text } of peers.flatMap(({ transport }) => transport))
    ovs.exec('ovs-appctl', 'tnl/neigh/set', underlay.bridge, text, underlay.peerMac);
}

function agentConnection(runDir: string, received: Output[]): OpenFlowConnection {
  return new OpenFlowConnection({
    endpoint: `unix:${runDir}/br-int.mgmt`,
    greeting: [
      bytesOf(writeUsePacketIn2),
      bytesOf((w) => writeSetControllerId(w, packetInController)),
      bytesOf((w) => writeSetConfig(w, { fragments: 0, missSendLength: 0xffff })),
    ],
    unsolicited: (bytes) => {
      const message = decodeUnsolicited(bytes);
      if (message.kind === 'packetIn')
        received.push({ to: `agent: ${reasonOf(message.packet)}`, packet: decodeFrame(message.packet.data) });
    },
  });
}

/** Output of a port, read from the file that OVS writes. Source: pcap-savefile(5). */
class Capture {
  readonly #fd: number;
  readonly #buffer = Buffer.alloc(1 << 16);
  #offset = 24;

  constructor(path: string) {
    this.#fd = openSync(path, 'r');
  }

  /** Frames since the last call. */
  take(): Uint8Array[] {
    const frames: Uint8Array[] = [];
    for (let before = -1; frames.length > before; ) {
      before = frames.length;
      frames.push(...this.#read());
    }
    return frames;
  }

  /** Frames of one buffer. */
  #read(): Uint8Array[] {
    const size = readSync(this.#fd, this.#buffer, 0, this.#buffer.length, this.#offset);
    const frames: Uint8Array[] = [];
    for (let at = 0; at + 16 <= size; ) {
      const length = this.#buffer.readUInt32LE(at + 8);
      if (at + 16 + length > size) break;
      frames.push(Uint8Array.from(this.#buffer.subarray(at + 16, at + 16 + length)));
      at += 16 + length;
      this.#offset += 16 + length;
    }
    return frames;
  }

  close(): void {
    closeSync(this.#fd);
  }
}

function reasonOf({ userdata }: PacketIn): PipelinePacketInReason {
  const reasons = Object.entries(packetInReason) as [PipelinePacketInReason, number][];
  const found = reasons.find(([, number]) => number === userdata?.[0]);
  if (!found) throw new Error(`no flow sends packets to the agent with the user data ${userdata}`);
  return found[0];
}
