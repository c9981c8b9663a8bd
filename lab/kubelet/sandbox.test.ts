import { expect, it } from 'vitest';
import type { PodSpec } from './pod-spec.ts';
import { capabilitiesOf } from './sandbox.ts';

const container = { name: 'c', image: 'i', args: [], env: [] };
const pod: PodSpec = {
  namespace: 'default',
  name: 'web',
  uid: 'u',
  hostNetwork: false,
  restartPolicy: 'Always',
  annotations: {},
  containers: [{ ...container, ports: [{ containerPort: 80, protocol: 'TCP' }] }],
};
const unlimited = { ingressRate: 0, ingressBurst: 0, egressRate: 0, egressBurst: 0 };

it('passes host ports to the plugin with portMappings', () => {
  const ports = [
    { containerPort: 80, hostPort: 8080, protocol: 'TCP' },
    { containerPort: 53, hostPort: 5353, hostIP: '10.0.0.1', protocol: 'UDP' },
    { containerPort: 81, protocol: 'TCP' },
  ] as const;
  expect(capabilitiesOf({ ...pod, containers: [{ ...container, ports: [...ports] }] })).toEqual({
    portMappings: [
      { hostPort: 8080, containerPort: 80, protocol: 'tcp', hostIP: '' },
      { hostPort: 5353, containerPort: 53, protocol: 'udp', hostIP: '10.0.0.1' },
    ],
    bandwidth: unlimited,
  });
});

it.each([
  ['10M', 10_000_000],
  ['1Gi', 1_073_741_824],
  ['1.5k', 1_500],
  ['1000', 1_000],
])('reads %s as %d bits a second', (quantity, bits) => {
  const annotations = { 'kubernetes.io/egress-bandwidth': quantity };
  expect(capabilitiesOf({ ...pod, annotations })).toEqual({ bandwidth: { ...unlimited, egressRate: bits, egressBurst: 2_147_483_647 } });
});

it('sets no limit for an invalid quantity', () => {
  expect(capabilitiesOf({ ...pod, annotations: { 'kubernetes.io/ingress-bandwidth': 'much' } })).toEqual({ bandwidth: unlimited });
});
