import { expect, it } from 'vitest';
import { compilePod } from '../connectivity/compile-pod.ts';
import { parseIp } from '../net/ip.ts';
import { parseMac } from '../net/mac.ts';
import { podIntent } from './pod-intent.ts';

const [ip, gateway] = [parseIp('10.1.0.5'), parseIp('10.1.0.1')];
const pod = { mac: parseMac('02:00:00:00:00:05'), addresses: [{ ip, prefixLength: 22, gateway }], egress: { rate: 1e6, burst: 1e6 } };
const { egress: _egress, ...unlimited } = pod;

it.each([
  ['netdev', 'a pod with a limit', 1, pod],
  ['netdev', 'a pod without', 0, unlimited],
  ['system', 'a pod with a limit', 0, pod],
] as const)('on the data path %s, %s has %i meters', (datapathType, _what, meters, attachment) => {
  const wanted = compilePod(podIntent(attachment, { ofPort: 32_784, datapathType }));
  expect(wanted.meters).toHaveLength(meters);
  expect(wanted.flows.some(({ steps }) => steps.some((step) => step.do === 'meter'))).toBe(meters > 0);
});
