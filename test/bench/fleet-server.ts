/** A fleet for `fleet-rows.ts`, as a separate process: `node fleet-server.ts NODES DELAY-MS KEY-FILE CERTIFICATE-FILE` prints its port. */
import { readFileSync } from 'node:fs';
import { type FakeAgent, FakeFleet, fakeStatus } from '../support/fake-fleet.ts';

const [nodes = '', delay = '', key = '', cert = ''] = process.argv.slice(2);
/** Replies of impaired agents by their place in a hundred: three do not answer and one returns false data. */
const impaired = new Map<number, FakeAgent['reply']>([
  [10, 'silent'],
  [40, 'silent'],
  [70, 'silent'],
  [90, { answer: JSON.stringify({ readiness: { state: 'ready' }, problems: '<script>', versions: [] }) }],
]);
const fleet = new FakeFleet({
  agents: Array.from({ length: Number(nodes) }, (_, at) => ({
    node: `node-${at + 1}`,
    reply: impaired.get(at % 100) ?? { answer: fakeStatus(`node-${at + 1}`) },
  })),
  delayMs: Number(delay),
  tls: { key: readFileSync(key, 'utf8'), cert: readFileSync(cert, 'utf8') },
});
console.log(await fleet.listen());
