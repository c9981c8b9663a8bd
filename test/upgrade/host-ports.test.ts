import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { agentProgram, packageRoot } from '../../lab/machine/installation.ts';
import { nodePaths } from '../../lab/plan/names.ts';
import { Responder } from '../../lab/probe/responder.ts';
import { askStatus } from '../../lab/up.ts';
import { type BuiltRelease, builtRelease, releaseOf } from '../support/releases.ts';
import { type Aim, eventually, families, ofFamily, podManifest, protocols, ServiceLab } from '../support/service-lab.ts';
import { SteadyUdp } from '../support/steady-udp.ts';
import { replaceAgentOf } from './replaced-agent.ts';

/**
 * Pods with host ports that releases before 0.23.0 admitted and this one rejects. They run when the node's agent is replaced: they keep
 * running, lose ports that take the traffic of others, keep ports that only hide a process, and the agent reports each.
 */
const execute = promisify(execFile);
const previousRelease = releaseOf(process.env['SEINE_TEST_RELEASE']);
/** Before it, the plugin `portmap` served host ports. */
const firstWithHostPorts = '0.8.0';
/** First release that rejects such pods: none of them runs on its nodes. */
const firstThatRejects = '0.23.0';
const isFrom = (version: string): boolean => previousRelease.version.localeCompare(version, 'en', { numeric: true }) >= 0;
const admitsThem = isFrom(firstWithHostPorts) && !isFrom(firstThatRejects);

/** Number of a pod's first host port; those of the others follow it. */
const containerPort = 8_000;
/** A port that the outside answers at its addresses (the lab), and Services of the demo at their cluster addresses. */
const outsidePort = 80;
const ports = { own: 8_090, used: 8_091, beside: 8_092, reserved: 10_256 } as const;
const resolver = '127.0.0.53';
const patience = () => AbortSignal.timeout(30_000);

