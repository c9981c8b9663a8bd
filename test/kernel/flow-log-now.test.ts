import { readFileSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { setLive } from '../../lab/demo/live-settings.ts';
import { nodePaths } from '../../lab/plan/names.ts';
import { bindUdpIn, connectTcpIn } from '../../lab/probe/sockets.ts';
import type { FlowView } from '../../src/api/flow-log.ts';
import { priority } from '../../src/dataplane/pipeline/flow.ts';
import { isSampled } from '../../src/operations/flow-log/sources/sampled-connections.ts';
import { flowsHere } from '../../src/seinectl/flows/flows-here.ts';
import { agentOfNode, readFlowLog } from '../support/read-flow-log.ts';
import { recordingTerminal } from '../support/recording-terminal.ts';
import { untilServed } from '../support/served.ts';
import { eventually, type KubeService, ServiceLab } from '../support/service-lab.ts';
import { slowness } from '../support/test-datapath.ts';

/** Connections that are open now by the kernel's tracker, and ends of connections by `flowLog.closes`. */
let lab: ServiceLab;
let service: KubeService;
/** Parameters before the log was first on. */
let before: readonly string[];

const node = 1;
const signal = () => AbortSignal.timeout(30_000 * slowness);

beforeAll(async () => {
  lab = await ServiceLab.start([], { nodes: 1 });
  service = await lab.service('flow-log', { selector: { app: 'web' } });
  await untilServed(lab.lab.plan, lab.lab.api, signal());
  before = await parameters();
});
afterAll(async () => {
  await lab?.remove();
});

async function turn(state: 'on' | 'off'): Promise<void> {
  await setLive(lab.lab.api, { 'flowLog.enabled': state === 'on' ? 'true' : null }, signal());
  await eventually(async () => expect((await readFlowLog(lab, node, 'last=0')).state?.enabled).toBe(state === 'on'));
}

/** Restarts the agent with a value of `flowLog.closes`. */
async function configure(closes: 'auto' | 'never'): Promise<void> {
  await lab.lab.agent(node, 'stop');
  const { agentConfig } = nodePaths(lab.lab.plan.dir, lab.lab.node(node).name);
  const rest = readFileSync(agentConfig, 'utf8').replace(/^flowLog:\n(?: .*\n)*/m, '');
  writeFileSync(agentConfig, `${rest}${stringify({ flowLog: { closes } })}`);
  await lab.lab.agent(node, 'start');
  await lab.lab.untilReady(node);
  await eventually(async () => expect((await readFlowLog(lab, node, 'last=0')).state?.enabled).toBe(true));
}

/** Parameters of the kernel by which the tracker counts and stamps. */
async function parameters(): Promise<readonly string[]> {
  const files = ['nf_conntrack_acct', 'nf_conntrack_timestamp'].map((name) => `/proc/sys/net/netfilter/${name}`);
  return (await lab.lab.exec(node, 'cat', ...files)).trim().split('\n');
}

/** Removes a connection of the client from the tracker, as its timeout would. */
async function forget(protocol: 'tcp' | 'udp', sourcePort: number): Promise<void> {
  const of = ['-p', protocol, '-s', lab.ip('client-1', 'ipv4'), '--sport', String(sourcePort)];
  await lab.lab.exec(node, 'conntrack', '-D', '-f', 'ipv4', ...of);
}

const about = async (query: string, sourcePort: number): Promise<readonly FlowView[]> =>
  (await readFlowLog(lab, node, `${query}&from-port=${sourcePort}`)).flows.filter(({ event }) => event !== 'gap');
/** Service of the TCP connection. The other is none: soon after a Service has its addresses, agents delete earlier connections to it of UDP. */
const through = (protocol: string) => (protocol === 'tcp' ? { namespace: 'demo', name: service.metadata.name, port: 80 } : undefined);

it('lists idle connections with their pods and Service while they are open, and the end of each with its bytes', async () => {
  await turn('on');
  const [address = ''] = (service.spec.clusterIPs ?? []).filter((ip) => !ip.includes(':'));
  const client = await connectTcpIn(lab.place('client-1'), address, 80, signal());
  const datagrams = await bindUdpIn(lab.place('client-1'), lab.ip('client-1', 'ipv4'), 0);
  try {
    const ports = { tcp: client.localPort ?? 0, udp: datagrams.address().port };
    const answered = new Promise<string>((resolve) => datagrams.once('message', (message) => resolve(message.toString())));
    datagrams.send('who\n', 80, lab.ip('web-1', 'ipv4'));
    expect(JSON.parse(await answered)).toMatchObject({ pod: 'demo/web-1' });
    for (const [protocol, port] of Object.entries(ports))
      await eventually(async () =>
        expect(await about('now=true', port)).toMatchObject([
          {
            ...{ event: 'opened', verdict: 'allowed', reporter: 'both', protocol: protocol.toUpperCase(), number: -1 },
            ...{ source: { namespace: 'demo', name: 'client-1', port }, destination: { namespace: 'demo', name: 'web-1', port: 80 } },
            ...{ egress: { verdict: 'allowed' }, ingress: { verdict: 'allowed' } },
            ...(through(protocol) && { service: through(protocol) }),
          },
        ]),
      );
    const { terminal, out } = recordingTerminal();
    const filters = [['from-port', String(ports.tcp)] as const];
    expect(await flowsHere(agentOfNode(lab, node), { filters, now: true, agentsNamespace: '', output: 'table' }, terminal)).toBe(0);
    expect(out.join('\n')).toContain(`demo/client-1:${ports.tcp} -> demo/web-1:80 TCP (service demo/${service.metadata.name})`);
    // A client that is not read any more, as one that was cut off: only the tracker knows that its connection is over.
    for (const [protocol, port] of Object.entries(ports)) {
      expect(await about('event=closed&last=10', port)).toEqual([]);
      await forget(protocol as 'tcp' | 'udp', port);
      await eventually(async () =>
        expect(await about('event=closed&last=10', port)).toMatchObject([
          {
            ...(through(protocol) && { service: through(protocol) }),
            source: { name: 'client-1' },
            destination: { name: 'web-1' },
            packets: { in: expect.stringMatching(/^[1-9]/) },
          },
        ]),
      );
      expect((await about('event=closed&last=10', port)).map(({ estimated }) => estimated)).toEqual([undefined]);
      expect(await about('now=true', port)).toEqual([]);
    }
  } finally {
    client.destroy();
    datagrams.close();
  }
});

it('lists a connection that was opened before the log was on, as seen and with the names of now', async () => {
  await turn('off');
  const web = lab.ip('web-1', 'ipv4');
  const client = await connectTcpIn(lab.place('client-1'), web, 80, signal());
  const port = client.localPort ?? 0;
  try {
    await turn('on');
    expect(await about('last=10', port)).toEqual([]);
    expect(await about('now=true', port)).toMatchObject([
      { event: 'seen', reporter: 'both', source: { name: 'client-1', port }, destination: { name: 'web-1', port: 80 } },
    ]);
    await forget('tcp', port);
    await eventually(async () => expect(await about('now=true', port)).toEqual([]));
    // With 2 a connection has events if somebody received them when it was opened. Source: nf_conntrack-sysctl of the kernel.
    const hasEvents = (await lab.lab.exec(node, 'cat', '/proc/sys/net/netfilter/nf_conntrack_events')).trim() === '1';
    await eventually(async () => expect(await about('event=closed&last=10', port)).toHaveLength(hasEvents ? 1 : 0));
  } finally {
    client.destroy();
  }
});

it('records openings and ends of one of four connections, and counts the others', async () => {
  const sampling = async () => (await readFlowLog(lab, node, 'last=0')).state?.sampling;
  await setLive(lab.lab.api, { 'flowLog.sampling': '4' }, signal());
  await eventually(async () => expect(await sampling()).toBe(4));
  const dump = () => lab.lab.exec(node, 'ovs-ofctl', '-O', 'OpenFlow15', 'dump-flows', 'br-int', 'table=100');
  await eventually(async () => expect(await dump()).toContain(`priority=${priority.overNormal},`));
  const lost = async () => (await readFlowLog(lab, node, 'last=0')).state?.losses.sampling ?? 0;
  const before = await lost();
  const [first, count] = [40_000, 16];
  const chosen: number[] = [];
  for (let port = first; port < first + count; port++) {
    if (isSampled(4, port)) chosen.push(port);
    const socket = await bindUdpIn(lab.place('client-1'), lab.ip('client-1', 'ipv4'), port);
    const answered = new Promise<void>((resolve) => socket.once('message', () => resolve()));
    socket.send('who\n', 80, lab.ip('web-1', 'ipv4'));
    await answered;
    socket.close();
    await forget('udp', port);
  }
  const ports = async (event: string) =>
    (await readFlowLog(lab, node, `event=${event}&protocol=udp&last=1000`)).flows
      .flatMap(({ source: { port = 0 } }) => (port >= first && port < first + count ? [port] : []))
      .toSorted();
  await eventually(async () => {
    expect(await ports('opened')).toEqual(chosen);
    expect(await ports('closed')).toEqual(chosen);
    expect((await lost()) - before).toBeGreaterThanOrEqual(count - chosen.length);
  });
  await setLive(lab.lab.api, { 'flowLog.sampling': null }, signal());
  await eventually(async () => expect(await sampling()).toBeUndefined());
});

it('records ends with closes: auto, and with closes: never neither ends nor changes parameters of the kernel', async () => {
  const sources = async () => (await readFlowLog(lab, node, 'last=0')).state?.sources;
  expect(await sources()).toEqual(['opened', 'denied', 'refused', 'closed']);
  expect(await parameters()).toEqual(['1', '1']);
  await turn('off');
  await eventually(async () => expect(await parameters()).toEqual(before));
  await setLive(lab.lab.api, { 'flowLog.enabled': 'true' }, signal());
  await configure('never');
  expect(await sources()).toEqual(['opened', 'denied', 'refused']);
  expect(await parameters()).toEqual(before);
  const client = await connectTcpIn(lab.place('client-1'), lab.ip('web-1', 'ipv4'), 80, signal());
  const port = client.localPort ?? 0;
  try {
    await eventually(async () => expect((await about('event=opened&last=10', port)).length).toBe(1));
    expect((await about('now=true', port)).map(({ event }) => event)).toEqual(['opened']);
    await forget('tcp', port);
    await eventually(async () => expect(await about('now=true', port)).toEqual([]));
    expect(await about('event=closed&last=10', port)).toEqual([]);
  } finally {
    client.destroy();
  }
  await configure('auto');
  expect(await sources()).toEqual(['opened', 'denied', 'refused', 'closed']);
  await turn('off');
});
