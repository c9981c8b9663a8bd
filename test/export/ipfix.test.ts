import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it, vi } from 'vitest';
import { ipToBytes } from '../../src/base/net/ip.ts';
import { IpfixReceiver } from '../../src/operations/flow-log/export/ipfix-receiver.ts';
import type { FlowRecord } from '../../src/operations/flow-log/records/flow-record.ts';
import { exampleFlow } from '../contract/flow-collector.ts';
import { IpfixCollector } from '../support/flow-collectors/ipfix-collector.ts';

const folder = mkdtempSync(join(tmpdir(), 'seine-tshark-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const flows = Array.from({ length: 600 }, (_, index) => exampleFlow(index));

describe.each(['udp', 'tcp'] as const)('IPFIX over %s', (transport) => {
  it('is read by Wireshark: every record, every value, and the counts of the exporter', async () => {
    const collector = await IpfixCollector.open({ transport });
    const capture = await Capture.start(`${transport} port ${collector.port}`);
    const receiver = new IpfixReceiver({
      collector: { transport, host: '127.0.0.1', port: collector.port },
      domain: 77,
      clock: { wallMs: () => Date.now(), steadyMs: () => performance.now() },
    });
    for (let first = 0; first < flows.length; first += 200) {
      if (first === 400) receiver.report({ sent: 400, full: 1, refused: 2, unsent: 3 });
      const items = flows.slice(first, first + 200).map((flow) => ({ kind: 'flow', flow }) as const);
      await receiver.send(items, AbortSignal.timeout(10_000));
    }
    await vi.waitFor(async () => expect(await collector.received()).toHaveLength(flows.length), { timeout: 10_000 });
    receiver.close();
    await collector.close();
    const records = await capture.read(`${transport}.port==${collector.port},cflow`, flows.length + 1);
    const [counts] = records.filter((record) => 'cflow.od_id' in record);
    expect(records.filter((record) => record !== counts)).toEqual(flows.map(expectedOf));
    expect(counts).toMatchObject({ 'cflow.flowsexp': '400', 'cflow.notsent_flows': '6' });
  });
});

type ReadFlow = Readonly<Record<string, unknown>>;

/** Capture on the loopback interface, read by tshark. */
class Capture {
  readonly #file: string;
  readonly #end: () => Promise<void>;

  private constructor(file: string, end: () => Promise<void>) {
    [this.#file, this.#end] = [file, end];
  }

  static async start(filter: string): Promise<Capture> {
    const file = join(folder, `${filter.replaceAll(' ', '-')}.pcapng`);
    // The part of tshark that captures: it names the file when its socket is open.
    const dumpcap = spawn('dumpcap', ['-q', '-i', 'lo', '-w', file, '-f', filter], { stdio: ['ignore', 'ignore', 'pipe'] });
    const ended = new Promise<void>((resolve) => dumpcap.once('exit', () => resolve()));
    await new Promise<void>((resolve) => dumpcap.stderr.on('data', (text) => String(text).includes('File:') && resolve()));
    return new Capture(file, async () => {
      dumpcap.kill('SIGINT');
      await ended;
    });
  }

  /** Returns the records in the capture, when there are as many. */
  async read(decodeAs: string, count: number): Promise<readonly ReadFlow[]> {
    try {
      await vi.waitFor(() => expect(this.#records(decodeAs)).toHaveLength(count), { timeout: 60_000, interval: 500 });
      return this.#records(decodeAs);
    } finally {
      await this.#end();
    }
  }

  #records(decodeAs: string): readonly ReadFlow[] {
    const text = execFileSync('tshark', ['-r', this.#file, '-d', decodeAs, '-T', 'json', '--no-duplicate-keys', '-J', 'cflow'], {
      encoding: 'utf8',
      maxBuffer: 2 ** 28,
      env: { ...process.env, TZ: 'UTC' },
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    const packets = JSON.parse(text) as { readonly _source: { readonly layers: { readonly cflow?: ReadFlow | readonly ReadFlow[] } } }[];
    return packets
      .flatMap(({ _source: { layers } }) => layers.cflow ?? [])
      .flatMap((message) => children(message, 'Set '))
      .flatMap((set) => children(set, 'Flow '));
  }
}

function children(parent: ReadFlow, prefix: string): readonly ReadFlow[] {
  return Object.entries(parent)
    .filter(([name, value]) => name.startsWith(prefix) && typeof value === 'object')
    .map(([, value]) => value as ReadFlow);
}

function expectedOf(flow: FlowRecord): unknown {
  const { timeMs, event, verdict, protocol, source, destination, service, ingress, packets, bytes, startedMs = 0, endedMs = 0 } = flow;
  const version = source.ip.family === 'ipv6' ? 'v6' : '';
  const split = (name = ''): readonly string[] => name.split('/');
  const portBytes = Buffer.alloc(2);
  portBytes.writeUInt16BE(service?.port ?? 0);
  const names = [
    ...split(source.name),
    ...(destination.kind === 'pod' ? split(destination.name) : []),
    portBytes,
    ...(service ? [service.name ?? ''] : []),
    ...['shop', 'out'],
    ...(ingress ? ['data', 'closed'] : []),
  ];
  const cluster = service ? ipToBytes(service.ip) : new Uint8Array(version === '' ? 4 : 16);
  return expect.objectContaining({
    'cflow.observation_time_milliseconds': timeText(timeMs),
    [`cflow.srcaddr${version}`]: source.ip.text,
    [`cflow.dstaddr${version}`]: destination.ip.text,
    'cflow.protocol': String(protocol),
    'cflow.srcport': String(source.port),
    'cflow.dstport': String(destination.port),
    'cflow.firewall_event': verdict === 'would-deny' ? '4' : verdict === 'allowed' ? (event === 'closed' ? '2' : '1') : '3',
    'cflow.biflow_direction': '1',
    // Wireshark leaves out empty values of elements that it has no name for.
    'cflow.enterprise_private_entry': [cluster, ...names.map((name) => Buffer.from(name))].map(hexText),
    ...(packets && { 'cflow.packets': [String(packets.out), String(packets.in)] }),
    ...(bytes && { 'cflow.octets': [String(bytes.out), String(bytes.in)] }),
    ...(packets && {
      'cflow.timedelta_tree': { 'cflow.abstimestart': timeText(startedMs), 'cflow.abstimeend': timeText(endedMs) },
    }),
  });
}

function hexText(bytes: Uint8Array): string {
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join(':');
}

/** Time as tshark prints it, e.g. `Nov 24, 2025 16:00:00.009000000 UTC`. */
function timeText(ms: number): string {
  const date = new Date(ms);
  const [, , month, year] = date.toUTCString().split(' ');
  const day = String(date.getUTCDate()).padStart(2, ' ');
  return `${month} ${day}, ${year} ${date.toISOString().slice(11, 23)}000000 UTC`;
}
