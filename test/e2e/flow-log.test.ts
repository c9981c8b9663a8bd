import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { stringify } from 'yaml';
import { setLive } from '../../lab/demo/live-settings.ts';
import { createAll } from '../../lab/demo/workload.ts';
import { nodePaths } from '../../lab/plan/names.ts';
import { ask } from '../../lab/probe/probe.ts';
import { bindUdpIn, connectTcpIn, listenTcpIn } from '../../lab/probe/sockets.ts';
import type { FlowLogState, FlowSummaries, FlowView } from '../../src/api/flow-log.ts';
import { features } from '../../src/dataplane/pipeline/cookie.ts';
import { priority } from '../../src/dataplane/pipeline/flow.ts';
import { openedMeters } from '../../src/dataplane/pipeline/well-known.ts';
import { isSampled } from '../../src/operations/flow-log/sources/sampled-connections.ts';
import { AgentClient } from '../../src/seinectl/agent-client.ts';
import { flowsHere } from '../../src/seinectl/flows/flows-here.ts';
import { readFlowLine, readSummaries } from '../../src/seinectl/flows/read-flows.ts';
import { Random } from '../chaos/random.ts';
import { ConnectionMix, type MixedConnection } from '../support/connection-mix.ts';
import { OtlpCollector } from '../support/flow-collectors/otlp-collector.ts';
import { IpfixReader } from '../support/flow-collectors/read-ipfix.ts';
import { namespaceManifest, networkPolicy } from '../support/guarded-lab.ts';
import { recordingTerminal } from '../support/recording-terminal.ts';
import { eventually, type KubeService, ServiceLab } from '../support/service-lab.ts';
import { slowness } from '../support/test-datapath.ts';
import { traceInLab } from '../support/traced-lab.ts';

/** Flow log of a lab with real packets: every connection of a seeded mix has a record, or is counted as lost. */
let lab: ServiceLab;
let service: KubeService;

const seed = Number(process.env['SEINE_TEST_SEED'] ?? 45);
/** Number of connections; 10,000 in the long form (`npm run test:flows`). */
const total = Number(process.env['SEINE_TEST_FLOWS'] ?? 300);
const concurrent = 8;
const signal = () => AbortSignal.timeout(30_000 * slowness);
const settings = '/api/v1/namespaces/seine-system/configmaps';
/** Source ports of probes. */
const probePorts = { first: 20_000, last: 20_999 } as const;
const agentOf = (node: string) => new AgentClient(nodePaths(lab.lab.plan.dir, node).apiSocket);
const nodes = () => lab.lab.plan.nodes.map(({ name }) => name);

beforeAll(async () => {
  lab = await ServiceLab.start();
  for (const number of [1, 2, 3]) await configure(number, {});
  service = await lab.service('flow-log', { selector: { app: 'web' } });
  await createAll(lab.lab.api, [namespaceManifest('seine-system')], signal());
  await createAll(
    lab.lab.api,
    [networkPolicy('demo', 'closed', { podSelector: { matchLabels: { app: 'client' } }, policyTypes: ['Ingress'] })],
    signal(),
  );
}, 240_000 * slowness);
afterAll(async () => {
  await lab?.remove();
});

/** Restarts the agent of a node with these settings of the flow log. */
async function configure(number: number, more: object): Promise<void> {
  await lab.lab.agent(number, 'stop');
  const { agentConfig } = nodePaths(lab.lab.plan.dir, nodes()[number - 1] ?? '');
  const flowLog = stringify({ flowLog: { closes: 'always', ...more } });
  writeFileSync(agentConfig, readFileSync(agentConfig, 'utf8').replace(/^flowLog:\n(?: .*\n)*/m, '') + flowLog);
  await lab.lab.agent(number, 'start');
  await lab.lab.untilReady(number);
}

async function turn(state: 'on' | 'off'): Promise<void> {
  const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'seine-live' }, data: { 'flowLog.enabled': 'true' } };
  if (state === 'on') await createAll(lab.lab.api, [{ collection: settings, object }], signal());
  else await lab.lab.api.send({ method: 'DELETE', path: `${settings}/seine-live` }, signal());
  for (const number of [1, 2, 3]) await eventually(async () => expect((await onBridge(number)) > 0).toBe(state === 'on'));
}

