import { expect, it } from 'vitest';
import { attachedPod } from './attachments.ts';

const netns = '/lab/nodes/node-1/netns/cni-1';
const record = {
  kind: 'cniCacheV1',
  containerId: 'c1',
  networkName: 'seine',
  cniArgs: [
    ['IgnoreUnknown', '1'],
    ['K8S_POD_NAMESPACE', 'default'],
    ['K8S_POD_NAME', 'a'],
  ],
  result: {
    interfaces: [{ name: 'veth1' }, { name: 'eth0', sandbox: netns }],
    ips: [{ address: '10.244.0.2/22' }, { address: 'fd00::2/64' }],
  },
};

it('reads pods that the runtime recorded', () => {
  expect(attachedPod(JSON.stringify(record), 'seine')).toEqual({
    namespace: 'default',
    name: 'a',
    containerId: 'c1',
    netns,
    ips: ['10.244.0.2', 'fd00::2'],
  });
});

it('omits other networks, incomplete files, and deleted pods', () => {
  expect(attachedPod(JSON.stringify(record), 'cni-loopback')).toBeUndefined();
  expect(attachedPod(JSON.stringify(record).slice(0, 80), 'seine')).toBeUndefined();
  expect(attachedPod(JSON.stringify({ ...record, result: {} }), 'seine')).toBeUndefined();
  expect(attachedPod(undefined, 'seine')).toBeUndefined();
});
