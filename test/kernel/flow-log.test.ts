import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { setLive } from '../../lab/demo/live-settings.ts';
import { createAll } from '../../lab/demo/workload.ts';
import { type Probe, upload } from '../../lab/probe/probe.ts';
import type { FlowView } from '../../src/api/flow-log.ts';
import { Random } from '../chaos/random.ts';
import { ConnectionMix } from '../support/connection-mix.ts';
import { networkPolicy } from '../support/guarded-lab.ts';
import { countPackets, type PortCounts } from '../support/port-counters.ts';
import { readFlowLog } from '../support/read-flow-log.ts';
import { untilServed } from '../support/served.ts';
import { eventually, type KubeService, ServiceLab } from '../support/service-lab.ts';
import { slowness } from '../support/test-datapath.ts';

/** Ends of connections from the kernel's tracker, with the real pipeline and agents. */
let lab: ServiceLab;
let service: KubeService;

const seed = Number(process.env['SEINE_TEST_SEED'] ?? 45);
const total = Number(process.env['SEINE_TEST_FLOWS'] ?? 200);
const concurrent = 4;
const uploaded = 100_000;
const clients = ['client-1'] as const;
const numbers = [1] as const;
const signal = () => AbortSignal.timeout(30_000 * slowness);

beforeAll(async () => {
  lab = await ServiceLab.start([], { nodes: 1 });
  service = await lab.service('flow-log', { selector: { app: 'web' } });
  const isolated = { podSelector: { matchLabels: { app: 'client' } }, policyTypes: ['Ingress'] };
  await createAll(lab.lab.api, [networkPolicy('demo', 'closed', isolated)], signal());
  await untilServed(lab.lab.plan, lab.lab.api, signal());
});
afterAll(async () => {
  await lab?.remove();
});

const read = (number: number, query: string) => readFlowLog(lab, number, query);

async function accounting(): Promise<readonly string[]> {
  const parameter = '/proc/sys/net/netfilter/nf_conntrack_acct';
  return await Promise.all(numbers.map(async (number) => (await lab.lab.exec(number, 'cat', parameter)).trim()));
}

async function turn(state: 'on' | 'off', parameters: readonly string[]): Promise<void> {
  await setLive(lab.lab.api, { 'flowLog.enabled': state === 'on' ? 'true' : null }, signal());
  await eventually(async () => expect(await accounting()).toEqual(parameters));
}

/** Conntrack keeps a connection for minutes after its end; as after that time, those of the clients are removed. */
async function forget(): Promise<void> {
  for (const number of numbers)
    for (const [protocol, family] of ['tcp', 'udp'].flatMap((each) => ['ipv4', 'ipv6'].map((of) => [each, of] as const)))
      for (const client of clients)
        await lab.lab
          .exec(number, 'conntrack', '-D', '-f', family, '-p', protocol, '-s', lab.ip(client, family as 'ipv4' | 'ipv6'))
          .catch(() => undefined); // there is none
}

/** Connections of the clients that ended, as their own nodes have recorded them. */
async function ended(): Promise<readonly FlowView[]> {
  const answers = await Promise.all(numbers.map((number) => read(number, 'event=closed&last=65536')));
  return answers.flatMap(({ flows }) =>
    flows.filter(
      ({ source, destination, reporter }) => source.name?.startsWith('client-') && destination.port === 80 && reporter !== 'destination',
    ),
  );
}

type Counters = readonly (readonly [string, Awaited<ReturnType<typeof countPackets>>])[];

/** Packets of the clients so far, by client, family, protocol and port. */
async function all(counters: Counters): Promise<ReadonlyMap<string, PortCounts>> {
  const seen = new Map<string, PortCounts>();
  for (const [client, counter] of counters) for (const [key, counts] of await counter.read()) seen.set(`${client} ${key}`, counts);
  return seen;
}

/** Waits until the clients exchange nothing any more: a last packet would open the connection again. */
async function silent(counters: Counters): Promise<void> {
  let before: ReadonlyMap<string, PortCounts> = new Map();
  const isSilent = async (): Promise<boolean> => {
    const [last, now] = [before, await all(counters)];
    before = now;
    return isDeepStrictEqual(last, now);
  };
  await expect.poll(isSilent, { interval: 1_000 * slowness, timeout: 300_000 }).toBe(true);
}

