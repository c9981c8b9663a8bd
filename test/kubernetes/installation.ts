import { agentImage, ovsImage } from '../runtime/image-builder.ts';
import { testPodInterface } from '../support/test-datapath.ts';
import { print, type RealCluster } from './cluster.ts';
import { commandOf } from './page-commands.ts';

export const page = 'docs/installation/manifest.md';
/** Further options for this cluster: packets pass a bridge that has the node's address, and no kernel's data path. */
const clusterOptions = ['--datapath netdev --set transportInterface=br-phy', ...podInterfaceOption()].join(' ');

/** Kind of interface, if a run requests another than the default. */
function podInterfaceOption(): readonly string[] {
  const { podInterface } = testPodInterface;
  return podInterface === undefined ? [] : [`--set podInterface=${podInterface}`];
}

/** An installation of Seine by the commands of the page, with this cluster's names in place of the page's. */
export class Installation {
  readonly #cluster: RealCluster;

  constructor(cluster: RealCluster) {
    this.#cluster = cluster;
  }

  /** The page's call of the renderer, with further options. */
  renderCommand(more = '', names = this.imageOptions()): string {
    const command = this.#pageCommand().replaceAll(/ --(?:agent|ovs)-image \S+/g, '');
    return `${command} ${names} ${clusterOptions}${more}`;
  }

  /** A call of the renderer on another page, with the options of this installation, as the page requires. */
  withOptions(command: string): string {
    const [server = ''] = /--api-server \S+/.exec(this.#pageCommand()) ?? [];
    const [, call = '', comment = ''] = /^(.*?)(\s+#.*)?$/.exec(command.replace(/ --agent-image \S+/, '')) ?? [];
    const images = comment.includes('without --ovs-image') ? `--agent-image ${agentImage}` : this.imageOptions();
    return `${call} ${server} ${images} ${clusterOptions}${comment}`;
  }

  /** Options of images in the form that the page passes to the renderer. */
  imageOptions(agent = agentImage): string {
    const options = this.#pageCommand().match(/--(?:agent|ovs)-image \S+/g) ?? [];
    return options
      .join(' ')
      .replace(/\S+\/agent:\S+/, agent)
      .replace(/\S+\/ovs:\S+/, ovsImage);
  }

  /** Waits until nodes and agents are ready, for the given time (s). */
  #pageCommand(): string {
    return commandOf(page, 'Install', 'npm run render').replace('CONTROL-PLANE-ADDRESS', this.#server);
  }

  async apply(more?: string, names?: string): Promise<void> {
    await this.#cluster.type(this.renderCommand(more, names));
    await this.#cluster.type(commandOf(page, 'Install', 'kubectl apply'));
  }

  /** Waits until nodes and agents are ready, with the patience that is given (s). */
  async untilReady(patience: number): Promise<void> {
    await this.#cluster.wait(patience, '--for=condition=Ready', 'nodes', '--all');
    print('nodes are Ready');
    await this.#cluster.wait(patience, '--for=condition=Ready', 'pod', '-n', 'seine-system', '--all');
    print('agents are ready');
  }

  async untilNamesAreServed(patience: number): Promise<void> {
    await this.#cluster.kubectl('-n', 'kube-system', 'rollout', 'status', 'deployment/coredns', `--timeout=${patience}s`);
  }

  get #server(): string {
    return new URL(this.#cluster.plan.management.apiServerUrl).hostname;
  }
}