/** Number of flows and meters of the flow log on a bridge. */
async function onBridge(number: number): Promise<number> {
  const dump = await lab.lab.exec(number, 'ovs-ofctl', '-O', 'OpenFlow15', 'dump-flows', 'br-int', 'table=100');
  const meters = await lab.lab.exec(number, 'ovs-ofctl', '-O', 'OpenFlow15', 'dump-meters', 'br-int');
  const cookie = `cookie=0x1${features.flowLog.toString(16).padStart(2, '0')}`;
  const ids = [...meters.matchAll(/meter=(\d+)/g)].map(([, id]) => Number(id));
  return dump.split('\n').filter((line) => line.includes(cookie)).length + ids.filter((id) => id >= openedMeters.first).length;
}

async function read(node: string, query = 'last=65536'): Promise<{ readonly flows: readonly FlowView[]; readonly state: FlowLogState }> {
  const { status, body } = await agentOf(node).get(`/v1/flow-log?${query}`);
  expect(status, body).toBe(200);
  const lines = body.split('\n').flatMap((text) => (text === '' ? [] : [readFlowLine(text)]));
  const states = lines.flatMap((line) => ('state' in line ? [line.state] : []));
  const state = states.at(-1);
  if (!state) throw new Error('no state');
  return { flows: lines.flatMap((line) => ('flow' in line ? [line.flow] : [])), state };
}

/** Records of a connection: one that the receiver's node denies is opened on that of its sender. */
const keysOf = (each: MixedConnection): readonly string[] =>
  each.isDenied ? [keyOf(each), keyOf({ ...each, isDenied: false })] : [keyOf(each)];
const keyOf = ({ from, to, protocol, service: through, isDenied }: MixedConnection): string =>
  `${isDenied ? 'denied' : 'opened'} ${from} ${to} ${protocol} ${through ?? '-'}`;

const isAnswered = (key: string): boolean => !/ client-\d (TCP|UDP) /.test(key);

const tupleOf = ({ source, destination, startedAt }: FlowView): string =>
  `${source.address} ${source.port} ${destination.address} ${destination.port} ${startedAt}`;

/** Packets that OVS has counted in the flows that copy opened and denied ones to the agent. */
async function countedBy(number: number): Promise<Readonly<Record<'opened' | 'denied', number>>> {
  const packets = async (table: number, userdata: string): Promise<number> => {
    const dump = await lab.lab.exec(number, 'ovs-ofctl', '-O', 'OpenFlow15', 'dump-flows', 'br-int', `table=${table}`);
    const lines = dump.split('\n').filter((line) => line.includes(`userdata=${userdata}`));
    return lines.reduce((sum, line) => sum + Number(/n_packets=(\d+)/.exec(line)?.[1]), 0);
  };
  const [opened, egress, ingress] = await Promise.all([packets(100, '0c'), packets(46, '07'), packets(90, '07')]);
  return { opened, denied: egress + ingress };
}

function packetsOf(flows: readonly FlowView[], wanted: 'opened' | 'denied'): number {
  return flows.reduce((sum, { event, repeated = 0 }) => (event === wanted ? sum + 1 + repeated : sum), 0);
}

function counts(keys: readonly string[]): Readonly<Record<string, number>> {
  const sums: Record<string, number> = {};
  for (const key of keys.toSorted()) sums[key] = (sums[key] ?? 0) + 1;
  return sums;
}

/** Record as seen at the end that decides: the sender's node for opened connections, the receiver's for denied ones. */
function recorded(flows: readonly FlowView[]): readonly string[] {
  return flows.flatMap(({ event, reporter, source, destination, protocol, service: through }) => {
    const isWanted = event === 'denied' ? reporter === 'destination' : event === 'opened' && reporter !== 'destination';
    const isOfMix = source.name?.startsWith('client-') && destination.port === 80;
    if (!isWanted || !isOfMix) return [];
    const name = through && `${through.namespace}/${through.name}`;
    return [keyOf({ from: source.name ?? '', to: destination.name ?? '', protocol, service: name, isDenied: event === 'denied' })];
  });
}

