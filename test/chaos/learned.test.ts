import { expect, it } from 'vitest';
import type { ApiObject } from './api.ts';
import { assessLearned, numberOf, readLearned } from './learned.ts';

const v4 = (endpoint: string): string =>
  `cookie=0x1ff00000000aa, table=24, idle_timeout=10800, priority=200,tcp,reg0=0x3/0xf,nw_src=10.244.4.4,nw_dst=10.96.0.9,tp_dst=80 actions=${endpoint}`;
const setField = 'set_field:0xaf40405->reg3,set_field:0x51/0xffff->reg4,set_field:0x20000/0x70000->reg4';

const service: ApiObject = {
  metadata: { name: 'web', namespace: 'shop' },
  spec: { sessionAffinity: 'ClientIP', clusterIPs: ['10.96.0.9'], ports: [{ name: 'http', protocol: 'TCP', port: 80 }] },
};
const slice = (conditions: object): ApiObject => ({
  metadata: { name: 'web-1', namespace: 'shop', labels: { 'kubernetes.io/service-name': 'web' } },
  ports: [{ name: 'http', protocol: 'TCP', port: 81 }],
  endpoints: [{ addresses: ['10.244.4.5'], nodeName: 'node-1', conditions }],
});
const assess = (of: ApiObject, endpoints: readonly ApiObject[], line = v4(setField)): number =>
  assessLearned([line], [of], endpoints, 'node-1').length;

it('reads a learned flow, in either notation and family', () => {
  const wanted = { protocol: 'tcp', address: numberOf('10.96.0.9'), port: 80, endpoint: numberOf('10.244.4.5'), endpointPort: 81 };
  expect(readLearned(v4(setField))).toEqual(wanted);
  expect(readLearned(v4('load:0xaf40405->NXM_NX_REG3[],load:0x51->NXM_NX_REG4[0..15],load:0x2->NXM_NX_REG4[16..18]'))).toEqual(wanted);
  const v6 = 'cookie=0x1ff00000000aa, table=24, priority=200,udp6,ipv6_src=fd00::1,ipv6_dst=fd00:96::9,tp_dst=80';
  const to = 'set_field:0xfd000010024400000000000000000005->xxreg3,set_field:0x51/0xffff->reg4';
  expect(readLearned(`${v6} actions=${to}`)).toMatchObject({
    protocol: 'udp',
    endpoint: numberOf('fd00:10:244::5'),
    address: numberOf('fd00:96::9'),
  });
  expect(() => readLearned(v4('drop'))).toThrow('cannot be parsed');
});

it('accepts an endpoint that the Service may use for the client, and no other', () => {
  expect(assess(service, [slice({ ready: true })])).toBe(0);
  expect(assess(service, [slice({ ready: false, serving: true, terminating: true })])).toBe(0);
  expect(assess(service, [slice({ ready: false, serving: false })])).toBe(1);
  expect(assess(service, [])).toBe(1);
  expect(assess({ ...service, spec: { ...service.spec, sessionAffinity: 'None' } }, [slice({})])).toBe(1);
  expect(assess({ ...service, spec: { ...service.spec, clusterIPs: ['10.96.0.8'] } }, [slice({})])).toBe(1);
  const local = { ...service, spec: { ...service.spec, internalTrafficPolicy: 'Local' } };
  expect(assessLearned([v4(setField)], [local], [slice({})], 'node-2')).toHaveLength(1);
});

it('ignores a flow that only has the cookie of learned ones', () => {
  expect(assess(service, [slice({})], 'cookie=0x1ff0000000000, table=14, priority=65000,ip actions=drop')).toBe(1);
  expect(assess(service, [slice({})], v4(setField).replace('0x1ff', '0xff'))).toBe(1);
});
