import { expect, it } from 'vitest';
import { generator } from '../../../test/support/random.ts';
import { parseIp } from '../../base/net/ip.ts';
import { RecordedOpenings } from './recorded-openings.ts';
import { FlowRing } from './records/flow-ring.ts';
import type { SeenConnection } from './sources/attribution.ts';

const RECORDS = 4_096;

const random = generator(45);
const up = (limit: number): number => Math.floor(random() * limit);
const connections = Array.from({ length: RECORDS }, (_, number): SeenConnection => {
  const destination = { ip: parseIp(`10.0.1.${up(256)}`), port: 8_080 };
  // One of sixteen does not go through a Service.
  const asked = number % 16 === 0 ? destination : { ip: parseIp(`10.96.0.${up(256)}`), port: 80 };
  return { protocol: 6, source: { ip: parseIp(`10.0.0.${up(256)}`), port: 32_768 + up(28_000) }, destination, asked };
});

it('finds nine of ten direct connections of a full log, although those through a Service have two entries', () => {
  const ring = new FlowRing(RECORDS);
  const openings = new RecordedOpenings(ring, RECORDS);
  for (const connection of connections) {
    const { protocol, source, destination, asked = destination } = connection;
    const number = ring.add({
      ...{ timeMs: 0, event: 'opened', verdict: 'allowed', reporter: 'source', protocol },
      source: { ...source, kind: 'pod' },
      destination: { ...destination, kind: 'pod' },
      ...(asked !== destination && { service: asked }),
    });
    openings.add(connection, number);
  }
  const direct = connections.filter(({ destination, asked }) => asked === destination);
  expect(direct.filter((connection) => openings.of(connection)).length / direct.length).toBeGreaterThan(0.9);
});
