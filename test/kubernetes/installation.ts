import { agentImage, ovsImage } from '../runtime/image-builder.ts';
import { testPodInterface } from '../support/test-datapath.ts';
import { type RealCluster, say } from './cluster.ts';
import { commandOf } from './page-commands.ts';

export const page = 'docs/installation/manifest.md';
/** What this cluster needs besides: packets go through a bridge that has the node's address, and no kernel's data path. */
const clusterOptions = ['--datapath netdev --set transportInterface=br-phy', ...podInterfaceOption()].join(' ');

/** Where a run asks for another kind than the default. */
function podInterfaceOption(): readonly string[] {
  const { podInterface } = testPodInterface;
  return podInterface === undefined ? [] : [`--set podInterface=${podInterface}`];
}

/** An installation of Seine by the commands of the page, with what this cluster has in the place of what everybody's is called. */
export class Installation {
  readonly #cluster: RealCluster;

  constructor(cluster: RealCluster) {
    this.#cluster = cluster;
  }

  /** The page's call of the renderer, and more options. */
  renderCommand(more = '', names = this.imageOptions()): string {
    const command = this.#pageCommand().replaceAll(/ --(?:agent|ovs)-image \S+/g, '');
    return `${command} ${names} ${clusterOptions}${more}`;
  }

  /** A call of the renderer on another page, with the options of this installation, as the page asks for. */
  withOptions(command: string): string {
    const [server = ''] = /--api-server \S+/.exec(this.#pageCommand()) ?? [];
    const [, call = '', comment = ''] = /^(.*?)(\s+#.*)?$/.exec(command.replace(/ --agent-image \S+/, '')) ?? [];
    const images = comment.includes('without --ovs-image') ? `--agent-image ${agentImage}` : this.imageOptions();
    return `${call} ${server} ${images} ${clusterOptions}${comment}`;
  }

  /** As the page gives them to the renderer. */
  imageOptions(agent = agentImage): string {
    const options = this.#pageCommand().match(/--(?:agent|ovs)-image \S+/g) ?? [];
    return options
      .join(' ')
      .replace(/\S+\/agent:\S+/, agent)
      .replace(/\S+\/ovs:\S+/, ovsImage);
  }

  /** The page's call of the renderer, with the address of this cluster. */
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
    say('nodes are Ready');
    await this.#cluster.wait(patience, '--for=condition=Ready', 'pod', '-n', 'seine-system', '--all');
    say('agents are ready');
  }

  async untilNamesAreServed(patience: number): Promise<void> {
    await this.#cluster.kubectl('-n', 'kube-system', 'rollout', 'status', 'deployment/coredns', `--timeout=${patience}s`);
  }

  get #server(): string {
    return new URL(this.#cluster.plan.management.apiServerUrl).hostname;
  }
}
