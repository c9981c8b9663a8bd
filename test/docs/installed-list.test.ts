import { expect, it } from 'vitest';
import { conflist } from '../../build/manifests/configuration.ts';
import { chainConfList } from '../../lab/kubelet/cni-conf.ts';

it('installs the list of plugins that the lab tests, except the paths of a lab’s node', () => {
  const places = { agentSocket: '/lab/agent.sock', stateDir: '/lab/state', deadline: 7 };
  const { cniVersions: _, ...tested } = JSON.parse(chainConfList(places, [])) as {
    readonly cniVersions: unknown;
    readonly plugins: object[];
  };
  const installed = JSON.parse(conflist()) as { readonly plugins: object[] };
  expect({ ...installed, plugins: installed.plugins.map((plugin) => ({ ...plugin, ...places })) }).toEqual(tested);
});
