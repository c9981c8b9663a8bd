import type { Random } from '../random.ts';
import type { Scene } from '../scene.ts';
import { type Deadline, nothingThere, type Part, type StepKind } from '../step.ts';

type Change = (scene: Scene, random: Random) => Promise<unknown>;

export function faultStep(name: string, part: Part, deadline: Deadline, change: Change): StepKind {
  return { name, changes: 'node', deadline, part, draw: (scene, random) => ({ what: '', act: () => change(scene, random) }) };
}

/** A command of `ip`. */
function ip(name: string, words: string, deadline: Deadline = 'announced'): StepKind {
  return faultStep(name, 'host', deadline, ({ lab }) => lab.on('ip', ...words.split(' ')));
}

function nft(name: string, words: string): StepKind {
  return faultStep(`nft.${name}`, 'firewall', 'announced', ({ lab }) => lab.on('nft', words));
}

function sysctl(name: string, setting: string): StepKind {
  return faultStep(`sysctl.${name}`, 'settings', 'swept', ({ lab }) => lab.on('sysctl', '-qw', setting));
}

function vsctl(name: string, ...words: readonly string[]): StepKind {
  return faultStep(`database.${name}`, 'switch', 'announced', ({ lab }) => lab.on('ovs-vsctl', ...words));
}

/** The node's end of a pod's interface, or of a pre-plugged port that may be free. */
async function podLink({ lab }: Scene, random: Random): Promise<string> {
  const links = JSON.parse(await lab.on('ip', '-j', 'link', 'show', 'type', 'veth')) as { ifname: string }[];
  return random.pick(
    links
      .map(({ ifname }) => ifname)
      .filter((name) => /^\w+-[0-9a-f]{7}$|^sp-\d+$/.test(name))
      .toSorted(),
  );
}

function ofPod(name: string, part: Part, words: (link: string) => readonly string[]): StepKind {
  return faultStep(name, part, 'swept', async (scene, random) => {
    const link = await podLink(scene, random);
    await scene.lab.on(...(words(link) as [string, ...string[]]));
    return link;
  });
}

function uncounted({ part: _, ...kind }: StepKind): StepKind {
  return kind;
}

const gateway = 'antrea-gw0';
const elements = 'inet seine-services node-ports4';

export const hostSteps: readonly StepKind[] = [
  ip('route.deleted', 'route flush proto 94'),
  ip('route.6 deleted', '-6 route flush proto 94'),
  ip('route.all over the gateway', `route flush dev ${gateway}`),
  ip('route.foreign', 'route add blackhole 198.51.100.0/24 proto 94'),
  ip('address.flushed', `address flush dev ${gateway} scope global`),
  ip('address.foreign', `address add 192.0.2.7/24 dev ${gateway}`),
  ip('neighbour.flushed', `neighbour flush dev ${gateway} nud permanent`),
  ip('neighbour.foreign', `neighbour replace 192.0.2.9 lladdr 0e:00:00:00:99:99 nud permanent dev ${gateway}`),
  ip('gateway.down', `link set ${gateway} down`),
  // OVS undoes it by itself, mostly before the agent has checked.
  uncounted(ip('gateway.mtu', `link set ${gateway} mtu 1300`)),
  ip('gateway.mac', `link set ${gateway} address 0e:00:00:00:99:99`),
  nft('flushed', 'flush ruleset inet'),
  nft('table deleted', 'delete table inet seine'),
  nft('rules flushed', 'flush table inet seine-services'),
  nft('element added', `add element ${elements} { tcp . 9 }`),
  faultStep('nft.elements flushed', 'firewall', 'announced', async ({ lab }) => {
    const held = (await lab.on('nft', `list set ${elements}`)).includes('elements');
    await lab.on('nft', `flush set ${elements}`);
    return held ? '' : nothingThere;
  }),
  nft('rule inserted', 'insert rule inet seine forward drop'),
  nft('foreign chain', 'add chain inet seine chaos { type filter hook input priority 5; }'),
  sysctl('no forwarding', 'net.ipv4.ip_forward=0'),
  sysctl('no forwarding 6', 'net.ipv6.conf.all.forwarding=0'),
  sysctl('strict', `net.ipv4.conf.${gateway}.rp_filter=1`),
  sysctl('redirects', `net.ipv4.conf.${gateway}.send_redirects=1`),
  // Until it is restored the bridge is a plain switch: pods answer from their own addresses to packets for a Service, and clients reset
  // that.
  { ...vsctl('fails open', 'set', 'Bridge', 'br-int', 'fail_mode=standalone'), forgets: true },
  vsctl('bridge unmarked', 'set', 'Bridge', 'br-int', 'external_ids={}'),
  vsctl('spanning tree', 'set', 'Bridge', 'br-int', 'stp_enable=true'),
  vsctl('controller', 'set-controller', 'br-int', 'tcp:192.0.2.9:6653'),
  vsctl('tunnel options', 'set', 'Interface', 'antrea-tun0', 'options:remote_ip=192.0.2.1'),
  vsctl('tunnel deleted', 'del-port', 'br-int', 'antrea-tun0'),
  vsctl('gateway deleted', 'del-port', 'br-int', gateway),
  vsctl('gateway mtu', 'set', 'Interface', gateway, 'mtu_request=600'),
  ofPod('pod.port deleted', 'switch', (link) => ['ovs-vsctl', 'del-port', 'br-int', link]),
  ofPod('pod.port unmarked', 'switch', (link) => ['ovs-vsctl', 'set', 'Port', link, 'external_ids={}']),
  ofPod('pod.port number', 'switch', (link) => ['ovs-vsctl', 'set', 'Interface', link, 'ofport_request=4711']),
  ofPod('pod.policed', 'switch', (link) => ['ovs-vsctl', 'set', 'Interface', link, 'ingress_policing_rate=1']),
  ofPod('pod.link deleted', 'links', (link) => ['ip', 'link', 'delete', link]),
  ofPod('pod.link down', 'links', (link) => ['ip', 'link', 'set', link, 'down']),
  ofPod('pod.link mtu', 'links', (link) => ['ip', 'link', 'set', link, 'mtu', '600']),
  ofPod('pod.link alias', 'links', (link) => ['ip', 'link', 'set', link, 'alias', 'chaos']),
];
