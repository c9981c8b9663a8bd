import { expect, it } from 'vitest';
import { parseIp } from '../../base/net/ip.ts';
import { ctMark } from '../../dataplane/pipeline/fields.ts';
import { zones } from '../../dataplane/pipeline/well-known.ts';
import type { TrackedConnection } from '../../netlink/conntrack.ts';
import type { FlowLog } from './flow-log.ts';
import { type KnownConnectionPort, knownConnection } from './known-connection.ts';
import type { FlowRecord } from './records/flow-record.ts';

const [web, db, service] = [parseIp('10.0.0.5'), parseIp('10.0.1.9'), parseIp('10.96.0.20')];

const record = (event: FlowRecord['event'], sourcePort: number, more: Partial<FlowRecord> = {}): FlowRecord => ({
  ...{ timeMs: 1_000 * sourcePort, event, verdict: 'allowed', reporter: 'source', protocol: 6 },
  source: { ip: web, port: sourcePort, kind: 'pod' },
  destination: { ip: db, port: 5432, kind: 'pod' },
  ...more,
});
const throughService = { service: { ip: service, port: 80 } };

const tracked = (srcPort: number, mark: number, tcpState = 3): TrackedConnection => ({
  ...{ family: 'ipv4', ipProtocol: 6, zone: zones.ipv4.main, id: srcPort, mark, tcpState },
  original: { src: web, dst: service, srcPort, dstPort: 80 },
  reply: { src: db, dst: web, srcPort: 5432, dstPort: srcPort },
});

interface Known {
  /** Absent: the log is off. */
  readonly log?: readonly FlowRecord[];
  /** Absent: the userspace data path. */
  readonly tracker?: readonly TrackedConnection[];
}

function portOf({ log, tracker }: Known): KnownConnectionPort {
  const flows = log && {
    numbers: { next: log.length, oldest: 0 },
    completeFromMs: 0,
    get: (number: number) => log[number] && { ...log[number], number },
  };
  const list = (): Promise<readonly TrackedConnection[]> => Promise.resolve(tracker ?? expect.fail('the tracker was listed'));
  return {
    config: { ovsDatapathType: tracker ? 'system' : 'netdev' },
    running: () => ({
      flowLog: { running: () => flows && ({ flows: flows as unknown as FlowLog } as never) },
      proxy: { tracked: { list } as never },
    }),
    turns: { due: false, next: () => Promise.resolve() },
  };
}

const find = (known: Known, sourcePort?: number, destination = service, port = 80) =>
  knownConnection(portOf(known), { protocol: 6, source: web, destination, port, ...(sourcePort !== undefined && { sourcePort }) });

it('is the newest one of the flow log whose end is not recorded, to the Service or to the endpoint', async () => {
  const log = [
    record('opened', 1, throughService),
    record('opened', 2, throughService),
    record('closed', 2, throughService),
    record('denied', 3, throughService),
  ];
  const found = { from: 'flow log', sourcePort: 1, endpoint: '10.0.1.9:5432', openedAt: '1970-01-01T00:00:01.000Z' };
  expect(await find({ log, tracker: [] })).toEqual(found);
  expect(await find({ log }, 1, db, 5432)).toEqual({ ...found, note: 'its end may not be recorded on the userspace data path' });
});

it('is one of the tracker if the log does not have it', async () => {
  const marks = ctMark.service('yes').value;
  const tracker = [tracked(4, (marks | ctMark.unadmitted('yes').value) >>> 0), tracked(5, marks, 7), tracked(6, marks)];
  expect(await find({ log: [], tracker })).toEqual({ from: 'tracker', sourcePort: 6, endpoint: '10.0.1.9:5432' });
  expect(await find({ tracker }, 6, db, 5432)).toMatchObject({ from: 'tracker', sourcePort: 6 });
});

it.each<readonly [string, Known, number | undefined, string]>([
  ['the log is off', {}, undefined, 'the flow log is off, and the tracker of the userspace data path is not listed'],
  [
    'no record has the source port',
    { log: [record('opened', 1, throughService)] },
    9,
    'the flow log has no such connection since 1970-01-01T00:00:00.000Z, and the tracker of',
  ],
  ['the tracker has none', { tracker: [] }, undefined, 'the flow log is off, and connection tracking has none'],
])('is assumed if %s', async (_, known, sourcePort, note) => {
  expect(await find(known, sourcePort)).toEqual({ from: 'assumption', note: expect.stringContaining(note) });
});