it('has no flow, meter or record while it is off', async () => {
  for (const number of [1, 2, 3]) expect(await onBridge(number)).toBe(0);
  const { flows, state } = await read(nodes()[0] ?? '');
  expect([flows, state.enabled]).toEqual([[], false]);
  expect(existsSync(join(nodePaths(lab.lab.plan.dir, nodes()[0] ?? '').stateDir, 'flows'))).toBe(false);
});

it(`records each of ${total} connections with its pods, Service and policies, or counts it (seed ${seed})`, {
  timeout: 600_000,
}, async () => {
  await turn('on');
  const expected = await new ConnectionMix(lab, service, new Random(seed, 0)).open(total, concurrent);
  expect(expected).toHaveLength(total);
  const want = counts(expected.flatMap(keysOf));
  let lost = 0;
  await eventually(async () => {
    const answers = await Promise.all(nodes().map((node) => read(node)));
    const losses = answers.map(({ state }) => state.losses);
    lost = losses.reduce((sum, { meter, rate, queue, denied }) => sum + meter + rate + queue + denied, 0);
    const have = counts(answers.flatMap(({ flows }) => recorded(flows)));
    for (const [key, number] of Object.entries(have)) expect(number, key).toBeLessThanOrEqual(want[key] ?? 0);
    const missing = Object.entries(want).reduce((sum, [key, number]) => sum + (isAnswered(key) ? number - (have[key] ?? 0) : 0), 0);
    expect(missing).toBeLessThanOrEqual(lost);
    // What OVS itself has counted is recorded or lost, packet by packet: a client's packet may end before OVS on a busy host.
    for (const [at, { flows, state }] of answers.entries()) {
      const counted = await countedBy(at + 1);
      const { meter, rate, queue, denied } = state.losses;
      expect(packetsOf(flows, 'opened') + meter + rate + queue).toBe(counted.opened);
      expect(packetsOf(flows, 'denied') + denied).toBe(counted.denied);
    }
  });
  console.info(`seed ${seed}: ${total} connections, ${lost} counted as lost`);
});

it('records a connection once whose client sends ten datagrams before the first is answered', async () => {
  const [first, count] = [42_000, 5];
  const ports = Array.from({ length: count }, (_, at) => first + at);
  const node = lab.lab.pod('client-1').node;
  for (const port of ports) await openUdp(port, lab.ip('web-2', 'ipv4'), 10);
  await eventually(async () => {
    const { flows } = await read(node);
    const recordedPorts = flows.flatMap(({ event, source: { port = 0 } }) => (event === 'opened' && ports.includes(port) ? [port] : []));
    expect(recordedPorts.toSorted()).toEqual(ports);
  });
});

it('names the policy that denies, the Service, and both ends', async () => {
  const answers = await Promise.all(nodes().map((node) => read(node)));
  const flows = answers.flatMap((answer) => answer.flows);
  const denied = flows.find(({ event }) => event === 'denied');
  expect(denied).toMatchObject({
    verdict: 'denied',
    ingress: { verdict: 'denied', by: ['demo/closed'] },
    reason: 'no rule of spec.ingress allows it',
    source: { kind: 'pod', namespace: 'demo' },
  });
  const through = flows.find(({ service: of, reporter }) => of && reporter === 'source');
  expect(through).toMatchObject({ event: 'opened', service: { namespace: 'demo', name: 'flow-log', port: 80 }, egress: { by: [] } });
  const summary = readSummaries((await agentOf(nodes()[0] ?? '').get('/v1/flow-log/summary?seconds=600')).body) satisfies FlowSummaries;
  expect(summary.items.length).toBeGreaterThan(0);
});

