import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { exampleNode } from '../../../test/support/example-node.ts';
import type { NodeEnvironment } from '../../dataplane/compile/environment.ts';
import type { Wanted } from '../../dataplane/desired/host-entries.ts';
import { type Owner, ownerOf } from '../../dataplane/pipeline/cookie.ts';
import { formatFlow, formatMeter } from '../../dataplane/pipeline/format.ts';
import { type LogDenied, LoggedPods } from './logged-pods.ts';

const db = { owner: ownerOf('subject', 'shop', 'db', 'eth0@a'), ofPort: 7, pod: { namespace: 'shop', name: 'db', uid: 'u' } };
const api = { owner: ownerOf('subject', 'shop', 'api', 'eth0@b'), ofPort: 8, pod: { namespace: 'shop', name: 'api', uid: 'v' } };
const far = { owner: ownerOf('subject', 'ops', 'x', 'eth0@c'), ofPort: 9, pod: { namespace: 'ops', name: 'x', uid: 'w' } };
const container = { owner: ownerOf('subject', '-', '-', 'eth0@d'), ofPort: 10 };

let wanted: Map<Owner, Wanted>;
let writes: number;
let environment: NodeEnvironment;
let annotated: Set<string>;

beforeEach(() => {
  vi.useFakeTimers();
  [wanted, writes, environment, annotated] = [new Map(), 0, exampleNode, new Set()];
});
afterEach(() => void vi.useRealTimers());

function logged(setting: LogDenied): LoggedPods {
  const reportOf = (owner: Owner) => {
    writes++;
    return { owner, bridge: writes, host: -1 };
  };
  const pods = new LoggedPods({
    setting,
    isAnnotated: ({ name }) => annotated.has(name),
    environment: () => environment,
    nodeState: {
      want: (owner, what) => {
        wanted.set(owner, what);
        return reportOf(owner);
      },
      forget: (owner) => {
        wanted.delete(owner);
        return reportOf(owner);
      },
    },
    now: () => Date.now(),
  });
  for (const each of [db, api, far, container]) pods.add(each);
  return pods;
}

const shown = () => [...wanted.keys()].map((owner) => owner.split('/').slice(3, 5).join('/')).sort();

it('copies packets of no pod without an observer, and writes nothing', () => {
  const pods = logged('annotated');
  pods.look();
  expect([shown(), writes, pods.isActive]).toEqual([[], 0, false]);
});

it('copies packets of annotated pods as long as they are, and of all if configured', () => {
  annotated.add('db');
  const pods = logged('annotated');
  expect(shown()).toEqual(['shop/db']);
  annotated.clear();
  pods.look();
  expect(shown()).toEqual([]);
  annotated.add('db');
  expect(logged('off').isActive).toBe(false);
  logged('all');
  expect(shown()).toEqual(['ops/x', 'shop/api', 'shop/db']);
});

it('copies packets of pods that an operator observes, until the end of the request', () => {
  const pods = logged('off');
  pods.logFor(60, { namespace: 'shop', pod: 'db' });
  pods.logFor(600, { namespace: 'ops' });
  expect(shown()).toEqual(['ops/x', 'shop/db']);
  expect([db, api].map(({ pod }) => pods.isWritten(pod))).toEqual([true, false]);
  vi.advanceTimersByTime(60_000);
  expect([shown(), pods.requests]).toEqual([['ops/x'], [{ namespace: 'ops', secondsLeft: 540 }]]);
  pods.endRequests();
  expect([shown(), pods.requests]).toEqual([[], []]);
});

it('replaces a request for the same pods, and limits the number of requests', () => {
  const pods = logged('off');
  pods.logFor(60, {});
  pods.logFor(10, {});
  expect(pods.requests).toEqual([{ secondsLeft: 10 }]);
  for (let n = 0; n < 63; n++) pods.logFor(60, { namespace: `n${n}` });
  expect(() => pods.logFor(60, { namespace: 'more' })).toThrow('64 such requests');
});

it('copies packets of all pods for observers of pairs, and logs none of them', () => {
  const pods = logged('off');
  const end = pods.watch();
  expect([shown().length, pods.isWritten(db.pod)]).toEqual([3, false]);
  end();
  end();
  expect(shown()).toEqual([]);
});

it('follows attachments and the mode, and writes only changes', () => {
  const pods = logged('all');
  const before = writes;
  pods.look();
  expect(writes).toBe(before);
  environment = { ...exampleNode, policyMode: 'audit' };
  pods.look();
  expect(writes).toBe(before + 3);
  expect([...wanted.values()].flatMap(({ flows }) => flows).every(({ steps }) => steps.at(-1)?.do === 'goto')).toBe(true);
  environment = { ...exampleNode, policyMode: 'off' };
  pods.look();
  expect(shown()).toEqual([]);
  environment = exampleNode;
  pods.look();
  pods.remove(db.owner);
  expect([shown(), pods.podAt(db.ofPort), pods.podAt(api.ofPort)?.name]).toEqual([['ops/x', 'shop/api'], undefined, 'api']);
  pods.add({ ...far, ofPort: db.ofPort });
  expect([pods.podAt(db.ofPort)?.name, pods.podAt(far.ofPort)]).toEqual(['x', undefined]);
});

it('does not change the fate of a packet, and sends a metered copy', () => {
  logged('off').logFor(60, { namespace: 'shop', pod: 'db' });
  const [rows = expect.fail()] = wanted.values();
  expect(rows.meters.map(formatMeter)).toEqual(['meter=65543,pktps,burst,bands=type=drop,rate=20,burst_size=40']);
  const copy = 'controller(userdata=07,meter_id=65543)';
  const bar = (zone: number) => `${copy},ct(commit,zone=${zone},exec(set_field:0x80/0x80->ct_mark))`;
  const [opening, refused] = ['ct_state=+new-inv+trk', 'goto_table:refusals'];
  const unbarred = 'ct_state=-new-inv+trk,ct_mark=0x0/0x80';
  expect(rows.flows.map(formatFlow)).toEqual([
    `table=egressVerdict,priority=230,in_port=7,reg0=0xc00/0x1c00,${unbarred},ip actions=${bar(65520)}`,
    `table=egressVerdict,priority=230,in_port=7,reg0=0xc00/0x1c00,${unbarred},ipv6 actions=${bar(65510)}`,
    `table=egressVerdict,priority=225,in_port=7,reg0=0xc00/0x1c00,reg10=0x20/0x60,reg0=0x3/0xf,${opening} actions=${copy},${refused}`,
    `table=egressVerdict,priority=220,in_port=7,reg0=0xc00/0x1c00 actions=${copy}`,
    `table=ingressVerdict,priority=230,reg0=0xc00/0x1c00,reg1=0x7,${unbarred},ip actions=${bar(65520)}`,
    `table=ingressVerdict,priority=230,reg0=0xc00/0x1c00,reg1=0x7,${unbarred},ipv6 actions=${bar(65510)}`,
    `table=ingressVerdict,priority=235,reg0=0xc00/0x1c00,reg1=0x7,ct_mark=0x40/0x40 actions=${copy}`,
    ...['0x3/0xf', '0x1/0xf'].map(
      (source) =>
        `table=ingressVerdict,priority=225,reg0=0xc00/0x1c00,reg10=0x20/0x60,reg0=${source},reg1=0x7,${opening} actions=${copy},${refused}`,
    ),
    `table=ingressVerdict,priority=220,reg0=0xc00/0x1c00,reg1=0x7 actions=${copy}`,
  ]);
});
