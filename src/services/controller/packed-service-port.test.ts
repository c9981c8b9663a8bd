import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseIp } from '../../base/net/ip.ts';
import { type Owner, ownerOf } from '../../dataplane/pipeline/cookie.ts';
import type { ServiceIntent } from '../compile/service-intent.ts';
import { PackedServicePort, PortsOfServices, type ServedPort } from './packed-service-port.ts';

const intent: ServiceIntent = {
  name: 'http/ipv4',
  family: 'ipv4',
  transport: 'tcp',
  port: 80,
  addresses: [{ kind: 'cluster', ip: parseIp('10.96.0.1'), port: 80 }],
  internalPolicy: 'Cluster',
  externalPolicy: 'Cluster',
  translation: 'bucket',
  sourceRanges: [],
  cluster: [{ ip: parseIp('10.10.0.5'), port: 8080 }],
  local: [],
  anyEndpoint: true,
  objections: [],
};

describe('a cached Service port', () => {
  it('has the numbers of its groups, of none, of the usual one and of others', () => {
    const names = fc.constantFrom('cluster/0', 'cluster/1', 'local/0', 'cluster at 10.96.0.1 80/0');
    const groups = fc.array(fc.tuple(names, fc.integer({ min: 1, max: 0xffff_ff00 })), { maxLength: 4 }).map((all) => new Map(all));
    fc.assert(
      fc.property(groups, (given) => {
        const kept = new PackedServicePort(intent, given);
        expect([...kept.groups]).toEqual([...given]);
        expect(kept.intent).toEqual(intent);
      }),
    );
  });
});

describe('ports of Services', () => {
  it('are those that were set last', () => {
    const owners = ['a', 'b', 'c'].map((name) => ownerOf('service', `default/x:${name}`));
    const port: ServedPort = new PackedServicePort(intent, new Map());
    const some = fc.subarray(owners).map((which) => new Map(which.map((owner) => [owner, port])));
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.constantFrom('default/x', 'default/y'), some), { maxLength: 12 }), (changes) => {
        const ports = new PortsOfServices();
        const model = new Map<string, ReadonlyMap<Owner, ServedPort>>();
        for (const [service, given] of changes) {
          ports.set(service, given);
          if (given.size === 0) model.delete(service);
          else model.set(service, given);
        }
        expect(ports.size).toBe(model.size);
        for (const service of ['default/x', 'default/y', 'default/z']) {
          expect(ports.has(service)).toBe(model.has(service));
          expect([...ports.of(service)]).toEqual([...(model.get(service) ?? [])]);
        }
        expect([...ports.all()]).toEqual([...model.values()].flatMap((each) => [...each]));
      }),
    );
  });
});