const keyOf = ({ source, family, protocol }: FlowView): string => `${source.name} ${family} ${protocol.toLowerCase()} ${source.port}`;

it(`records the opening and the end of each of ${total} connections, with exact packets and bytes (seed ${seed})`, {
  timeout: 1_800_000,
}, async () => {
  const before = await accounting();
  await turn('on', ['1']);
  const counters = await Promise.all(clients.map(async (client) => [client, await countPackets(lab.place(client), signal)] as const));
  const made = await new ConnectionMix(lab, service, new Random(seed, 0), numbers).open(total, concurrent);
  expect(made).toHaveLength(total);
  const answered = made.filter(({ isDenied }) => !isDenied);
  await silent(counters);
  await forget();
  await eventually(async () => {
    const states = await Promise.all(numbers.map((number) => read(number, 'last=0')));
    expect(states.map(({ state }) => [state?.losses.kernel, state?.losses.names])).toEqual(numbers.map(() => [0, 0]));
    expect((await ended()).filter(({ packets }) => packets?.in !== '0').length).toBeGreaterThanOrEqual(answered.length);
  });
  const seen = await all(counters);
  const records = await ended();
  const byKey = new Map(records.map((flow) => [keyOf(flow), flow]));
  expect(byKey.size).toBe(records.length);
  for (const { from, to, protocol, service: through, sourcePort } of answered) {
    const of = records.filter(({ source, protocol: by }) => source.name === from && by === protocol && source.port === sourcePort);
    expect(of.map(({ destination, service: by }) => [destination.name, by && `${by.namespace}/${by.name}`])).toEqual([[to, through]]);
  }
  const denials = await Promise.all(numbers.map((number) => read(number, 'event=denied&last=65536')));
  const denied = denials.flatMap(({ flows }) => flows.filter(({ destination }) => destination.port === 80).map(keyOf));
  const lost = denials.reduce((sum, { state }) => sum + (state?.losses.denied ?? 0), 0);
  expect(new Set(denied).size + lost).toBeGreaterThanOrEqual(total - answered.length);
  // What its pod sent and received is what the node counted, also for connections that were denied at the other node.
  for (const [key, { packets, bytes, startedAt, endedAt }] of byKey) {
    const { sent, received } = seen.get(key) ?? expect.fail(`the pod knows nothing of ${key}`);
    expect({ key, packets, bytes }).toEqual({
      key,
      packets: { out: `${sent.packets}`, in: `${received.packets}` },
      bytes: { out: `${sent.bytes}`, in: `${received.bytes}` },
    });
    expect(Date.parse(startedAt ?? '')).toBeLessThanOrEqual(Date.parse(endedAt ?? ''));
  }
  console.info(
    `seed ${seed}: ${total} connections, ${answered.length} answered, ${records.length} ends, ${new Set(denied).size} denied, ${lost} lost`,
  );
  await turn('off', before);
});

it('counts the bytes of large transfers, to a pod and through a Service', { timeout: 1_200_000 }, async () => {
  const before = await accounting();
  await turn('on', ['1']);
  const counter = await countPackets(lab.place('client-1'), signal);
  const to = (address = ''): Probe => ({ from: lab.place('client-1'), protocol: 'tcp', address, port: 80, timeoutMs: 60_000 });
  for (const address of [lab.ip('web-1', 'ipv4'), service.spec.clusterIPs?.[0]])
    await eventually(async () => expect(await upload(to(address), uploaded)).toMatchObject({ is: 'OK' }));
  await forget();
  await eventually(async () => {
    const large = (await ended()).filter(({ bytes }) => Number(bytes?.out) > uploaded);
    expect(new Set(large.map(({ service: by }) => by?.name))).toEqual(new Set(['flow-log', undefined]));
    const seen = await counter.read();
    for (const flow of large) {
      expect(flow.egress).toMatchObject({ verdict: 'allowed' });
      const { sent } = seen.get(`${flow.family} tcp ${flow.source.port}`) ?? expect.fail('the pod has sent nothing');
      // The kernel splits a large packet that it shows to ovs-vswitchd: each part has a header of its own.
      const out = Number(flow.bytes?.out);
      expect(out).toBeGreaterThanOrEqual(sent.bytes);
      expect(out).toBeLessThanOrEqual(sent.bytes + 60 * (Number(flow.packets?.out) - sent.packets));
    }
  });
  await turn('off', before);
});