it('prints lines, follows new connections, and applies filters', async () => {
  const node = lab.lab.pod('client-1').node;
  const { terminal, out } = recordingTerminal();
  const options = {
    filters: [['verdict', 'allowed'] as const, ['to-pod', 'demo/web'] as const],
    last: 5,
    agentsNamespace: '',
    output: 'table',
  } as const;
  expect(await flowsHere(agentOf(node), options, terminal)).toBe(0);
  expect(out).toHaveLength(5);
  expect(out.join('\n')).toMatch(/opened {2}demo\/client-\d:\d+ -> demo\/web-\d:80 (TCP|UDP)/);
  const ending = new AbortController();
  const following = agentOf(node).lines('/v1/flow-log?follow=true&to-port=80&protocol=tcp', 'GET', ending.signal);
  expect((await following.next()).value).toContain('"enabled":true');
  const web = lab.ip('web-1', 'ipv4');
  const startMs = performance.now();
  await ask({ from: lab.place('client-1'), protocol: 'tcp', address: web, port: 80, timeoutMs: 10_000 });
  const { value } = await following.next();
  expect(value).toContain(`"address":"${web}"`);
  expect(performance.now() - startMs).toBeLessThan(5_000 * slowness);
  ending.abort();
});

it('records the end of TCP connections once at each node, with the time since their opening', async () => {
  const tcp = (flows: readonly FlowView[], event: string) =>
    flows.filter((flow) => flow.event === event && flow.protocol === 'TCP' && flow.destination.name?.startsWith('web-') === true);
  await eventually(async () => {
    let opened = 0;
    for (const { flows, state } of await Promise.all(nodes().map((node) => read(node)))) {
      const ended = tcp(flows, 'closed').filter(({ startedAt }) => startedAt !== undefined);
      expect(tcp(flows, 'opened').length - ended.length).toBeLessThanOrEqual(state.losses.ends);
      expect(new Set(ended.map(tupleOf)).size).toBe(ended.length);
      expect(ended.filter(({ startedAt = '', endedAt = '' }) => endedAt < startedAt)).toEqual([]);
      opened += ended.length;
    }
    expect(opened).toBeGreaterThan(0);
  });
});

it('shows a connection that was open before the log was on, until it ends, with an estimate of its bytes', async () => {
  await turn('off');
  const { node } = lab.lab.pod('client-1');
  const web = lab.ip('web-1', 'ipv4');
  const client = await connectTcpIn(lab.place('client-1'), web, 80, signal());
  const about = async (query: string) =>
    (await read(node, `${query}&from-port=${client.localPort}&to-ip=${web}`)).flows.filter(({ event }) => event !== 'gap');
  try {
    await turn('on');
    await eventually(async () => {
      client.write('x'.repeat(100));
      expect((await about('now=true')).map(({ event }) => event)).toEqual(['seen']);
    });
    client.write('x'.repeat(5_000));
    client.end();
    await eventually(async () => expect((await about('event=closed')).length).toBe(1));
    const [closed] = await about('event=closed');
    expect(closed).toMatchObject({ estimated: true, source: { name: 'client-1' }, destination: { name: 'web-1' } });
    // The end of either side gives the estimate: where the server's comes first, bytes that the client still sends are not in it.
    expect(Number(closed?.bytes?.out)).toBeGreaterThan(0);
    expect(Number(closed?.bytes?.out)).toBeLessThanOrEqual(client.bytesWritten + 1);
    expect(await about('now=true')).toEqual([]);
  } finally {
    client.destroy();
  }
});

it('neither records a probe of a trace, which no pod has sent, nor counts it as lost', async () => {
  const asked = { from: 'demo/client-1', to: 'service:demo/web', port: '80', family: 'ipv4' };
  const lossesOf = async () => (await Promise.all(nodes().map((node) => read(node, 'since=600')))).map(({ state }) => state.losses);
  const losses = await lossesOf();
  const { traces } = await traceInLab(lab.lab, 1, asked, { probe: true });
  expect(traces.map(({ probe }) => probe?.verdict)).toEqual(traces.map(() => 'allowed'));
  // Copies arrive in order: once this connection has its record, a probe would have had one.
  const web = lab.ip('web-1', 'ipv4');
  await ask({ from: lab.place('client-1'), protocol: 'tcp', address: web, port: 80, timeoutMs: 10_000 });
  const answers = await Promise.all(nodes().map((node) => read(node, 'since=60')));
  const ports = answers.flatMap(({ flows }) => flows.flatMap(({ source }) => source.port ?? []));
  expect(ports.length).toBeGreaterThan(0);
  expect(ports.filter((port) => port >= probePorts.first && port <= probePorts.last)).toEqual([]);
  expect(await lossesOf()).toEqual(losses);
});

