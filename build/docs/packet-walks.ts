import { parseIp } from '../../src/base/net/ip.ts';
import type { Flow } from '../../src/dataplane/pipeline/flow.ts';
import { formatFlow } from '../../src/dataplane/pipeline/format.ts';
import { virtualMac } from '../../src/dataplane/pipeline/well-known.ts';
import { ConnectionTracker } from '../../src/dataplane/switch-model/connection-tracker.ts';
import type { Packet } from '../../src/dataplane/switch-model/packet.ts';
import { type Output, type PacketWalk, SwitchModel } from '../../src/dataplane/switch-model/switch-model.ts';
import { type Arrival, answerTo } from '../../test/model/conversation.ts';
import { compileScene, type Scene } from '../../test/model/scene.ts';
import { exampleNode, examplePeers, examplePods, exampleProxying, exampleServices } from '../../test/support/example-node.ts';

const scene: Scene = { node: exampleNode, peers: examplePeers, pods: examplePods, services: exampleServices, proxying: exampleProxying };
const { gateway, tunnel } = exampleNode;
const [podA, podB] = examplePods;
const macA = podA?.mac ?? gateway.mac;

interface Story {
  readonly title: string;
  readonly text: string;
  readonly opening: Arrival;
  /** Index of the chosen bucket of a group. */
  readonly choice?: number;
  /** Packets after the first: the same again, or the receiver's answer. */
  readonly next?: readonly ('again' | 'answer')[];
}

const tcp = (fields: Pick<Packet, 'ipSrc' | 'ipDst' | 'portDst' | 'ethSrc' | 'ethDst'>): Packet => ({
  payload: 'ipv4',
  protocol: 'tcp',
  tcpFlags: 'syn',
  portSrc: 40_000,
  ttl: 64,
  ...fields,
});
const fromPod = (ipDst: string, portDst: number, ethDst = gateway.mac): Arrival => ({
  inPort: podA?.ofPort ?? 0,
  packet: tcp({ ethSrc: macA, ethDst, ipSrc: parseIp('10.10.0.5'), ipDst: parseIp(ipDst), portDst }),
});

const stories: readonly Story[] = [
  {
    title: 'A pod to its neighbour',
    text: 'Nothing is routed: MACs and TTL stay. The connection is committed on the way out, so that the answer is known.',
    opening: fromPod('10.10.0.6', 80, podB?.mac),
    next: ['answer'],
  },
  {
    title: 'A pod to a pod on another node',
    text: 'The other node counts one more hop. Tunnel addresses are set after the last `ct()`.',
    opening: fromPod('10.10.4.9', 80),
    next: ['answer'],
  },
  {
    title: 'A pod to a Service',
    text: 'The group picks the endpoint; the connection remembers it. A second packet before any answer is still new, and arrives translated. The answer gets the Service’s address back.',
    opening: fromPod('10.96.0.10', 80),
    choice: 1,
    next: ['again', 'answer'],
  },
  {
    title: 'A pod to a Service that picks the pod itself',
    text: 'Without another source the pod would answer itself, past the translation. So the source becomes a reserved address, in a zone of its own, and the packet leaves by the port it came in by.',
    opening: fromPod('10.96.0.10', 80),
    choice: 0,
    next: ['answer'],
  },
  {
    title: 'A pod to a Service without endpoints',
    text: 'The agent refuses, so that no client waits.',
    opening: fromPod('10.96.0.11', 80),
  },
  { title: 'A pod to the outside', text: 'The node masquerades.', opening: fromPod('203.0.113.9', 443) },
  {
    title: 'The node to a Service',
    text: 'The node’s route for Services leads into the bridge, by a next hop that does not exist.',
    opening: {
      inPort: gateway.ofPort,
      packet: tcp({ ethSrc: gateway.mac, ethDst: virtualMac, ipSrc: parseIp('10.10.0.1'), ipDst: parseIp('10.96.0.10'), portDst: 80 }),
    },
    choice: 1,
    next: ['answer'],
  },
  {
    title: 'An external client to a node port, with an endpoint on another node',
    text: 'The node’s packet filter has translated the node’s address to the virtual one. Without another source, the pod network’s own address, the other node would answer the client directly. The answer goes back the way the question came.',
    opening: {
      inPort: gateway.ofPort,
      packet: tcp({
        ethSrc: gateway.mac,
        ethDst: virtualMac,
        ipSrc: parseIp('203.0.113.77'),
        ipDst: parseIp('169.254.0.252'),
        portDst: 30_080,
      }),
    },
    choice: 1,
    next: ['answer'],
  },
  {
    title: 'A pod that forges a tunnel packet',
    text: 'To its own node or, by the masquerade, to another one: dropped, and counted by the flow’s own counter.',
    opening: { inPort: podA?.ofPort ?? 0, packet: { ...fromPod('192.168.77.2', tunnel.port).packet, protocol: 'udp' } },
  },
];

/** Section "Life of a packet": path of packets through the flows of an example node, by the model of OVS. */
export function packetWalks(): string {
  return [
    '## Life of a packet',
    'Made by running these packets through a model of the switch with the flows of an example node (`test/support/example-node.ts`); a real switch and a reference evaluator agree with that model (`test/integration/pipeline-*.test.ts`). Tables that only pass a packet on are left out.',
    ...stories.map(story),
  ].join('\n\n');
}

function story({ title, text, opening, choice = 0, next = [] }: Story): string {
  const { flows, groups } = compileScene(scene);
  const model = new SwitchModel({
    flows,
    groups,
    tracker: new ConnectionTracker('userspace'),
    choose: () => choice,
    tunnelPort: tunnel.ofPort,
  });
  const parts = [`### ${title}`, text];
  let last = model.receive(opening.inPort, opening.packet);
  parts.push(described('First packet', last));
  for (const what of next) {
    const received = last.outputs[0];
    const answer = received && answerTo(received);
    const arrival = what === 'answer' ? answer : opening;
    if (!arrival) continue;
    const walk = model.receive(arrival.inPort, arrival.packet);
    parts.push(described(what === 'answer' ? 'The answer' : 'The same again, before any answer', walk));
    if (what === 'again') last = walk;
  }
  return parts.join('\n\n');
}

function described(title: string, walk: PacketWalk): string {
  const dump = walk.flows.map((flow) => formatFlow(flow).replace(/^table=/, '')).join('\n');
  return `${title}:\n\n${picture(walk)}\n\n\`\`\`text\n${dump}\n\`\`\``;
}

function picture({ flows, outputs }: PacketWalk): string {
  const ends = outputs.length === 0 ? ['dropped'] : outputs.map(whereTo);
  const boxes = [...flows.map(({ table }: Flow) => table), ends.join(', ')].map((text, index) => `t${index}["${text}"]`);
  return `\`\`\`mermaid\nflowchart LR\n  ${boxes.join(' --> ')}\n\`\`\``;
}

function whereTo({ to, packet }: Output): string {
  if (typeof to === 'string' && to !== 'flood') return 'to the agent';
  if (to === 'flood') return 'flooded';
  const who = to === tunnel.ofPort ? 'tunnel' : to === gateway.ofPort ? 'gateway' : `pod ${to}`;
  const ports = packet.portDst === undefined ? '' : `:${packet.portDst}`;
  return `${who}: ${packet.ipSrc?.text} to ${packet.ipDst?.text}${ports}, TTL ${packet.ttl}`;
}
