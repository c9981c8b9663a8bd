/** A fleet for `fleet-rows.ts`, as a separate process: `node fleet-server.ts NODES DELAY-MS KEY-FILE CERTIFICATE-FILE` prints its port. */
import { readFileSync } from 'node:fs';
import { FakeFleet, fakeStatus } from '../support/fake-fleet.ts';

const [nodes = '', delay = '', key = '', cert = ''] = process.argv.slice(2);
const fleet = new FakeFleet({
  agents: Array.from({ length: Number(nodes) }, (_, at) => ({ node: `node-${at + 1}`, reply: { answer: fakeStatus(`node-${at + 1}`) } })),
  delayMs: Number(delay),
  tls: { key: readFileSync(key, 'utf8'), cert: readFileSync(cert, 'utf8') },
});
console.log(await fleet.listen());