it('gives a trace of a later packet the source port and the endpoint of the open connection', async () => {
  const [address = ''] = (service.spec.clusterIPs ?? []).filter((ip) => !ip.includes(':'));
  const client = await connectTcpIn(lab.place('client-1'), address, 80, signal()); // of one that has ended, the log knows that
  const last = await vi.waitUntil(async () => {
    const { flows } = await read(lab.lab.pod('client-1').node, 'since=60&event=opened');
    return flows.findLast(({ source, service: through }) => source.port === client.localPort && through?.address === address);
  }, 10_000 * slowness);
  const number = nodes().indexOf(lab.lab.pod('client-1').node) + 1;
  const asked = {
    from: 'demo/client-1',
    to: `service:demo/${service.metadata.name}`,
    port: '80',
    family: 'ipv4',
    established: 'true',
  } as const;
  const { traces, lines } = await traceInLab(lab.lab, number, asked);
  const [segment] = traces[0]?.paths[0]?.segments ?? [];
  expect(segment?.known, lines).toMatchObject({
    from: 'flow log',
    sourcePort: last.source.port,
    endpoint: `${last.destination.address}:${last.destination.port}`,
  });
  expect(traces[0]?.packet.sourcePort).toBe(last.source.port);
  expect(traces[0]?.paths.map(({ endpoints, bridge }) => [endpoints, bridge])).toEqual([[[segment?.known?.endpoint], 'allowed']]);
  expect(lines).toContain('a later packet of an open connection');
  const unknown = await traceInLab(lab.lab, number, { ...asked, 'source-port': '19' });
  expect(unknown.lines).toContain('assumes that it is established: the flow log has no such connection since');
  client.destroy();
});

it('keeps denied connections over a restart of the agent, and shows the gap', async () => {
  const { node } = lab.lab.pod('client-2');
  const number = lab.lab.plan.nodes.findIndex(({ name }) => name === node) + 1;
  const denials = async () => (await read(node, 'since=3600&event=denied,gap')).flows;
  const before = (await denials()).filter(({ event }) => event === 'denied').length;
  expect(before).toBeGreaterThan(0);
  await lab.lab.agent(number, 'stop');
  await lab.lab.agent(number, 'start');
  await lab.lab.untilReady(number);
  await eventually(async () => {
    const flows = await denials();
    expect(flows.filter(({ event }) => event === 'denied').length).toBe(before);
    expect(flows.findLast(({ event }) => event === 'gap')).toMatchObject({ reason: 'the flow log was off or the agent did not run' });
  });
});

