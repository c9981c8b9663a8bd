import { rogueNode } from './actors.ts';
import type { Drawing, HostileWrite } from './drawing.ts';
import { unusedAddresses } from './places.ts';
import { awkwardValues, sizeOf } from './sizes.ts';

const addressesMost = 25_000;

/** What a node's credentials can make of its own Node: any address, and labels and annotations. */
export function drawNodeWrite(drawing: Drawing): HostileWrite {
  const { random, foreign } = drawing;
  const object = { metadata: { name: rogueNode } };
  if (random.chance(0.2)) {
    const labels = { 'topology.kubernetes.io/zone': random.pick(awkwardValues), constructor: random.pick(awkwardValues) };
    const annotations = { 'seine.dev/policy-mode': random.pick(['off', 'ignore', 'enforce', 'x'.repeat(100_000)]) };
    return { actor: 'node', verb: 'patch', plural: 'nodes', object, change: { metadata: { labels, annotations } } };
  }
  const count = sizeOf(random, addressesMost);
  const type = (): string => random.pick(['InternalIP', 'InternalIP', 'ExternalIP', 'Hostname', 'InternalDNS']);
  const ofOthers = random.some(foreign).map(({ address }) => ({ type: type(), address }));
  const more = unusedAddresses(count, random.pick(['ipv4', 'ipv6']), random.below(1_000)).map((address) => ({ type: type(), address }));
  const addresses = random.chance(0.5) ? [...ofOthers, ...more] : [...more, ...ofOthers];
  return { actor: 'node', verb: 'patch status', plural: 'nodes', object, change: { status: { addresses } } };
}

/** A Node that joins again: networks for its pods that are others’. The administrator deletes it first, as a cloud's controller does. */
export function drawRejoin({ random, foreign }: Drawing): readonly string[] {
  const { address } = random.pick(foreign.filter((each) => !each.address.includes(':')));
  const whole = ['10.244.0.0/22', '10.244.4.0/22', '10.96.0.0/12', '0.0.0.0/0', '192.168.77.0/24', '127.0.0.0/8', '10.244.0.0/16'];
  const own = ['10.244.40.0/22'];
  const ipv6 = ['fd00:10:244:28::/64', '::/0', 'fd00:77::/64', 'fe80::/64', 'fd00:10:244::/64'];
  return [random.pick([...own, ...whole, `${address}/32`]), ...(random.chance(0.5) ? [random.pick(ipv6)] : [])];
}
