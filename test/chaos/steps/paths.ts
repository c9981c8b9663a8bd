import { randomBytes } from 'node:crypto';
import { runOn } from '../host.ts';
import type { Random } from '../random.ts';
import type { Scene } from '../scene.ts';
import { nothingThere, type StepKind } from '../step.ts';
import { peersOf, setWireGuard, wireGuardDevice } from '../wireguard.ts';
import { faultStep } from './host.ts';

/*
 * Faults of ways between nodes other than the tunnel: routes, keys, devices and tables that another program changes, and a link that is cut.
 */

const cutMs = 3_000;
const foreignMs = 1_500;
const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

interface Route {
  readonly dst: string;
  readonly gateway?: string;
}

/** Seine's routes over a link. */
async function routesOver({ lab }: Scene, link: string, family: '-4' | '-6'): Promise<readonly Route[]> {
  const text = await lab.on('ip', '-j', family, 'route', 'show', 'dev', link, 'proto', '94');
  return text.trim() === '' ? [] : (JSON.parse(text) as Route[]).toSorted((one, other) => (one.dst < other.dst ? -1 : 1));
}

/** A change of one of Seine's routes to peers over a link, in either family. */
function ofRoute(
  name: string,
  link: (scene: Scene) => string,
  change: (scene: Scene, family: '-4' | '-6', route: Route) => Promise<unknown>,
) {
  return faultStep(name, 'host', 'announced', async (scene, random: Random) => {
    const family = random.pick(['-4', '-6'] as const);
    const route = random.maybe(await routesOver(scene, link(scene), family));
    if (route === undefined) return nothingThere;
    await change(scene, family, route);
    return route.dst;
  });
}

/** Seine's route is deleted while another program has one to the same network, with a worse metric: the agent must not replace that. */
async function besideForeign({ lab }: Scene, family: '-4' | '-6', { dst }: Route, link: string): Promise<void> {
  const foreign = ['blackhole', dst, 'proto', 'static', 'metric', '5000'];
  await lab.on('ip', family, 'route', 'add', ...foreign);
  await lab.on('ip', family, 'route', 'del', dst, 'dev', link, 'proto', '94');
  await pause(foreignMs);
  await lab.on('ip', family, 'route', 'del', ...foreign); // fails if it was replaced
}

/** The link of the other node is down for a while: everything between the nodes is lost, and nothing on the node changes. */
const cut: StepKind = {
  name: 'path.link cut',
  changes: 'node',
  deadline: 'announced',
  alone: true,
  draw: ({ lab }) =>
    lab.options.datapath === 'system'
      ? undefined
      : {
          what: '',
          act: async () => {
            await runOn(lab.other, 'ip', 'link', 'set', 'eth0', 'down');
            await pause(cutMs);
            await runOn(lab.other, 'ip', 'link', 'set', 'eth0', 'up');
          },
        },
};

const transport = ({ lab }: Scene): string => lab.transportLink;
const device = (): string => wireGuardDevice;

/** Steps for labs without a tunnel. */
export const directSteps: readonly StepKind[] = [
  cut,
  ofRoute('direct.route beside a foreign one', transport, (scene, family, route) => besideForeign(scene, family, route, transport(scene))),
  ofRoute('direct.route deleted', transport, ({ lab }, family, { dst }) => lab.on('ip', family, 'route', 'del', dst, 'proto', '94')),
  ofRoute('direct.route blackholed', transport, ({ lab }, family, { dst }) =>
    lab.on('ip', family, 'route', 'replace', 'blackhole', dst, 'proto', '94'),
  ),
  faultStep('direct.plain set flushed', 'firewall', 'announced', ({ lab }) => lab.on('nft', 'flush set inet seine plain4')),
  // Until it is restored, the node masquerades packets to pods of other nodes, like those to external addresses.
  {
    ...faultStep('direct.pods set flushed', 'firewall', 'announced', ({ lab }) => lab.on('nft', 'flush set inet seine pods4')),
    translates: true,
  },
];

/** Steps for labs with encryption. */
export const encryptionSteps: readonly StepKind[] = [
  cut,
  ofRoute('wireguard.route beside a foreign one', device, (scene, family, route) => besideForeign(scene, family, route, wireGuardDevice)),
  ofRoute('wireguard.route deleted', device, ({ lab }, family, { dst }) =>
    lab.on('ip', family, 'route', 'del', dst, 'dev', wireGuardDevice, 'proto', '94'),
  ),
  faultStep('wireguard.blackholes deleted', 'host', 'announced', async ({ lab }) => {
    const text = await lab.on('ip', '-j', 'route', 'show', 'type', 'blackhole', 'proto', '94');
    const [first] = text.trim() === '' ? [] : (JSON.parse(text) as Route[]);
    if (first === undefined) return nothingThere;
    return await lab.on('ip', 'route', 'del', 'blackhole', first.dst, 'proto', '94');
  }),
  faultStep('wireguard.device down', 'wireguard', 'announced', ({ lab }) => lab.on('ip', 'link', 'set', wireGuardDevice, 'down')),
  faultStep('wireguard.device deleted', 'wireguard', 'restarted', ({ lab }) => lab.on('ip', 'link', 'delete', wireGuardDevice)),
  faultStep('wireguard.device mtu', 'wireguard', 'announced', ({ lab }) => lab.on('ip', 'link', 'set', wireGuardDevice, 'mtu', '1300')),
  faultStep('wireguard.key changed', 'wireguard', 'swept', ({ lab }) =>
    setWireGuard(lab.tried, `private_key=${randomBytes(32).toString('hex')}`),
  ),
  faultStep('wireguard.peers removed', 'wireguard', 'swept', ({ lab }) => setWireGuard(lab.tried, 'replace_peers=true')),
  faultStep('wireguard.foreign peer', 'wireguard', 'swept', ({ lab }) =>
    setWireGuard(lab.tried, `public_key=${randomBytes(32).toString('hex')}`, 'allowed_ip=192.0.2.0/24'),
  ),
  faultStep('wireguard.networks of a peer', 'wireguard', 'swept', async ({ lab }, random) => {
    const key = random.maybe(await peersOf(lab.tried));
    if (key === undefined) return nothingThere;
    await setWireGuard(lab.tried, `public_key=${key}`, 'replace_allowed_ips=true', 'allowed_ip=192.0.2.0/24');
    return key;
  }),
  faultStep('clear.table deleted', 'firewall', 'announced', ({ lab }) => lab.on('nft', 'delete table inet seine-clear')),
  faultStep('clear.rules flushed', 'firewall', 'announced', ({ lab }) => lab.on('nft', 'flush table inet seine-clear')),
  faultStep('clear.rule inserted', 'firewall', 'announced', ({ lab }) => lab.on('nft', 'insert rule inet seine-clear forward accept')),
];
