import type { ApiObject } from '../api.ts';
import { rogueNode } from './actors.ts';
import type { Drawing, HostileWrite } from './drawing.ts';
import { type ForeignAddress, unusedAddresses } from './places.ts';
import { awkwardTexts, awkwardValues, listOf, sizeOf } from './sizes.ts';

const addressesMost = 25_000;
const conditionsMost = 5_000;
const object: ApiObject = { metadata: { name: rogueNode } };

/** Changes that a node's credentials can make to its own Node, and to pods that are bound to it. */
export function drawNodeWrite(drawing: Drawing): HostileWrite {
  const { random } = drawing;
  const kind = random.pick(['addresses', 'addresses', 'pod', 'pod', 'labels', 'conditions'] as const);
  const pod = random.maybe(drawing.onRogue);
  if (kind === 'pod' && pod !== undefined) return drawPodStatus(pod, drawing);
  if (kind === 'labels') return { actor: 'node', verb: 'patch', plural: 'nodes', object, change: drawLabels(drawing) };
  const status = kind === 'conditions' ? drawConditions(drawing) : { addresses: drawAddresses(drawing) };
  return { actor: 'node', verb: 'patch status', plural: 'nodes', object, change: { status } };
}

function drawLabels({ random }: Drawing): object {
  const zone = random.pick([...awkwardValues, 'a', 'b']);
  const labels = { 'topology.kubernetes.io/zone': zone, constructor: random.pick(awkwardValues) };
  const mode = random.pick(['off', 'ignore', 'enforce', 'x'.repeat(100_000), ...awkwardTexts]);
  return { metadata: { labels, annotations: { 'seine.dev/policy-mode': mode, 'seine.dev/log': random.pick(awkwardTexts) } } };
}

function drawConditions({ random }: Drawing): object {
  const conditions = listOf(sizeOf(random, conditionsMost), (index) => ({
    type: index === 0 ? random.pick(['NetworkUnavailable', '__proto__']) : `constructor-${index}`,
    status: random.pick(['True', 'False', 'Unknown']),
    ...(index === 0 && { reason: random.pick(awkwardTexts), message: random.pick(awkwardTexts) }),
  }));
  return { conditions };
}

/** Addresses of others, and many: unused ones, or addresses in the networks of others' pods and of Services. */
function drawAddresses({ random, foreign }: Drawing): object[] {
  const types = ['InternalIP', 'InternalIP', 'InternalIP', 'ExternalIP', 'ExternalIP', 'Hostname', 'InternalDNS', '__proto__'];
  const type = (): string => random.pick(types);
  const ofOthers = random.some(foreign).map(({ address }) => ({ type: type(), address }));
  const family = random.pick(['ipv4', 'ipv6'] as const);
  const unused = unusedAddresses(sizeOf(random, addressesMost), family, random.below(1_000));
  const second = random.pick(['51', '0', '4']);
  const isInside = family === 'ipv4' && random.chance(0.5);
  const many = isInside ? unused.map((address) => address.replace(/^198\.5[12]/, `10.${second === '51' ? 96 : 244}`)) : unused;
  const more = [...new Set(many)].map((address) => ({ type: type(), address }));
  const odd = random.chance(0.3) ? [{ type: 'Hostname', address: random.pick(awkwardTexts) }] : [];
  return random.chance(0.5) ? [...ofOthers, ...more, ...odd] : [...odd, ...more, ...ofOthers];
}

/** A pod has the addresses that its node reports: here those of others. An API server accepts one of each family. */
function drawPodStatus(pod: ApiObject, { random, foreign }: Drawing): HostileWrite {
  const of = (family: 'ipv4' | 'ipv6'): ForeignAddress[] => foreign.filter(({ address }) => address.includes(':') === (family === 'ipv6'));
  const podIPs = [random.pick(of('ipv4')), ...(random.chance(0.5) ? [random.pick(of('ipv6'))] : [])].map(({ address }) => ({
    ip: address,
  }));
  const status = {
    phase: random.pick(['Running', 'Running', 'Running', 'Pending', 'Succeeded']),
    podIP: podIPs[0]?.ip,
    podIPs,
    hostIP: random.pick(of('ipv4')).address,
    conditions: [{ type: 'Ready', status: 'True' }],
  };
  return { actor: 'node', verb: 'patch status', plural: 'pods', object: pod, change: { status } };
}

/**
 * A Node that rejoins with networks for its pods that belong to others. The administrator deletes it first, as a cloud's controller does.
 */
export function drawRejoin({ random, foreign }: Drawing): readonly string[] {
  const { address } = random.pick(foreign.filter((each) => !each.address.includes(':')));
  const whole = ['10.244.0.0/22', '10.244.4.0/22', '10.96.0.0/12', '0.0.0.0/0', '192.168.77.0/24', '127.0.0.0/8', '10.244.0.0/16'];
  const outside = ['0.0.0.0/1', '192.168.0.0/16'];
  const own = ['10.244.40.0/22'];
  const ipv6 = ['fd00:10:244:28::/64', '::/0', 'fd00:77::/64', 'fe80::/64', 'fd00:10:244::/64'];
  return [random.pick([...own, ...whole, ...outside, `${address}/32`]), ...(random.chance(0.5) ? [random.pick(ipv6)] : [])];
}