it('exports connections as OTLP logs and by IPFIX, from the bundled agent', async () => {
  const { node } = lab.lab.pod('client-2');
  const number = nodes().indexOf(node) + 1;
  const place = lab.place(node);
  const otlp = await OtlpCollector.open({ fd: listenTcpIn(place, '127.0.0.1', 4_318) });
  const ipfix = await bindUdpIn(place, '127.0.0.1', 4_739);
  const reader = new IpfixReader();
  ipfix.on('message', (message) => reader.message(message));
  try {
    await configure(number, {
      otlp: { endpoint: 'http://127.0.0.1:4318', filter: 'event=opened&to-pod=demo/web' },
      ipfix: { collector: 'udp://127.0.0.1:4739' },
    });
    await eventually(async () => expect((await read(node)).state.enabled).toBe(true));
    await eventually(async () => {
      await ask({ from: lab.place('client-2'), protocol: 'tcp', address: lab.ip('web-1', 'ipv4'), port: 80, timeoutMs: 5_000 });
      expect(otlp.logs.map(({ event }) => event)).toContain('seine.flow.opened'); // the first one is the gap
      expect(reader.records.length).toBeGreaterThan(0);
    });
    expect(otlp.logs.find(({ event }) => event === 'seine.flow.opened')).toMatchObject({
      event: 'seine.flow.opened',
      attributes: {
        'k8s.pod.name': 'client-2',
        'seine.destination.pod': 'web-1',
        'destination.port': '80',
        'seine.flow.verdict': 'allowed',
      },
      resource: { 'service.name': 'seine-agent', 'k8s.node.name': node },
    });
    const pods = reader.records.map(({ values }) =>
      [values.get('56506/101'), values.get('56506/103')].map((name) => name?.toString()).join(' '),
    );
    expect(pods).toContain('client-2 web-1');
    expect(reader.gaps).toBe(0);
    const { body } = await agentOf(node).get('/metrics');
    for (const exporter of ['otlp', 'ipfix'])
      expect(body).toMatch(new RegExp(`flow_export_total\\{exporter="${exporter}",outcome="sent"\\} [1-9]`));
    // What waits is sent before the agent ends.
    await ask({ from: lab.place('client-2'), protocol: 'tcp', address: lab.ip('web-1', 'ipv4'), port: 80, timeoutMs: 5_000 });
    const openings = async () =>
      (await read(node)).flows.filter(({ event, destination }) => event === 'opened' && destination.name?.startsWith('web-') === true);
    const last = await vi.waitUntil(async () => (await openings()).at(-1)?.source.port, 10_000 * slowness);
    await lab.lab.agent(number, 'stop');
    expect(otlp.logs.map(({ attributes }) => attributes['source.port'])).toContain(String(last));
    await lab.lab.agent(number, 'start');
    await lab.lab.untilReady(number);
  } finally {
    ipfix.close();
    await otlp.close();
  }
});

/** Openings that OVS has counted in the flows for connections that are not chosen. */
async function notSampledBy(number: number): Promise<number> {
  const dump = await lab.lab.exec(number, 'ovs-ofctl', '-O', 'OpenFlow15', 'dump-flows', 'br-int', 'table=100');
  const levels = [priority.overNormal, priority.overHigh].map((level) => `priority=${level},`);
  const lines = dump.split('\n').filter((line) => levels.some((level) => line.includes(level)));
  expect(lines.length).toBeGreaterThan(0);
  return lines.reduce((sum, line) => sum + Number(/n_packets=(\d+)/.exec(line)?.[1]), 0);
}

/** Opens a connection of `client-1` from this port, whose first packets may be lost. @param together number of datagrams at once */
async function openUdp(port: number, address: string, together = 1): Promise<void> {
  const socket = await bindUdpIn(lab.place('client-1'), lab.ip('client-1', 'ipv4'), port);
  try {
    const answered = new Promise<void>((resolve) => socket.once('message', () => resolve()));
    await eventually(async () => {
      for (let count = 0; count < together; count++) socket.send('who\n', 80, address);
      expect(await Promise.race([answered.then(() => 'answered'), nextTurn('waiting')])).toBe('answered');
    });
  } finally {
    socket.close();
  }
}

it('records the same one of four connections at both nodes, from the moment of the change, and counts the others', async () => {
  const sampledAt = async () => (await Promise.all(nodes().map((node) => read(node, 'last=0')))).map(({ state }) => state.sampling);
  const [client, server] = [lab.lab.pod('client-1').node, lab.lab.pod('web-2').node];
  expect(client).not.toBe(server);
  const [first, count] = [40_000, 16];
  const ports = Array.from({ length: count }, (_, at) => first + at);
  const chosen = ports.filter((port) => isSampled(4, port));
  const [clusterIp = ''] = (service.spec.clusterIPs ?? []).filter((ip) => !ip.includes(':'));
  const recordedPorts = async (node: string, reporter: string) =>
    (await read(node)).flows
      .filter((flow) => flow.event === 'opened' && flow.reporter === reporter && flow.source.name === 'client-1')
      .flatMap(({ source: { port = 0 } }) => (port >= first && port < first + count ? [port] : []))
      .toSorted();
  try {
    await setLive(lab.lab.api, { 'flowLog.sampling': '4' }, signal());
    await eventually(async () => expect(await sampledAt()).toEqual([4, 4, 4]));
    for (const number of [1, 2, 3]) await eventually(async () => void (await notSampledBy(number)));
    for (const port of ports) await openUdp(port, port % 4 === 0 ? clusterIp : lab.ip('web-2', 'ipv4'));
    await eventually(async () => {
      const atServer = await recordedPorts(server, 'destination');
      const atClient = [...(await recordedPorts(client, 'source')), ...(await recordedPorts(client, 'both'))].toSorted();
      expect(atClient).toEqual(chosen);
      expect(chosen).toEqual(expect.arrayContaining(atServer)); // the Service has an endpoint on each node
      expect(atServer).toEqual(expect.arrayContaining(chosen.filter((port) => port % 4 !== 0)));
      for (const [at, node] of nodes().entries())
        expect((await read(node, 'last=0')).state.losses.sampling).toBe(await notSampledBy(at + 1));
    });
  } finally {
    await setLive(lab.lab.api, { 'flowLog.sampling': null }, signal());
  }
  await eventually(async () => expect(await sampledAt()).toEqual([undefined, undefined, undefined]));
});

