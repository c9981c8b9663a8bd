import { randomBytes } from 'node:crypto';
import { closeSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { inParallel } from '../../lab/demo/scene.ts';
import { demoNamespace } from '../../lab/demo/workload.ts';
import { createNetns, deleteNetns, ipBatch, runIn } from '../../lab/machine/netns.ts';
import { transportInterface } from '../../lab/node/topology.ts';
import { ask, download, upload } from '../../lab/probe/probe.ts';
import { Responder } from '../../lab/probe/responder.ts';
import { listenTcpIn } from '../../lab/probe/sockets.ts';
import { cidrOf, parseIp } from '../../src/base/net/ip.ts';
import { type Aim, eventually, families, type KubeService, podManifest, protocols, ServiceLab, silent } from '../support/service-lab.ts';
import { slowness } from '../support/test-datapath.ts';
import { meaningsInLab, traceInLab } from '../support/traced-lab.ts';

/** Node ports, load balancers and external addresses, from external clients, from pods and from nodes, in both families. */
let lab: ServiceLab;

const web = { selector: { app: 'web' } };
const webs = ['web-1', 'web-2', 'web-3'];
const nodes = ['node-1', 'node-2', 'node-3'];
/** With this number, one of three is missed by chance once in a hundred thousand times. */
const enough = 30;
const leaving = { ready: false, serving: true, terminating: true };

/** Pods of class E and of NAT64, which work like any others. */
const podCidrs = ['240.16.0.0/16', '64:ff9b:1:100::/56'];

beforeAll(async () => {
  lab = await ServiceLab.start([], { podCidrs });
}, 180_000 * slowness);
afterAll(async () => {
  await lab?.remove();
});

const fromExternal = (service: KubeService, node: string) => lab.nodeAims(service, 'external', node);

/** Returns the address from which a place sends to another. In a lab of two subnets the external server has one in each. */
async function sourceTo({ from, address }: Aim): Promise<string> {
  const route = await runIn(lab.place(from), 'ip', ['route', 'get', address], {}, AbortSignal.timeout(5_000 * slowness));
  return / src (\S+)/.exec(route)?.[1] ?? '';
}

describe('a node port', () => {
  it('answers at every address of every node: to external clients, pods, its own node and others', async () => {
    const service = await lab.service(lab.name('port'), { ...web, type: 'NodePort' });
    for (const node of nodes)
      for (const from of ['external', 'client-1', 'node-1', 'node-2'])
        await lab.allSee(lab.nodeAims(service, from, node), { pods: webs, failures: [] }, { tries: enough });
    await lab.seesEverywhere(service, ['client-1', 'node-2'], { pods: webs, failures: [] }, { tries: enough });
  });

  it('does not answer on the loopback', async () => {
    const service = await lab.service(lab.name('loopback'), { ...web, type: 'NodePort' });
    await lab.allSee(fromExternal(service, 'node-1'), { failures: [] });
    for (const address of ['127.0.0.1', '::1'])
      expect(await lab.look({ from: 'node-1', address, port: lab.nodePort(service, 'tcp'), tries: 2 })).toMatchObject({ pods: [] });
  });

  it('answers at addresses that are added later, and no more when they are removed', async () => {
    const service = await lab.service(lab.name('later'), { ...web, type: 'NodePort' });
    const added = ['192.168.77.101/24', 'fd00:77::101/64'];
    const change = async (verb: 'add' | 'del') => {
      for (const address of added) {
        const nodad = verb === 'add' && address.includes(':') ? ['nodad'] : [];
        await runIn(
          lab.place('node-1'),
          'ip',
          ['addr', verb, address, 'dev', transportInterface(lab.lab.plan), ...nodad],
          {},
          AbortSignal.timeout(5_000 * slowness),
        );
      }
    };
    const aims = added.flatMap((address): Aim[] =>
      protocols.map((protocol) => ({
        from: 'external',
        address: address.replace(/\/.*/, ''),
        port: lab.nodePort(service, protocol),
        protocol,
      })),
    );
    await change('add');
    await lab.allSee(aims, { failures: [] });
    await change('del');
    await lab.allSee(aims, { pods: [] }, silent);
  });

  it('moves with the number, and is silent after the Service or its type is deleted', async () => {
    const name = lab.name('moving');
    const service = await lab.service(name, { ...web, type: 'NodePort' });
    const before = fromExternal(service, 'node-2');
    await lab.allSee(before, { failures: [] });
    const ports = service.spec.ports.map((port, index) => ({ ...port, nodePort: 32_001 + index }));
    const moved = await lab.change(name, { spec: { ports } });
    await lab.allSee(fromExternal(moved, 'node-2'), { failures: [] });
    await lab.allSee(before, { pods: [] }, silent);
    const plain = await lab.change(name, { spec: { type: 'ClusterIP' } });
    await lab.allSee(fromExternal(moved, 'node-2'), { pods: [] }, silent);
    await lab.seesEverywhere(plain, ['client-1'], { failures: [] });
    const again = await lab.change(name, { spec: { type: 'NodePort', ports } });
    await lab.allSee(fromExternal(again, 'node-2'), { failures: [] });
    await lab.delete('services', name);
    await lab.allSee(fromExternal(moved, 'node-2'), { pods: [] }, { tries: 10 });
    await lab.seesEverywhere(service, ['client-1'], { pods: [] }, silent);
  });

  it('shows the client to a remote endpoint: a pod of the node as itself, external clients by an address that no host has', async () => {
    const name = lab.name('seen');
    const service = await lab.service(name, { type: 'NodePort' });
    await lab.endpoints(name, [{ pod: 'web-2' }]);
    // Addresses of the networks that every node of a lab has.
    const network = (aim: Aim) => cidrOf(parseIp(lab.ip('client-1', familyOf(aim))), familyOf(aim) === 'ipv4' ? 22 : 64).network.text;
    for (const aim of fromExternal(service, 'node-1')) await lab.sees(aim, { pods: ['web-2'], failures: [], clients: [network(aim)] });
    for (const aim of lab.nodeAims(service, 'client-1', 'node-1'))
      await lab.sees(aim, { pods: ['web-2'], failures: [], clients: [lab.ip('client-1', familyOf(aim))] });
  });

  it('refuses immediately while there is no endpoint', async () => {
    const service = await lab.service(lab.name('port-of-none'), { selector: { app: 'unused' }, type: 'NodePort' });
    for (const from of ['external', 'client-2', 'node-2'])
      await lab.allSee(lab.nodeAims(service, from, 'node-2'), { pods: [], failures: ['REFUSED'] }, { tries: 3, timeoutMs: 600 });
  });

  it('forwards to pods of the host network, on the same node and on others', async () => {
    const ports = protocols.map((protocol) => ({ name: protocol, port: 80, targetPort: 8081, protocol: protocol.toUpperCase() }));
    const service = await lab.service(lab.name('port-of-hosts'), { selector: { app: 'host' }, type: 'NodePort', ports });
    for (const from of ['external', 'client-1', 'node-1', 'node-3'])
      await lab.allSee(lab.nodeAims(service, from, 'node-1'), { pods: ['host-1', 'host-2', 'host-3'], failures: [] }, { tries: enough });
  });

  it('keeps an external client at one endpoint, with affinity', async () => {
    const spec = { ...web, type: 'NodePort', sessionAffinity: 'ClientIP' };
    const name = lab.name('sticky-port');
    const service = await lab.service(name, spec);
    await lab.allSee(fromExternal(service, 'node-1'), { failures: [] });
    const held = () => inParallel(fromExternal(service, 'node-1'), async (aim) => (await lab.look({ ...aim, tries: 15 })).pods);
    const first = await held();
    for (const pods of first) expect(pods).toHaveLength(1);
    expect(await held()).toEqual(first);
    await lab.change(name, { spec: { sessionAffinity: 'None' } });
    await lab.allSee(fromExternal(service, 'node-1'), { pods: webs }, { tries: enough });
  });
});

describe('externalTrafficPolicy Local', () => {
  const local = { type: 'LoadBalancer', externalTrafficPolicy: 'Local' };

  it('answers if an endpoint is local, which sees the client itself, and drops elsewhere', async () => {
    const name = lab.name('local');
    const service = await lab.service(name, local);
    await lab.endpoints(name, [{ pod: 'web-2' }]);
    for (const aim of fromExternal(service, 'node-2'))
      await lab.sees(aim, { pods: ['web-2'], failures: [], clients: [await sourceTo(aim)] });
    await lab.allSee(fromExternal(service, 'node-1'), { pods: [], failures: ['TIMEOUT'] }, silent);
    await lab.allSee(lab.nodeAims(service, 'client-3', 'node-3'), { pods: ['web-2'], failures: [] });
    await lab.seesEverywhere(service, ['client-3', 'node-1'], { pods: ['web-2'], failures: [] });
  });

  it('is reported to load balancers: healthy if an endpoint is ready, not if it only terminates, though it serves', async () => {
    const name = lab.name('health');
    const { spec } = await lab.service(name, local);
    const health = (node: string, status: number, localEndpoints: number) =>
      Promise.all(
        families.map((family) =>
          eventually(async () =>
            expect(await lab.page('external', lab.ip(node, family), spec.healthCheckNodePort ?? 0)).toMatchObject({
              status,
              body: { service: { namespace: 'demo', name }, localEndpoints },
            }),
          ),
        ),
      );
    await lab.endpoints(name, [{ pod: 'web-2' }, { pod: 'client-2' }]);
    await health('node-2', 200, 2);
    await health('node-1', 503, 0);
    await lab.endpoints(name, [{ pod: 'web-2', ...leaving }, { pod: 'web-1' }]);
    await health('node-2', 503, 0);
    await health('node-1', 200, 1);
    const service = await lab.change(name, {});
    await lab.allSee(fromExternal(service, 'node-2'), { pods: ['web-2'], failures: [] });
    await lab.delete('services', name);
    await eventually(async () => {
      await expect(lab.page('external', lab.ip('node-1', 'ipv4'), spec.healthCheckNodePort ?? 0)).rejects.toThrow('ECONNREFUSED');
    });
  });
});

it('falls back to endpoints that terminate, with externalTrafficPolicy Cluster', async () => {
  const name = lab.name('leaving');
  const service = await lab.service(name, { type: 'NodePort' });
  await lab.endpoints(name, [{ pod: 'web-1', ...leaving }, { pod: 'web-2' }]);
  await lab.allSee(fromExternal(service, 'node-3'), { pods: ['web-2'], failures: [] }, { tries: 12 });
  await lab.endpoints(name, [{ pod: 'web-1', ...leaving }]);
  await lab.allSee(fromExternal(service, 'node-3'), { pods: ['web-1'], failures: [] });
});

describe('a host port', () => {
  const containerPort = 8_000;
  /** @param hostPorts those of TCP and UDP, both of the container's port */
  const start = async (name: string, ...hostPorts: readonly { readonly hostPort: number; readonly hostIP?: string }[]) => {
    const ports = hostPorts.flatMap((each, at) =>
      protocols.map((protocol) => ({ name: `${protocol}-${at}`, containerPort, protocol: protocol.toUpperCase(), ...each })),
    );
    await lab.start(podManifest(name, 'node-1', { app: name }, { container: { ports } }));
  };
  const at = (from: string, address: string, port: number): Aim[] => protocols.map((protocol) => ({ from, address, port, protocol }));
  const atNode = (from: string, port: number): Aim[] => families.flatMap((family) => at(from, lab.ip('node-1', family), port));

  it('forwards to its pod: from external clients, pods of this node and of others, both nodes, and from the pod itself', async () => {
    const name = lab.name('ported');
    await start(name, { hostPort: 8_080 });
    for (const from of ['external', 'client-1', 'client-2', 'node-1', 'node-2', name])
      await lab.allSee(atNode(from, 8_080), { pods: [name], failures: [] });
    await lab.allSee(at('node-1', '127.0.0.1', 8_080), { pods: [name], failures: [] });
    for (const from of ['external', 'client-1'])
      for (const aim of atNode(from, 8_080)) await lab.sees(aim, { clients: [lab.ip(from, familyOf(aim))] });
    await lab.delete('pods', name);
    for (const from of ['external', 'node-1']) await lab.allSee(atNode(from, 8_080), { pods: [] }, silent);
  });

  it('is at one address of the node, if it names one', async () => {
    const [here, loopback] = [lab.name('addressed'), lab.name('addressed')];
    await start(here, { hostPort: 8_083, hostIP: lab.ip('node-1', 'ipv4') });
    await start(loopback, { hostPort: 8_083, hostIP: '127.0.0.1' });
    await lab.allSee(at('external', lab.ip('node-1', 'ipv4'), 8_083), { pods: [here], failures: [] });
    await lab.allSee(at('external', lab.ip('node-1', 'ipv6'), 8_083), { pods: [] }, silent);
    await lab.allSee(at('node-1', '127.0.0.1', 8_083), { pods: [loopback], failures: [] });
  });

  it('at an address that is not the node’s takes no traffic, serves once the node has the address, and ends with it', {
    tags: 'hardening',
  }, async () => {
    const added = ['198.51.100.250', '2001:db8:51::250'];
    for (const address of added) await lab.route(address, 'node-1');
    const names = [lab.name('foreign'), lab.name('foreign')];
    for (const [index, hostIP] of added.entries()) await start(names[index] ?? '', { hostPort: 8_084, hostIP });
    const aims = (from: string): Aim[] => added.flatMap((address) => at(from, address, 8_084));
    const change = async (verb: 'add' | 'del') => {
      for (const address of added) {
        const prefix = address.includes(':') ? ['/128', 'nodad'] : ['/32'];
        const words = ['addr', verb, `${address}${prefix[0]}`, 'dev', 'lo', ...(verb === 'add' ? prefix.slice(1) : [])];
        await runIn(lab.place('node-1'), 'ip', words, {}, AbortSignal.timeout(5_000 * slowness));
      }
    };
    const waits = added.map((address, index) => `pod demo/${names[index]}: host port ${textOf(address)}/tcp waits for its address`);
    for (const from of ['external', 'client-1', 'node-1']) await lab.allSee(aims(from), { pods: [] }, silent);
    await eventually(async () => {
      const problems = await lab.problems('node-1');
      for (const wait of waits) expect(problems).toContain(wait);
    });
    await change('add');
    for (const from of ['external', 'client-1', 'node-1']) await lab.allSee(aims(from), { failures: [] });
    await eventually(async () => expect(await lab.problems('node-1')).not.toContain('waits for its address'));
    await change('del');
    for (const from of ['external', 'client-1', 'node-1']) await lab.allSee(aims(from), { pods: [] }, silent);
    for (const name of names) await lab.delete('pods', name);
  });

  it('is rejected at addresses of others, and at ports that the node serves', { tags: 'hardening' }, async () => {
    const service = await lab.service(lab.name('victim'), { ...web });
    const clusterIp = service.spec.clusterIPs?.[0] ?? '';
    const cases = [
      [{ hostIP: clusterIp, hostPort: 80 }, 'is the cluster address of Service'],
      [{ hostIP: lab.ip('client-2', 'ipv4'), hostPort: 80 }, 'belongs to pods of node'],
      [{ hostIP: lab.ip('client-2', 'ipv6'), hostPort: 80 }, 'belongs to pods of node'],
      [{ hostIP: lab.ip('node-2', 'ipv4'), hostPort: 80 }, 'belongs to the tunnel of node'],
      [{ hostIP: '169.254.169.254', hostPort: 80 }, 'is link-local'],
      [{ hostPort: 10_256 }, 'belongs to the health check of the Service proxy'],
      [{ hostIP: '127.0.0.1', hostPort: 10_250 }, 'belongs to the kubelet'],
    ] as const;
    for (const [more, reason] of cases) {
      const name = lab.name('refused');
      const manifest = podManifest(name, 'node-1', {}, { container: { ports: [{ containerPort, ...more }] } });
      await lab.lab.api.send({ method: 'POST', path: manifest.collection, body: manifest.object }, AbortSignal.timeout(10_000));
      await eventually(async () => expect((await lab.events('Pod', name)).join()).toContain(reason));
      await lab.delete('pods', name);
    }
  });

  it('leaves the address of a process that listens at the same port, and is rejected if the process has the same address', {
    tags: 'hardening',
  }, async () => {
    const everywhere = lab.name('beside');
    const sockets = (
      [
        ['127.0.0.53', 8_086],
        ['127.0.0.53', 8_087],
        ['::', 8_088],
      ] as const
    ).map(([address, port]) => listenTcpIn(lab.place('node-1'), address, port));
    await start(everywhere, { hostPort: 8_086 });
    await lab.allSee(at('external', lab.ip('node-1', 'ipv4'), 8_086), { pods: [everywhere], failures: [] });
    const tcpAtProcess: Aim = { from: 'node-1', address: '127.0.0.53', port: 8_086, protocol: 'tcp' };
    await lab.sees(tcpAtProcess, { pods: [] });
    for (const more of [{ hostIP: '127.0.0.53', hostPort: 8_087 }, { hostPort: 8_088 }]) {
      const refused = lab.name('refused');
      const manifest = podManifest(refused, 'node-1', {}, { container: { ports: [{ containerPort, ...more }] } });
      await lab.lab.api.send({ method: 'POST', path: manifest.collection, body: manifest.object }, AbortSignal.timeout(10_000));
      await eventually(async () =>
        expect((await lab.events('Pod', refused)).join()).toContain('is in use: a process of the node listens at'),
      );
      await lab.delete('pods', refused);
    }
    for (const each of sockets) closeSync(each);
  });

  it('is lost to a Service that gets the port as health check node port later, and the loss is reported', {
    tags: 'hardening',
  }, async () => {
    const name = lab.name('outlived');
    await start(name, { hostPort: 31_777 });
    await lab.allSee(atNode('external', 31_777), { pods: [name], failures: [] });
    const balanced = { ...web, type: 'LoadBalancer', externalTrafficPolicy: 'Local', healthCheckNodePort: 31_777 };
    const service = lab.name('checked');
    await lab.service(service, balanced);
    await eventually(async () =>
      expect(await lab.problems('node-1')).toContain(
        `pod demo/${name}: host port 31777/tcp is not served: 31777/tcp belongs to Service demo/${service}`,
      ),
    );
    const tcp = families.map((family): Aim => ({ from: 'external', address: lab.ip('node-1', family), port: 31_777, protocol: 'tcp' }));
    for (const aim of tcp) await lab.sees(aim, { pods: [] });
    await eventually(async () =>
      expect((await lab.page('external', lab.ip('node-1', 'ipv4'), 31_777)).body).toHaveProperty('service.name', service),
    );
  });

  it('belongs to one pod, and no pod gets a node port of a Service', async () => {
    const [first, second, third] = [lab.name('claimed'), lab.name('claimed'), lab.name('claimed')];
    await start(first, { hostPort: 8_082 });
    const service = await lab.service(lab.name('claiming'), { ...web, type: 'NodePort' });
    const nodePort = lab.nodePort(service, 'tcp');
    for (const [name, hostPort] of [[second, 8_082] as const, [third, nodePort] as const]) {
      const manifest = podManifest(name, 'node-1', {}, { container: { ports: [{ containerPort, hostPort }] } });
      await lab.lab.api.send({ method: 'POST', path: manifest.collection, body: manifest.object }, AbortSignal.timeout(10_000));
    }
    const reported = async (name: string) => (await lab.events('Pod', name)).join();
    await eventually(async () => expect(await reported(second)).toContain(`hostPort: 8082/tcp belongs to pod demo/${first}`));
    await eventually(async () => expect(await reported(third)).toContain(`hostPort: ${nodePort}/tcp belongs to Service demo/`));
    for (const name of [second, third]) await lab.delete('pods', name);
    await lab.allSee(atNode('external', 8_082), { pods: [first], failures: [] });
  });
});

/** The address of a host port as problems name it. */
const textOf = (address: string): string => `${address.includes(':') ? `[${address}]` : address}:8084`;

/** Addresses of the tests, which the outside network routes to node 1. */
let taken = 0;
async function balancerAddresses(): Promise<readonly string[]> {
  taken++;
  const addresses = [`198.51.100.${taken}`, `2001:db8:51::${taken.toString(16)}`];
  for (const address of addresses) await lab.route(address, 'node-1');
  return addresses;
}

const at = (addresses: readonly string[], from: string): Aim[] =>
  addresses.flatMap((address) => protocols.map((protocol) => ({ from, address, port: 80, protocol })));

describe('a load balancer', () => {
  const ingress = (list: readonly object[]) => ({ status: { loadBalancer: { ingress: list } } });

  it('is answered on the node that its packets reach, and in the cluster directly', async () => {
    const name = lab.name('balanced');
    await lab.service(name, { ...web, type: 'LoadBalancer' });
    const addresses = await balancerAddresses();
    await lab.change(name, ingress(addresses.map((ip) => ({ ip }))), '/status');
    for (const from of ['external', 'client-2', 'node-3'])
      await lab.allSee(at(addresses, from), { pods: webs, failures: [] }, { tries: enough });
    await lab.change(name, ingress([]), '/status');
    for (const from of ['external', 'client-2']) await lab.allSee(at(addresses, from), { pods: [] }, silent);
  });

  it('with ipMode Proxy is left to itself', async () => {
    const name = lab.name('proxied');
    const service = await lab.service(name, { ...web, type: 'LoadBalancer' });
    const addresses = await balancerAddresses();
    await lab.change(name, ingress(addresses.map((ip) => ({ ip, ipMode: 'Proxy' }))), '/status');
    await lab.allSee(fromExternal(service, 'node-1'), { failures: [] });
    for (const from of ['client-1', 'node-2']) await lab.allSee(at(addresses, from), { pods: [] }, silent);
  });

  it('is closed to those outside loadBalancerSourceRanges', async () => {
    const name = lab.name('ranges');
    const external = families.map((family) => `${lab.ip('external', family)}/${family === 'ipv4' ? 32 : 128}`);
    await lab.service(name, { ...web, type: 'LoadBalancer', loadBalancerSourceRanges: external });
    const addresses = await balancerAddresses();
    await lab.change(name, ingress(addresses.map((ip) => ({ ip }))), '/status');
    await lab.allSee(at(addresses, 'external'), { failures: [] });
    await lab.allSee(at(addresses, 'client-1'), { pods: [], failures: ['TIMEOUT'] }, silent);
    await lab.change(name, { spec: { loadBalancerSourceRanges: ['192.0.2.0/24', '2001:db8:2::/48'] } });
    await lab.allSee(at(addresses, 'external'), { pods: [], failures: ['TIMEOUT'] }, silent);
    await lab.change(name, { spec: { loadBalancerSourceRanges: null } });
    for (const from of ['external', 'client-1']) await lab.allSee(at(addresses, from), { failures: [] });
  });

  it('needs no node ports', async () => {
    const name = lab.name('portless');
    const service = await lab.service(name, { ...web, type: 'LoadBalancer', allocateLoadBalancerNodePorts: false });
    expect(service.spec.ports.map(({ nodePort }) => nodePort)).toEqual([undefined, undefined]);
    const addresses = await balancerAddresses();
    await lab.change(name, ingress(addresses.map((ip) => ({ ip }))), '/status');
    await lab.allSee(at(addresses, 'external'), { pods: webs, failures: [] }, { tries: enough });
  });

  it('with externalTrafficPolicy Local shows the client to the endpoint', async () => {
    const name = lab.name('balanced-local');
    await lab.service(name, { type: 'LoadBalancer', externalTrafficPolicy: 'Local' });
    await lab.endpoints(name, [{ pod: 'web-1' }, { pod: 'web-2' }]);
    const addresses = await balancerAddresses();
    await lab.change(name, ingress(addresses.map((ip) => ({ ip }))), '/status');
    for (const aim of at(addresses, 'external'))
      await lab.sees(aim, { pods: ['web-1'], failures: [], clients: [lab.ip('external', familyOf(aim))] });
    await lab.allSee(at(addresses, 'client-3'), { pods: ['web-1', 'web-2'], failures: [] }, { tries: 14 });
  });
});

/** Binds addresses on a node, or in the outside network. */
async function bind(verb: 'add' | 'del', place: string, addresses: readonly string[]): Promise<void> {
  for (const address of addresses) {
    const isIpv6 = address.includes(':');
    const nodad = verb === 'add' && isIpv6 ? ['nodad'] : [];
    const args = ['addr', verb, `${address}/${isIpv6 ? 128 : 32}`, 'dev', 'lo', ...nodad];
    await runIn(lab.place(place), 'ip', args, {}, AbortSignal.timeout(5_000 * slowness));
  }
}

/** Makes the outside network forward packets between nodes, like a router. */
async function forwardInExternal(): Promise<void> {
  const settings = ['net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1'];
  await runIn(lab.place('external'), 'sysctl', ['-qw', ...settings], {}, AbortSignal.timeout(5_000 * slowness));
}

describe('a load balancer’s address that a node has', () => {
  const ingress = (list: readonly string[]) => ({ status: { loadBalancer: { ingress: list.map((ip) => ({ ip })) } } });
  const unusedNetworks = ['192.0.2.0/24', '2001:db8:2::/48'];
  const balanced = async (prefix: string, spec: object, pods: readonly string[]) => {
    const [name, addresses] = [lab.name(prefix), await balancerAddresses()];
    const service = await lab.service(name, { type: 'LoadBalancer', ...spec });
    await lab.endpoints(
      name,
      pods.map((pod) => ({ pod })),
    );
    await lab.change(name, ingress(addresses), '/status');
    return { name, addresses, service };
  };

  it('is forwarded to pods of the host network, one of them at the same address and port', async () => {
    const name = lab.name('own-port');
    const ports = protocols.map((protocol) => ({ name: protocol, port: 8081, targetPort: 8081, protocol: protocol.toUpperCase() }));
    await lab.service(name, { selector: { app: 'host' }, type: 'LoadBalancer', ports });
    const addresses = families.map((family) => lab.ip('node-1', family));
    await lab.change(name, ingress(addresses), '/status');
    for (const from of ['external', 'client-1', 'client-2', 'node-1', 'node-3'])
      await lab.allSee(
        at(addresses, from).map((aim) => ({ ...aim, port: 8081 })),
        { pods: ['host-1', 'host-2', 'host-3'], failures: [] },
        { tries: enough },
      );
    await lab.change(name, ingress([]), '/status');
  });

  it('is served there for processes of other nodes, as for clients outside, and on their own node for pods; traces have the same', async () => {
    const name = lab.name('elsewhere');
    await lab.service(name, { type: 'LoadBalancer', externalTrafficPolicy: 'Local' });
    await lab.endpoints(name, [{ pod: 'web-1' }, { pod: 'web-2' }]);
    const addresses = families.map((family) => lab.ip('node-2', family));
    await lab.change(name, ingress(addresses), '/status');
    const traced = async (from: string) =>
      await Promise.all(addresses.map((to) => agreedTrace(from === 'client-1' ? `${demoNamespace}/client-1` : from, { to, port: '80' })));
    const endpointsOf = (...pods: readonly string[]) => families.map((family) => pods.map((pod) => `${lab.ip(pod, family)}:80`).sort());
    for (const from of ['node-1', 'external']) await lab.allSee(at(addresses, from), { pods: ['web-2'], failures: [] }, { tries: enough });
    for (const from of ['client-1', 'node-2'])
      await lab.allSee(at(addresses, from), { pods: ['web-1', 'web-2'], failures: [] }, { tries: enough });
    expect(await traced('node:node-1')).toEqual(endpointsOf('web-2').map((endpoints) => ({ nodes: ['node-1', 'node-2'], endpoints })));
    expect(await traced('client-1')).toMatchObject(endpointsOf('web-1', 'web-2').map((endpoints) => ({ endpoints })));
    await lab.endpoints(name, [{ pod: 'web-1' }]);
    for (const from of ['node-1', 'external']) await lab.allSee(at(addresses, from), { pods: [], failures: ['TIMEOUT'] }, silent);
    await lab.allSee(at(addresses, 'client-1'), { pods: ['web-1'], failures: [] });
    expect(await traced('node:node-1')).toEqual(families.map(() => ({ nodes: ['node-1', 'node-2'], endpoints: [] })));
    await lab.change(name, ingress([]), '/status');
  });

  it('is served before the node has it, while it has it, and afterwards', { tags: 'hardening' }, async () => {
    const { addresses } = await balanced('moved', {}, ['web-2']);
    const everywhere = async () => {
      for (const from of ['external', 'client-1', 'client-2', 'node-1', 'node-3'])
        await lab.allSee(at(addresses, from), { pods: ['web-2'], failures: [] });
    };
    // From the agent's last report of the node's addresses.
    const has = (): readonly boolean[] => {
      const changes = lab.lab.log(1).flatMap(({ localAddresses }) => (localAddresses as { readonly now?: string } | undefined)?.now ?? []);
      return addresses.map((address) => changes.at(-1)?.split(', ').includes(address) ?? false);
    };
    const report = { timeout: 10_000 * slowness };
    await everywhere();
    await bind('add', 'node-1', addresses);
    await expect.poll(has, report).toEqual([true, true]);
    await everywhere();
    await bind('del', 'node-1', addresses);
    await expect.poll(has, report).toEqual([false, false]);
    await everywhere();
  });

  it('has the same port as another Service at another address of that node, and both are served', { tags: 'hardening' }, async () => {
    const [first, second] = [await balanced('one', {}, ['web-1']), await balanced('other', {}, ['web-2'])];
    await bind('add', 'node-1', [...first.addresses, ...second.addresses]);
    for (const from of ['external', 'client-1', 'client-2', 'node-1', 'node-2']) {
      await lab.allSee(at(first.addresses, from), { pods: ['web-1'], failures: [] });
      await lab.allSee(at(second.addresses, from), { pods: ['web-2'], failures: [] });
    }
    expect(await lab.events('Service', second.name)).toEqual([]);
    await bind('del', 'node-1', [...first.addresses, ...second.addresses]);
  });

  it('keeps its other ports and the node port reachable from nodes without the address, and from their pods', {
    tags: 'hardening',
  }, async () => {
    const { addresses, service } = await balanced('other-ports', {}, ['web-1']);
    await bind('add', 'node-2', addresses);
    await forwardInExternal();
    for (const address of addresses) await lab.route(address, 'node-2');
    const other = 8_090;
    const ports = protocols.map((protocol) => ({ protocol, port: other }));
    const lists = { tcp: addresses, udp: addresses };
    const identity = { pod: 'process', node: 'node-2' };
    const process = await Responder.start(identity, lab.place('node-2'), lists, ports, AbortSignal.timeout(30_000));
    const aimsAt = (from: string, portOf: (protocol: Aim['protocol']) => number): Aim[] =>
      at(addresses, from).map((aim) => ({ ...aim, port: portOf(aim.protocol) }));
    for (const from of ['node-1', 'client-1', 'node-2', 'client-2', 'external']) {
      await lab.allSee(at(addresses, from), { pods: ['web-1'], failures: [] });
      await lab.allSee(
        aimsAt(from, () => other),
        { pods: ['process'], failures: [] },
      );
      await lab.allSee(
        aimsAt(from, (protocol = 'tcp') => lab.nodePort(service, protocol)),
        { pods: ['web-1'], failures: [] },
      );
    }
    // External packets to a node without the address do not pass the link between that node and the outside to their end.
    for (const address of addresses) await lab.route(address, 'node-3');
    await lab.allSee(at(addresses, 'external'), { pods: ['web-1'], failures: [] });
    await lab.allSee(
      aimsAt('external', () => other),
      { pods: [], failures: ['TIMEOUT'] },
      silent,
    );
    process.close();
    await bind('del', 'node-2', addresses);
  });

  it('gets ICMP errors about its connections: large answers pass a link with a smaller MTU, and those to and from a node pass the gateway’s', {
    tags: 'hardening',
  }, async () => {
    const { addresses } = await balanced('narrow', {}, ['web-1']);
    await forwardInExternal();
    const [far, signal] = [`far-${randomBytes(3).toString('hex')}`, AbortSignal.timeout(30_000 * slowness)];
    await createNetns(far, signal);
    try {
      // The outside's end of the link has a small MTU, the client's does not: only an error from outside informs the endpoint.
      await ipBatch(
        lab.place('external'),
        [
          `link add narrow0 mtu 1300 type veth peer name eth0 mtu 1500 netns ${far}`,
          'link set narrow0 up',
          'addr add 192.0.2.9/30 dev narrow0',
          'addr add 2001:db8:9::1/64 dev narrow0 nodad',
        ],
        signal,
      );
      const ofClient = ['addr add 192.0.2.10/30 dev eth0', 'addr add 2001:db8:9::2/64 dev eth0 nodad', 'link set eth0 up'];
      await ipBatch(far, [...ofClient, 'route add default via 192.0.2.9', 'route add default via 2001:db8:9::1'], signal);
      for (const from of [far, lab.place('node-1')])
        for (const address of addresses) {
          const probe = { from, address, port: 80, protocol: 'tcp', timeoutMs: 5_000 * slowness } as const;
          await eventually(async () => expect(await ask(probe)).toMatchObject({ is: 'OK' }));
          expect(await download(probe, 200_000), `${from} ${address}`).toBe(200_000);
          expect(await upload(probe, 200_000)).toMatchObject({ is: 'OK' });
        }
    } finally {
      await ipBatch(lab.place('external'), ['link delete narrow0'], signal);
      await deleteNetns(far, signal);
    }
  });

  it('with externalTrafficPolicy Local and without node ports shows the client to an endpoint there, and drops without one', {
    tags: 'hardening',
  }, async () => {
    const spec = { externalTrafficPolicy: 'Local', allocateLoadBalancerNodePorts: false };
    const { name, addresses } = await balanced('own-local', spec, ['web-1', 'web-2']);
    await bind('add', 'node-1', addresses);
    for (const aim of at(addresses, 'external'))
      await lab.sees({ ...aim, tries: 14 }, { pods: ['web-1'], failures: [], clients: [lab.ip('external', familyOf(aim))] });
    await lab.endpoints(name, [{ pod: 'web-2' }]);
    await lab.allSee(at(addresses, 'external'), { pods: [], failures: ['TIMEOUT'] }, silent);
    await lab.allSee(at(addresses, 'client-1'), { pods: ['web-2'], failures: [] });
    await lab.endpoints(name, [{ pod: 'web-1' }]);
    await lab.allSee(at(addresses, 'external'), { pods: ['web-1'], failures: [] });
    await bind('del', 'node-1', addresses);
  });

  it.each([[true], [false]])(
    'admits only loadBalancerSourceRanges, if node ports are allocated: %s',
    { tags: 'hardening' },
    async (allocateLoadBalancerNodePorts) => {
      const external = families.map((family) => `${lab.ip('external', family)}/${family === 'ipv4' ? 24 : 64}`);
      const spec = { allocateLoadBalancerNodePorts, loadBalancerSourceRanges: external };
      const { name, addresses } = await balanced('own-ranges', spec, ['web-2']);
      await bind('add', 'node-1', addresses);
      await lab.allSee(at(addresses, 'external'), { pods: ['web-2'], failures: [] });
      await eventually(async () => expect((await lab.events('Service', name)).join()).toContain('has host bits; the network is'));
      await lab.change(name, { spec: { loadBalancerSourceRanges: unusedNetworks } });
      await lab.allSee(at(addresses, 'external'), { pods: [], failures: ['TIMEOUT'] }, silent);
      await lab.change(name, { spec: { loadBalancerSourceRanges: null } });
      await lab.allSee(at(addresses, 'external'), { pods: ['web-2'], failures: [] });
      await bind('del', 'node-1', addresses);
    },
  );
});

describe('addresses of class E and of NAT64', () => {
  it('are pods’, load balancers’ and endpoints’', async () => {
    const outside = ['240.0.2.1', '64:ff9b::c000:201'];
    const balancers = ['240.0.3.1', '64:ff9b:1:3::1'];
    for (const address of balancers) await lab.route(address, 'node-1');
    await bind('add', 'external', outside);
    const ports = protocols.map((protocol) => ({ protocol, port: 80 }));
    const lists = { tcp: outside, udp: outside };
    const responder = await Responder.start(
      { pod: 'far', node: 'external' },
      lab.place('external'),
      lists,
      ports,
      AbortSignal.timeout(30_000),
    );
    const name = lab.name('special');
    const service = await lab.service(name, { type: 'LoadBalancer' });
    await lab.endpoints(name, [{ address: { ipv4: '240.0.2.1', ipv6: '64:ff9b::c000:201' } }]);
    await lab.change(name, { status: { loadBalancer: { ingress: balancers.map((ip) => ({ ip })) } } }, '/status');
    await lab.seesEverywhere(service, ['client-1', 'node-2'], { pods: ['far'], failures: [] });
    for (const from of ['external', 'client-2', 'node-3']) await lab.allSee(at(balancers, from), { pods: ['far'], failures: [] });
    expect(families.map((family) => lab.ip('client-1', family).split(/[.:]/)[0])).toEqual(['240', '64']);
    for (const from of ['client-2', 'node-2'])
      for (const family of families)
        for (const protocol of protocols)
          await lab.sees({ from, address: lab.ip('web-1', family), port: 80, protocol }, { pods: ['web-1'], failures: [] });
    responder.close();
    await bind('del', 'external', outside);
  });
});

describe('external addresses', () => {
  it('are served in the configured ranges', async () => {
    const externalIPs = ['198.18.7.1', '2001:db8:198::1'];
    for (const address of externalIPs) await lab.route(address, 'node-1');
    await lab.service(lab.name('external'), { ...web, externalIPs });
    for (const from of ['external', 'client-2', 'node-3'])
      await lab.allSee(at(externalIPs, from), { pods: webs, failures: [] }, { tries: enough });
  });

  it('of a family that the Service does not have are served by no node, which a trace reports', async () => {
    const externalIPs = ['198.18.7.2', '2001:db8:198::2'];
    for (const address of externalIPs) await lab.route(address, 'node-1');
    const name = lab.name('one-family');
    await lab.service(name, { ...web, externalIPs, ipFamilyPolicy: 'SingleStack', ipFamilies: ['IPv4'] });
    const aims = at(externalIPs, 'external');
    await lab.allSee(
      aims.filter((aim) => familyOf(aim) === 'ipv4'),
      { pods: webs, failures: [] },
      { tries: enough },
    );
    for (const aim of aims.filter((each) => familyOf(each) === 'ipv6'))
      expect((await lab.look({ ...aim, tries: 3, timeoutMs: 600 })).pods).toEqual([]);
    const { traces, lines } = await traceInLab(lab.lab, 1, { from: 'outside', to: `service:${demoNamespace}/${name}`, port: '80' });
    expect(traces.map(({ family, paths: [path] }) => [family, path?.verdict])).toEqual([
      ['ipv4', 'allowed'],
      ['ipv6', 'denied'],
    ]);
    expect(lines).toContain('No node serves 2001:db8:198::2');
    const meanings = await meaningsInLab(lab.lab, traces);
    expect(meanings[1]?.[0]).toMatchObject({ verdict: 'denied', why: expect.stringContaining('and no IPv6 cluster address') });
    // From a pod it is an address outside like any other.
    expect(await agreedTrace(`${demoNamespace}/client-1`, { to: '2001:db8:198::2', port: '80' })).toMatchObject({ endpoints: [] });
  });

  it('are refused outside them, which is reported', async () => {
    const externalIPs = [...lab.lab.plan.external.outside];
    const name = lab.name('grabbing');
    const service = await lab.service(name, { ...web, externalIPs });
    await lab.seesEverywhere(service, ['client-1'], { failures: [] });
    for (const aim of at(externalIPs, 'client-1')) expect((await lab.look({ ...aim, tries: 3 })).pods).toEqual(['external']);
    await eventually(async () => expect(await lab.events('Service', name)).toContainEqual(expect.stringContaining('externalIP')));
  });
});

/** Traces TCP by flows, objects and a probe, which have to agree. @returns the nodes of the first path, and the endpoints of all */
async function agreedTrace(from: string, asked: { readonly to: string; readonly port: string }) {
  const { traces, lines } = await traceInLab(lab.lab, 1, { from, ...asked }, { probe: true });
  const [trace] = traces;
  const meanings = (await meaningsInLab(lab.lab, traces))[0] ?? [];
  const [first] = trace?.paths ?? [];
  const shown = `${lines}\n${JSON.stringify(meanings)}`;
  expect([trace?.paths.map(({ bridge }) => bridge), shown]).toEqual([meanings.map((meaning) => meaning?.verdict), shown]);
  expect([meanings.flatMap((meaning) => meaning?.unchosen ?? []), shown]).toEqual([[], shown]);
  expect([trace?.probe?.verdict, shown]).toEqual([first?.bridge, shown]);
  const endpoints = trace?.paths.flatMap((path) => path.endpoints).sort();
  return { nodes: first?.segments.slice(0, 2).map(({ node }) => node), endpoints };
}

function familyOf({ address }: Aim): 'ipv4' | 'ipv6' {
  return address.includes(':') ? 'ipv6' : 'ipv4';
}
