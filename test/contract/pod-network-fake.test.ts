import { FakePodNetwork } from '../../src/pods/cni-server/testing/pod-network-fake.ts';
import { podNetworkContract } from './pod-network.ts';

podNetworkContract('FakePodNetwork', async () => {
  const network = new FakePodNetwork();
  let made = 0;
  network.namespaces.add('/run/netns/of-missing'); // with one, others do not exist
  return {
    network,
    makeNamespace: () => {
      const path = `/run/netns/n${++made}`;
      network.namespaces.add(path);
      return path;
    },
    removeNamespace: (path) => network.namespaces.delete(path),
    unusable: { 'not there': '/run/netns/none-such' },
    remains: async () => [...network.wired.keys()].toSorted(),
    close: async () => {},
  };
});