describe.runIf(admitsThem)('a pod with a host port that this release rejects, over an upgrade and back', () => {
  let lab: ServiceLab;
  let previous: BuiltRelease;
  /** Clients of the outside addresses that keep sending from one port each. */
  let clients: readonly SteadyUdp[] = [];
  const listeners: Responder[] = [];
  let outside: readonly string[];
  let clusterIp: string;

  beforeAll(async () => {
    previous = await builtRelease(previousRelease);
    lab = await ServiceLab.start([], { nodes: 2 }, previous.agent);
    outside = lab.lab.plan.external.outside;
    const { spec } = await lab.service('victim', { selector: { app: 'web' } });
    clusterIp = spec.clusterIPs?.find((address) => !address.includes(':')) ?? '';
    await start('foreign', ...outside.map((hostIP) => ({ hostIP, hostPort: outsidePort })), { hostIP: clusterIp, hostPort: outsidePort });
    await start('user', { hostPort: ports.used });
    await start('neighbour', { hostPort: ports.beside });
    await start('reserved', { hostPort: ports.reserved });
    await start('honest', ...families.map((family) => ({ hostIP: lab.ip('node-1', family), hostPort: ports.own })));
    await listen(ports.used, '0.0.0.0', '::');
    await listen(ports.beside, resolver);
    clients = await Promise.all(
      ['client-1', 'node-1'].flatMap((from) => outside.map((address) => SteadyUdp.start(lab.place(from), address, outsidePort))),
    );
  });
  afterAll(async () => {
    for (const each of clients) each.stop();
    for (const each of listeners) each.close();
    await lab?.remove();
  });

  async function start(name: string, ...hostPorts: readonly { readonly hostPort: number; readonly hostIP?: string }[]): Promise<void> {
    const all = hostPorts.flatMap((each, index) =>
      protocols.map((protocol) => ({
        name: `${protocol}-${index}`,
        containerPort: containerPort + index,
        protocol: protocol.toUpperCase(),
        ...each,
      })),
    );
    await lab.start(podManifest(name, 'node-1', { app: name }, { container: { ports: all } }));
  }

  /** Starts a process of the node that listens on a TCP port. */
  async function listen(port: number, ...addresses: readonly string[]): Promise<void> {
    const [place, identity] = [lab.place('node-1'), { pod: 'process', node: 'node-1' }];
    listeners.push(await Responder.start(identity, place, { tcp: addresses, udp: [] }, [{ protocol: 'tcp', port }], patience()));
  }

  /** The pods of the first node in the runtime's view: a restarted one has another container. */
  async function running(): Promise<readonly string[]> {
    const { pods } = await askStatus(lab.lab.plan.dir);
    return pods.map(({ name, ips, containerID }) => `${name} ${ips.join(' ')} ${containerID}`).toSorted();
  }

  async function reports(): Promise<string> {
    const { apiSocket } = nodePaths(lab.lab.plan.dir, 'node-1');
    const words = [join(packageRoot, 'src', 'seinectl', 'main.ts'), '--socket', apiSocket, 'status'];
    return (await execute(process.execPath, words, { maxBuffer: 1 << 24 })).stdout;
  }

  const atNode = (port: number): readonly Aim[] =>
    families.map((family) => ({ from: 'external', address: lab.ip('node-1', family), port }));
  const answeredBy = async (who: string, ...aims: readonly Aim[]): Promise<void> => {
    for (const aim of aims) await lab.sees(aim, { pods: [who], failures: [] });
  };
  const toOutside = (from: string): readonly Aim[] =>
    outside.flatMap((address) => protocols.map((protocol) => ({ from, address, port: outsidePort, protocol })));
  const clientsAreAnsweredBy = (who: string): Promise<void> =>
    eventually(async () => expect(clients.map(({ last }) => last)).toEqual(clients.map(() => who)));
  const toService = (): Aim => ({ from: 'node-1', address: clusterIp, port: outsidePort });
  const toResolver = (): Aim => ({ from: 'node-1', address: resolver, port: ports.beside });

  /** Properties that no release may change. */
  async function keepsWorking(): Promise<void> {
    for (const pod of ['foreign', 'user', 'neighbour', 'reserved', 'honest'])
      for (const family of families)
        await answeredBy(pod, { from: 'client-2', address: ofFamily(lab.lab.pod(pod).ips, family), port: containerPort });
    await answeredBy('honest', ...atNode(ports.own));
    await answeredBy('user', ...atNode(ports.used));
    await answeredBy('neighbour', ...atNode(ports.beside));
  }

  it('is served by the earlier release as the pod requests, also at addresses of others', async () => {
    await keepsWorking();
    for (const from of ['client-1', 'node-1']) await answeredBy('foreign', ...toOutside(from));
    await clientsAreAnsweredBy('foreign');
    await answeredBy('foreign', toService());
    await answeredBy('reserved', ...atNode(ports.reserved));
    await answeredBy('neighbour', toResolver());
  });

  it('keeps running under this release: translation at addresses of others ends, a port in use stays, and status names both', async () => {
    const before = await running();
    await replaceAgentOf(lab.lab, 1, agentProgram());
    for (const from of ['client-1', 'node-1']) await answeredBy('external', ...toOutside(from));
    await clientsAreAnsweredBy('external');
    await lab.sees(toService(), { pods: ['web-1', 'web-2'], failures: [] });
    for (const aim of atNode(ports.reserved)) await lab.sees(aim, { pods: [] });
    await answeredBy('process', toResolver());
    await keepsWorking();
    expect(await running()).toEqual(before);
    await eventually(async () => {
      const text = await reports();
      for (const address of outside) expect(text).toContain(`pod demo/foreign: host port ${shown(address)}/tcp waits for its address`);
      expect(text).toContain(`pod demo/foreign: host port ${shown(clusterIp)}/tcp is not served: ${clusterIp} is the cluster address of`);
      expect(text).toContain(`pod demo/user: host port ${ports.used}/tcp hides a process of the node`);
      expect(text).toContain(`pod demo/reserved: host port ${ports.reserved}/tcp is not served`);
      for (const pod of ['honest', 'neighbour']) expect(text).not.toContain(`pod demo/${pod}`);
    });
  });

  it('keeps running when the node goes back, and again under this release', async () => {
    const before = await running();
    await replaceAgentOf(lab.lab, 1, previous.agent);
    await keepsWorking();
    for (const from of ['client-1', 'node-1']) await answeredBy('foreign', ...toOutside(from));
    await replaceAgentOf(lab.lab, 1, agentProgram());
    for (const from of ['client-1', 'node-1']) await answeredBy('external', ...toOutside(from));
    await keepsWorking();
    expect(await running()).toEqual(before);
  });

  it('leaves nothing behind when its pods are deleted', async () => {
    for (const pod of ['foreign', 'user', 'neighbour', 'reserved', 'honest']) await lab.delete('pods', pod);
    const elements = async (): Promise<readonly string[]> =>
      (await lab.lab.exec(1, 'nft', '-j', 'list', 'table', 'inet', 'seine-host-ports')).match(/"elem"/g) ?? [];
    await eventually(async () => expect(await elements()).toEqual([]));
    await answeredBy('process', ...atNode(ports.used));
    await eventually(async () => expect(await reports()).not.toContain('host port'));
  });
});

/** An address of a host port as problems name it. */
const shown = (address: string): string => `${address.includes(':') ? `[${address}]` : address}:${outsidePort}`;
