import { expect, it } from 'vitest';
import { parseIp } from '../../base/net/ip.ts';
import { ownerOf } from '../../dataplane/pipeline/cookie.ts';
import type { Pod } from '../../kubernetes/resources/pod.ts';
import { LocalSubjects } from './local-subjects.ts';

const asTheApiHasIt: Pod = {
  namespace: 'shop',
  name: 'db',
  uid: 'u',
  nodeName: 'n1',
  podIps: [],
  hostNetwork: false,
  labels: { app: 'db' },
  ports: { 'http/TCP': 80 },
  phase: 'Pending',
  deleting: false,
};

it.each([[[]], [['10.1.0.9']]])('a pod has the addresses of the journal, if the API server has %j', (podIps) => {
  const subjects = new LocalSubjects();
  const pod = { namespace: 'shop', name: 'db', uid: 'u' };
  subjects.add({ owner: ownerOf('subject', 'db'), ofPort: 32784, addresses: [parseIp('10.1.0.5'), parseIp('fd00:1::5')], pod });
  const { labels, ports, ...known } = subjects.policyPod('shop/db', 'n1', { ...asTheApiHasIt, podIps } as Pod);
  expect(known).toEqual({ namespace: 'shop', name: 'db', nodeName: 'n1', podIps: ['10.1.0.5', 'fd00:1::5'] });
  expect([labels, ports]).toEqual([{ app: 'db' }, { 'http/TCP': 80 }]);
});
