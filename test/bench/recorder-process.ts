/**
 * Node with 110 pods, where 75 are added and 75 removed each second: `node recorder-process.ts SECONDS FOLDER`; without a folder nothing is recorded. Simulated
 * seconds follow each other without a pause. Prints CPU time and memory as JSON.
 */
import { LoopTurns } from '../../src/base/async/loop-turns.ts';
import { silentLog } from '../../src/base/log/log.ts';
import { parseIp } from '../../src/base/net/ip.ts';
import { parseMac } from '../../src/base/net/mac.ts';
import { compilePod, type PodIntent } from '../../src/dataplane/compile/compile-pod.ts';
import { type Owner, ownerOf } from '../../src/dataplane/pipeline/cookie.ts';
import { DesiredState } from '../../src/dataplane/reconcile/desired-state.ts';
import { type BridgeKey, type BridgeValue, encodeBridgeEntries } from '../../src/dataplane/targets/bridge/bridge-entry.ts';
import { History } from '../../src/operations/history/history.ts';
import { InputsRecord, type InputsRecordOptions } from '../../src/operations/history/inputs-record.ts';
import { exampleNode, exampleProxying } from '../support/example-node.ts';

const [seconds = '0', folder = ''] = process.argv.slice(2);
const pods = 110;
const changes = 150;
let nowMs = 0;

const bridge = new DesiredState<BridgeKey, BridgeValue>({ equal: (a, b) => a === b });
const present = new Map<Owner, PodIntent>();
const running = () => ({
  environment: exampleNode,
  services: { proxying: exampleProxying, served: () => [], portsOf: () => new Map() },
  peers: { intents: () => [] },
  ipam: { leases: () => [...present.keys()].map((owner) => ({ state: 'allocated', owner })) },
  network: { inputOf: ({ owner }: { readonly owner: Owner }) => ({ owner, intent: present.get(owner) }) },
  policy: { inputs: () => [] },
});
const clocks = { now: () => nowMs, wallMs: () => 1_700_000_000_000 + nowMs };
const history = new History({
  folder,
  bytesMax: folder === '' ? 0 : 32 * 1024 * 1024,
  node: 'n1',
  version: '0.0.0',
  log: silentLog,
  ...clocks,
});
const port = { config: { nodeName: 'n1' }, nodeState: { bridge }, turns: new LoopTurns(10), running };
// The parts of the agent that are read; types of the rest do not matter here.
const record = new InputsRecord({ port, history, log: silentLog, ...clocks } as unknown as InputsRecordOptions);

const ownerOfPod = (number: number): Owner => ownerOf('pod', 'default', `web-${number}`, 'eth0@abc');

/** Adds a pod, and removes the oldest: as the agent, it compiles flows, and notes what happened. */
function replacePod(number: number): void {
  const owner = ownerOfPod(number);
  const address = parseIp(`10.10.${number % 4}.${1 + (number % 250)}`);
  const mac = parseMac(`0e:00:00:00:00:${(16 + (number % pods)).toString(16)}`);
  const intent: PodIntent = { ofPort: 100 + (number % pods), mac, addresses: [address] };
  present.set(owner, intent);
  bridge.set(owner, encodeBridgeEntries(owner, compilePod(intent)));
  const subjects = [`pod/default/web-${number}`];
  history.note('cni.add', subjects, { tookMs: 10 + (number % 17), stages: { ipam: 2, flows: 5 + (number % 7) } });
  history.note('pod.flows', subjects, { tookMs: 5 + (number % 7) });
  const oldest = ownerOfPod(number - pods);
  if (!present.delete(oldest)) return;
  bridge.forget(oldest);
  history.note('cni.del', [`pod/default/web-${number - pods}`], { tookMs: 4 + (number % 5), stages: {} });
}

const collect = globalThis.gc ?? (() => undefined);
let count = 0;
/** Simulated seconds before the measurement: code is compiled by the engine. */
const WARM_UP = 20;
let before = process.cpuUsage();
for (let second = 0; second < WARM_UP + Number(seconds); second++) {
  if (second === WARM_UP) before = process.cpuUsage();
  nowMs += 1_000;
  for (let each = 0; each < changes / 2; each++) replacePod(count++);
  await history.flush();
  await record.round();
}
const { user, system } = process.cpuUsage(before);
collect();
const { rss } = process.memoryUsage();
console.log(JSON.stringify({ cpuPercent: (user + system) / 1e4 / Number(seconds), rssMiB: rss / 2 ** 20 }));
await history.close();
