import { expect, it } from 'vitest';
import { parseIp } from '../../base/net/ip.ts';
import { parseMac } from '../../base/net/mac.ts';
import { compilePod } from '../../dataplane/compile/compile-pod.ts';
import { podIntent } from './pod-intent.ts';

const [ip, gateway] = [parseIp('10.1.0.5'), parseIp('10.1.0.1')];
const pod = { mac: parseMac('02:00:00:00:00:05'), addresses: [{ ip, prefixLength: 22, gateway }], egress: { rate: 1e6, burst: 1e6 } };
const { egress: _egress, ...unlimited } = pod;
const both = { ...pod, ingress: { rate: 2e6, burst: 2e6 }, limits: 'both' as const };
const { limits: _limits, ...ofChain } = both;

it.each([
  ['netdev', 'a pod with a limit', 1, pod],
  ['netdev', 'a pod without', 0, unlimited],
  ['system', 'a pod with a limit', 0, pod],
  ['netdev', 'a pod that the switch limits in both directions', 2, both],
  ['system', 'a pod that the switch limits in both directions', 2, both],
  ['netdev', 'a pod that a chained plugin limits as well', 1, ofChain],
] as const)('on the data path %s, %s has %i meters', (datapathType, _what, meters, attachment) => {
  const wanted = compilePod(podIntent(attachment, { ofPort: 32_784, datapathType }));
  expect(wanted.meters).toHaveLength(meters);
  expect(wanted.flows.some(({ steps }) => steps.some((step) => step.do === 'meter'))).toBe(meters > 0);
});

it('on the kernel’s data path a bucket is large enough for a merged packet of the kernel', () => {
  const small = { ...both, egress: { rate: 1e6, burst: 1_000 } };
  expect(podIntent(small, { ofPort: 32_784, datapathType: 'system' }).egress).toEqual({ rate: 1e6, burst: 524_400 });
  expect(podIntent(small, { ofPort: 32_784, datapathType: 'netdev' }).egress).toEqual({ rate: 1e6, burst: 1_000 });
});