/** Processes that are killed, and the first source port of the connections after that; the agent only in the long form. */
const kills = [['ovs-vswitchd', 41_000] as const, ...(total > 300 ? [['the agent', 41_100] as const] : [])];

it.each(kills)('records each connection after %s is killed once, or counts it as lost', async (killed, first) => {
  const node = nodes()[0] ?? '';
  expect(lab.lab.pod('client-1').node).toBe(node);
  if (killed === 'the agent') {
    await lab.lab.agent(1, 'kill');
    await lab.lab.agent(1, 'start');
  } else {
    await lab.lab.killOvs(1, 'ovs-vswitchd');
    await lab.lab.startOvs(1);
  }
  await lab.lab.untilReady(1);
  await eventually(async () => expect(await onBridge(1)).toBeGreaterThan(0));
  const lossesOf = async () => (await read(node, 'last=0')).state.losses;
  const lost = ({ meter, rate, queue }: Awaited<ReturnType<typeof lossesOf>>): number => meter + rate + queue;
  const before = await lossesOf();
  const ports = Array.from({ length: 20 }, (_, at) => first + at);
  for (const port of ports) await openUdp(port, lab.ip('web-2', 'ipv4'));
  await eventually(async () => {
    const { flows, state } = await read(node);
    const recordedPorts = flows.flatMap(({ event, source: { port = 0 } }) => (event === 'opened' && ports.includes(port) ? [port] : []));
    expect(new Set(recordedPorts).size).toBe(recordedPorts.length);
    expect(ports.length - recordedPorts.length).toBeLessThanOrEqual(lost(state.losses) - lost(before));
  });
});

it('answers each datagram to a Service without endpoints while a pod floods openings', async () => {
  const { spec } = await lab.service('flow-log-empty', { selector: { app: 'none' } });
  const asking = () =>
    ask({ from: lab.place('client-2'), protocol: 'udp', address: spec.clusterIPs?.[0] ?? '', port: 80, timeoutMs: 10_000 });
  await eventually(async () => expect((await asking()).is).toBe('REFUSED'));
  const flood = await bindUdpIn(lab.place('client-1'), lab.ip('client-1', 'ipv4'), 0);
  const web = lab.ip('web-2', 'ipv4');
  let isOver = false;
  const flooding = (async () => {
    for (let port = 1_024; !isOver; port = port < 60_000 ? port + 1 : 1_024) {
      flood.send('x', port, web);
      if (port % 64 === 0) await nextTurn();
    }
  })();
  try {
    const answers: string[] = [];
    for (let count = 0; count < 20; count++) answers.push((await asking()).is);
    expect(answers).toEqual(Array(20).fill('REFUSED'));
  } finally {
    isOver = true;
    await flooding;
    flood.close();
  }
});

it('leaves nothing on the bridge when it is turned off', async () => {
  await turn('off');
  for (const number of [1, 2, 3]) await eventually(async () => expect(await onBridge(number)).toBe(0));
  expect((await read(nodes()[0] ?? '')).state.enabled).toBe(false);
});
