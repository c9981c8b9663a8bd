import { expect, it } from 'vitest';
import { dropNames } from '../../src/dataplane/pipeline/drops.ts';
import { firing, readAlerts, scrapeOf } from '../chaos/alerts.ts';

it('SeineDrops is true for drops that no policy and no sender causes, from one packet a second on', () => {
  const alerts = readAlerts().filter(({ name }) => name === 'SeineDrops');
  const dropsOf = (reason: string, packets: number): string => `seine_agent_drops_total{reason="${reason}"} ${packets}`;
  const firingFor = (reason: string, packets: number) => {
    const scrapes = [0, packets].map((each, at) => scrapeOf(at * 60_000, dropsOf(reason, each), new Set(['seine_agent_drops_total'])));
    return firing(alerts, scrapes).map(({ description }) => description);
  };
  expect(firingFor('switch.unknown', 120)).toEqual(['SeineDrops reason=switch.unknown']);
  expect(firingFor('switch.unknown', 30)).toEqual([]);
  const silent = dropNames.filter((name) => firingFor(name, 1_000).length === 0);
  expect(silent).toEqual(expect.arrayContaining(['policy.egress', 'policy.ingress', 'spoofed.address', 'connection.invalid', 'ttl']));
  expect(dropNames.length - silent.length).toBe(11);
});
