import type { KubeApi } from '../kube/kube-api.ts';
import type { PodStatusLine } from './status.ts';

/** What runs the pods of a lab's nodes: the lab's own kubelets, or real ones. */
export interface PodRunners {
  readonly running: readonly PodStatusLine[];
  /** Starts it on every node; pods are run from then on, for as long as the signal lets it. */
  start(api: KubeApi, pluginFolders: readonly string[], signal: AbortSignal): Promise<void>;
  /** Does this node take pods? */
  isReady(node: string): boolean;
  /** Runs CHECK of the plugin chain. @throws SeineError `REFUSED` naming what differs, `INVALID_INPUT` if no such pod runs */
  check(namespace: string, name: string, signal: AbortSignal): Promise<void>;
  /** Resolves when what lives in this process has ended, after the signal. */
  ended(): Promise<void>;
}
