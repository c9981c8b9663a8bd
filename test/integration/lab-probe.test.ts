import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ask, download, type Probe, upload } from '../../lab/probe/probe.ts';
import { Responder } from '../../lab/probe/responder.ts';

const signal = new AbortController().signal;
const suffix = randomBytes(3).toString('hex');
const [client, server] = [`seine-test-${suffix}-c`, `seine-test-${suffix}-s`];
let responder: Responder;

function ip(...args: string[]): void {
  const { status, stderr } = spawnSync('ip', args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(stderr);
}

beforeAll(async () => {
  for (const name of [client, server]) ip('netns', 'add', name);
  ip('-n', client, 'link', 'add', 'eth0', 'type', 'veth', 'peer', 'name', 'eth0', 'netns', server);
  for (const [name, host] of [
    [client, 1],
    [server, 2],
  ] as const) {
    ip('-n', name, 'link', 'set', 'eth0', 'up');
    ip('-n', name, 'link', 'set', 'lo', 'up');
    ip('-n', name, 'addr', 'add', `10.9.0.${host}/24`, 'dev', 'eth0');
    ip('-n', name, 'addr', 'add', `fd00:9::${host}/64`, 'dev', 'eth0', 'nodad');
  }
  const ports = [
    { protocol: 'tcp', port: 80 },
    { protocol: 'udp', port: 80 },
  ] as const;
  const addresses = { tcp: ['0.0.0.0', '::'], udp: ['10.9.0.2', 'fd00:9::2'] };
  responder = await Responder.start({ pod: 'default/web', node: 'node-1' }, server, addresses, ports, signal);
});

afterAll(() => {
  responder.close();
  for (const name of [client, server]) ip('netns', 'delete', name);
});

const probe = (part: Partial<Probe>): Probe => ({
  from: client,
  protocol: 'tcp',
  address: '10.9.0.2',
  port: 80,
  timeoutMs: 3_000,
  ...part,
});

for (const protocol of ['tcp', 'udp'] as const) {
  for (const [address, seen] of [
    ['10.9.0.2', /^10\.9\.0\.1:\d+$/],
    ['fd00:9::2', /^\[fd00:9::1\]:\d+$/],
  ] as const) {
    it(`reaches ${address} over ${protocol} and learns the responder and the address it saw`, async () => {
      const outcome = await ask(probe({ protocol, address }));
      expect(outcome).toMatchObject({ is: 'OK', answer: { pod: 'default/web', node: 'node-1', client: expect.stringMatching(seen) } });
    });

    it(`carries data to ${address} over ${protocol} without corruption`, async () => {
      const size = protocol === 'tcp' ? 1_048_576 : 4_000;
      expect(await upload(probe({ protocol, address }), size)).toMatchObject({ is: 'OK', answer: { received: size } });
    });

    it(`distinguishes a refused port of ${address} over ${protocol} from a silent one`, async () => {
      expect(await ask(probe({ protocol, address, port: 81 }))).toMatchObject({ is: 'REFUSED' });
    });
  }
}

it('receives data', async () => {
  expect(await download(probe({}), 1_048_576)).toBe(1_048_576);
});

it('waits no longer than its timeout for an unused address', async () => {
  const outcome = await ask(probe({ address: '10.9.0.99', timeoutMs: 300 }));
  expect(outcome.is).toBe('TIMEOUT');
  expect(outcome.ms).toBeLessThan(1_000);
});

it('reports the reason without a route', async () => {
  expect(await ask(probe({ address: '10.8.0.1' }))).toMatchObject({ is: 'UNREACHABLE', errno: 'ENETUNREACH' });
});
