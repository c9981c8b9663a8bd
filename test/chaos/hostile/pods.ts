import type { ApiObject } from '../api.ts';
import type { Random } from '../random.ts';
import { hostileNamespace, rogueNode } from './actors.ts';
import type { Drawing } from './drawing.ts';
import { nodePorts } from './places.ts';
import { awkwardNames, awkwardTexts, awkwardValues, listOf, sizeOf } from './sizes.ts';

/** Maximum number of ports, because a responder listens on each. */
const portsMost = 300;

/** A pod that requests host ports: those of others, at addresses of others. */
export function drawPod(name: string, { random, foreign, nodes, nodePortsTaken }: Drawing): ApiObject {
  const count = sizeOf(random, portsMost);
  // A single rejected port leaves the pod without a network: most request one or two.
  const few = Math.min(count, random.pick([1, 1, 1, 2, 12]));
  const address = random.pick(foreign).address;
  return {
    metadata: {
      name,
      namespace: hostileNamespace,
      labels: {
        app: random.pick(['attacker', 'attacker', 'web', 'client', 'server']),
        [random.pick(awkwardNames)]: random.pick(awkwardValues),
        ...(random.chance(0.1) && manyLabels(random)),
      },
      annotations: {
        ...random.pick([
          {},
          {},
          { 'kubernetes.io/ingress-bandwidth': 'none' },
          { 'kubernetes.io/egress-bandwidth': random.pick(['1P', '-1', '1k']) },
        ]),
        'example.com/constructor': random.pick(awkwardTexts),
        ...(random.chance(0.2) && { 'seine.dev/log': random.pick(awkwardTexts) }),
        ...(random.chance(0.1) && { 'example.com/large': 'x'.repeat(250_000) }),
      },
    },
    spec: {
      // The rogue Node has no host: the status of its pods is written with its credentials alone.
      ...(random.chance(0.15)
        ? { nodeName: rogueNode, hostNetwork: random.chance(0.3) }
        : { nodeSelector: { 'kubernetes.io/hostname': random.pick(nodes) } }),
      terminationGracePeriodSeconds: 0,
      containers: [
        {
          name: random.pick(awkwardNames),
          image: 'responder',
          ports: [
            { containerPort: 80, protocol: 'TCP' },
            { containerPort: 80, protocol: 'UDP' },
            ...listOf(few, (index) => hostPort(index, { random, address, foreign, nodePortsTaken })),
            ...listOf(count - few, (index) => ({
              containerPort: 2_000 + index,
              hostPort: 40_000 + index,
              protocol: 'TCP',
              hostIP: address,
            })),
          ],
        },
      ],
    },
  };
}

const labelsMost = 5_000;

function manyLabels(random: Random): Readonly<Record<string, string>> {
  const members = listOf(sizeOf(random, labelsMost), (index) => [
    `example.com/${random.pick(awkwardNames)}-${index}`,
    random.pick(awkwardValues),
  ]);
  return Object.fromEntries(members) as Record<string, string>;
}

/** Changes a mutable field of a pod: its labels. */
export function changedPod({ random }: Drawing): object {
  return { metadata: { labels: { app: random.pick(['attacker', 'web', 'client', null]), ...manyLabels(random) } } };
}

interface HostPortDrawn {
  readonly random: Random;
  readonly address: string;
  readonly foreign: Drawing['foreign'];
  readonly nodePortsTaken: readonly number[];
}

/** Each is mapped to a port on which only the pod answers. */
function hostPort(index: number, { random, address, foreign, nodePortsTaken }: HostPortDrawn): object {
  const port = random.pick([80, 80, 443, 53, ...nodePorts, ...nodePortsTaken, 1_024 + random.below(60_000)]);
  const hostIP = random.pick([address, address, address, address, random.pick(foreign).address, '', '0.0.0.0']);
  return {
    containerPort: 1_000 + index,
    hostPort: port,
    protocol: index % 3 === 2 ? 'UDP' : 'TCP',
    ...(hostIP !== '' && { hostIP }),
  };
}
